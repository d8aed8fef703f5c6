"""Notes for the data holder about joins whose keys meet no row, texts that no cell has, and sums that are null.

A join of users 1, 2 and 3 with users 000001, 000002 and 000003 has no rows, and neither has a filter such as city =
'paris' on cells Paris. Such a question would be charged, and its answer would be noise alone. The counts are exact, so
they are only for the data holder.

A bank statement has an empty cell in one of two columns of each line, so that debit - credit is null on each line, and
its sum 0. That is right in SQL, but hardly what was meant.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote, split
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import apply_description, description_of, files_of, magic_of
from setwise.analytics.engines.joins import Join, JoinInput, types_of_keys
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.tables.copies.clean_copies import with_changed_cells
from setwise.analytics.tables.scan_notes import ADDED_KINDS, NullSum, ScanNote, TableToScan
from setwise.errors import SetwiseError

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.key_counts import NearKeys
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

_ONE_WAY = "[+]?0*([0-9]+)([.]0*)?|(?s:.+)"
"""The regular expression of a key; its first group is a whole number without the zeros around it."""
_MOST_CELLS = 3
"""The most cells that a note shows."""
_MOST_TEXTS = 50
"""The most texts of one statement that are looked up in a column."""


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table that a question joins, opened to look up its keys.

    - `scanned` says where the table is and how its cells are to be read.
    - `table` is the table as DuckDB reads it, and `schema` has its columns.
    """

    scanned: TableToScan
    table: "DuckDBTable"
    schema: Schema


def join_notes(main: TableToScan, joinable: Mapping[str, TableToScan], joins: Sequence[Join]) -> list[ScanNote]:
    """Return notes about keys of `joins` that have no equal key in the joined table, with advice on how to change that.

    A question is to be refused if no key of a join has an equal one in the joined table; but not if the join is a LEFT
    JOIN, or stands for a condition such as IN (SELECT ..). It is always to be refused if a key lacks an equal one only
    because of its spelling: its case, blanks, leading zeros or invisible characters.

    - `main` is the first table of the SELECT.
    - `joinable` has the tables that may be joined, by name.
    """
    notes = []
    opened = {"": open_to_scan(main, {})}
    for join in joins:
        if join.table not in joinable:
            continue
        scanned = joinable[join.table]
        joined = open_to_scan(scanned, {})
        # Keys that a subquery computed are no cells of a file.
        is_computed = join.rows and any(key.joined != main.user for key in join.keys)
        pairs = [_pair(opened, key.earlier, key.column) for key in join.keys]
        names = {name for name, _ in pairs}
        (name,) = names if len(names) == 1 else (None,)
        if name is not None and not is_computed:
            earlier = opened[name]
            part = JoinInput(name=name, schema=earlier.schema, private=True)
            types = {} if scanned.user is not None else types_of_keys(join, [part], joined.schema)
            joined = open_to_scan(scanned, types) if types else joined
            columns = [(key.column, key.joined) for key in join.keys]
            if all(key.joined in joined.schema.names for key in join.keys):
                notes += _notes_of_join(join, earlier, joined, columns)
        opened[join.name] = joined
    return notes


def _pair(opened: Mapping[str, OpenedTable], named: str | None, column: str) -> tuple[str | None, str]:
    """Return (name, column), where `name` is the first of the `opened` tables that has the key `column`, or None.

    `named` is the table that the join condition names, or None if it names none. If it names one, only this table is
    looked up. The first table of the SELECT is called "" in `opened`, so a table name that is not in `opened` means
    this table.
    """
    if named is not None:
        name = named if named in opened else ""
        return (name if column in opened[name].schema.names else None), column
    candidates = [name for name, table in opened.items() if column in table.schema.names]
    return (candidates[0] if candidates else None), column  # USING compares a column that the joined tables share


def open_to_scan(scanned: TableToScan, types: Mapping[str, Kind]) -> OpenedTable:
    """Return the table `scanned`, opened as a question reads it, with its columns converted to the declared kinds.

    `types` has further kinds by column name, such as those that the question needs. A declared kind takes precedence.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names
    from setwise.analytics.engines.duckdb.instances import scanning
    from setwise.analytics.engines.duckdb.opening import duckdb_table, untyped_table

    described, csv = apply_description(scanned.source, scanned.types, scanned.csv)
    names = column_names(untyped_table(scanned.source, scanned.table_name, csv))
    # The first table of a question also has the types of joined tables, as TABLE.COLUMN.
    kinds = {name: kind for name, kind in {**types, **described}.items() if name in names}
    table = duckdb_table(scanned.source, scanned.table_name, kinds, csv)
    with scanning(table) as connection, connection.cursor() as cursor:
        return OpenedTable(scanned, table, table.describe(cursor))


def _notes_of_join(
    join: Join, earlier: OpenedTable, joined: OpenedTable, columns: Sequence[tuple[str, str]]
) -> list[ScanNote]:
    """Return a list with one note if keys of `join` have no equal key in the table `joined`; [] if all have one.

    - `earlier` is the table, before the join in the statement, whose keys are looked up in `joined`.
    - `columns` are the pairs of columns (of `earlier`, of `joined`) that the join compares.

    The list is empty also for a condition such as IN (SELECT ..) if some keys satisfy it: it is there to leave rows
    out.
    """
    from setwise.analytics.engines.duckdb.key_counts import count_keys

    count = count_keys(earlier.table, joined.table, columns)
    if count.met_keys == count.keys:
        return []
    user = earlier.scanned.user
    keys = "users" if (user, user) in columns else f"values of {' and '.join(repr(name) for name, _ in columns)}"
    if count.near is not None:
        return [_near_note(join, earlier, joined, columns[0], count.near, keys)]
    met = f"{count.met_keys:,} of {count.keys:,} {keys} (in {count.met_rows:,} of {count.rows:,} rows)"
    if not join.keeps_all and not count.met_keys:
        text = f"none of the {count.keys:,} {keys} is in the table {join.table!r}, so that the join has no rows"
        remedy = "join columns that hold the same values"
        return [ScanNote(f"{text}: {remedy}", mostly_unreadable=True, is_unsolved=True)]
    if join.once:  # a condition such as IN (SELECT ..) is there to leave rows out
        return [] if count.met_keys else [ScanNote(f"{met} are in the table {join.table!r}")]
    others = (
        "the columns of the joined table are null in all other rows"
        if join.keeps_all
        else "all other rows are left out"
    )
    return [ScanNote(f"{met} are in the table {join.table!r}; {others}")]


def _near_note(
    join: Join, earlier: OpenedTable, joined: OpenedTable, columns: tuple[str, str], near: "NearKeys", keys: str
) -> ScanNote:
    """Return a note that refuses `join`, because keys of its two tables differ only in spelling, such as 7 and 007.

    The note also says what makes such keys equal. If all keys are whole numbers, without invisible characters, these
    are options that read both columns as integers. Otherwise it is a shell command that writes copies of the tables'
    files, in which the keys are spelled alike. If no such command is known, the note asks the data holder to change the
    tables.

    - `earlier` and `joined` are the two tables: one that stands before the join in the statement, and the one that is
      joined to it.
    - `columns` is the pair of columns (of `earlier`, of `joined`) that the join compares.
    - `near` has the number of keys that differ only in spelling, and an example.
    - `keys` is the word for keys in the note, such as "users".
    """
    why = "blanks around them" if near.by_blanks else "upper and lower case, blanks or leading zeros"
    show = ascii if near.are_hidden else repr
    why = "characters that are not seen" if near.are_hidden else why
    text = (
        f"{near.keys:,} {keys} (in {near.rows:,} rows) would be in the table {join.table!r} but for {why}, such as "
        f"{show(near.first)} and {show(near.second)}"
    )
    write = earlier.scanned.write
    if near.are_numbers and not near.are_hidden:
        options = ["--type", f"{columns[0]}=integer", "--type", f"{join.table}.{columns[1]}=integer"]
        return ScanNote(f"{text}: {write(options)} reads them as one", mostly_unreadable=True, options=tuple(options))
    value = "m[0]" if near.by_blanks else "m[1] or m[0].lower()"
    changed = [(earlier, columns[0], near.earlier_changes), (joined, columns[1], near.joined_changes)]
    commands = [_copy(table, column, value, near.are_hidden) for table, column, changes in changed if changes]
    sources = [str(table.scanned.source) for table, _, changes in changed if changes]
    if not commands or not all(commands) or len(set(sources)) < len(sources):
        return ScanNote(f"{text}: write them in one way in both tables", mostly_unreadable=True, is_unsolved=True)
    copies = tuple(
        (source, split(command.partition(" && ")[0])[-1]) for source, command in zip(sources, commands, strict=True)
    )
    whole = " && ".join(commands)
    made = f"{text}: {'a copy that writes' if len(copies) == 1 else 'copies that write'} them in one way: {whole}"
    return ScanNote(made, mostly_unreadable=True, copy_command=whole, copies=copies)


def _copy(opened: OpenedTable, column: str, value: str, is_visible: bool) -> str:
    """Return a shell command that writes a copy of a table's file in which keys are spelled alike, such as 7 for 007.

    If a description file stands beside the table's file, the command copies it, too. The result is "" if no command can
    write the copy, for example because the table has several files.

    - `opened` is the table, and `column` its column with the keys.
    - `value` is a Python expression that computes the new key (see `with_changed_cells`).
    - `is_visible` says that invisible characters are removed first.
    """
    source = opened.scanned.source
    if not isinstance(source, str | Path):
        return ""
    try:
        files = files_of(str(source).partition("::")[0])
        if len(files) != 1 or magic_of(files[0]) is not None:
            return ""
        _, csv = apply_description(source, opened.scanned.types, opened.scanned.csv)
        command = with_changed_cells(files[0], csv, opened.schema.names, column, _ONE_WAY, value, is_visible=is_visible)
    except SetwiseError:  # the question itself is refused for it
        return ""
    described = description_of(files[0]) if isinstance(files[0], Path) else None
    if command and described is not None and described.is_file():
        copy = Path(split(command)[-1])
        command += f" && cp {quote(str(described))} {quote(str(description_of(copy)))}"
    return command


def text_notes(tables: Sequence[TableToScan], question: str) -> list[tuple[TableToScan, ScanNote]]:
    """Return pairs (table, note) about the texts after = or IN in `question` that occur in no cell of their column.

    A note shows the cells that differ from the text only in case or blanks. If there are none, it shows the most
    frequent cells of the column. Only columns of text are looked up.

    `tables` are the tables that the question reads. If several of them have a column of the same name, there is no note
    about a text that occurs in one of them.
    """
    from setwise.analytics.engines.duckdb.key_counts import cells_like

    found: dict[tuple[str, str], list[tuple[TableToScan, ScanNote]]] = {}
    present = set()
    for scanned in tables if "'" in question else ():
        opened = open_to_scan(scanned, {})
        texts = {
            column.name: compared
            for column in opened.schema
            if column.kind is Kind.TEXT and (compared := _compared_texts(column.name, question))
        }
        for name, (rows, frequent) in cells_like(opened.table, texts, _MOST_CELLS).items():
            for text in texts[name]:
                if text in rows:
                    present.add((name, text))
                note = ScanNote(_text_note(name, text, rows, frequent))
                found.setdefault((name, text), []).append((scanned, note))
    return [notes[0] for key, notes in found.items() if key not in present]


def _text_note(name: str, text: str, rows: Mapping[str, int], frequent: Sequence[str]) -> str:
    """Return a sentence which says that no cell of the column `name` is `text`, and what the cells are instead.

    If cells differ from `text` only in case or blanks, the sentence gives their numbers of rows and a condition with
    their spelling: no cell of 'city' is 'paris', but 12 are 'Paris': write city = 'Paris'. Otherwise it lists
    `frequent`, the most frequent cells.

    `rows` maps cells that are nearly equal to some text of the question to their numbers of rows.
    """
    sentence = f"no cell of {name!r} is {text!r}"
    plain = " ".join(text.split()).casefold()
    near = [cell for cell in rows if " ".join(cell.split()).casefold() == plain][:_MOST_CELLS]
    if near:
        column = name if name.isidentifier() else f'"{name}"'
        counted = " and ".join(f"{rows[cell]:,} {'is' if rows[cell] == 1 else 'are'} {cell!r}" for cell in near)
        condition = f"= {_sql(near[0])}" if len(near) == 1 else f"IN ({', '.join(map(_sql, near))})"
        return f"{sentence}, but {counted}: write {column} {condition}"
    cells = ", ".join(repr(cell[:40]) for cell in frequent)
    return f"{sentence}; its most frequent cells are {cells}" if cells else sentence


def _sql(text: str) -> str:
    """Return `text` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def _compared_texts(name: str, question: str) -> list[str]:
    """Return the different texts with which `question` compares the column `name` by = or IN, in order.

    The result is [] if the question gives this name to a computed column too, as in UPPER(city) AS city: a comparison
    may then be one with the computed column.
    """
    column = rf'(?<![\w."])(?:"?\w+"?\.)?(?:"{re.escape(name)}"|{re.escape(name)}(?!\w))'
    if re.search(rf'\bAS\s+"?{re.escape(name)}(?!\w)', question, re.IGNORECASE):
        return []
    string = "'(?:[^']|'')*'"
    lists = re.findall(rf"{column}\s*==?\s*({string})", question, re.IGNORECASE)
    lists += re.findall(rf"({string})\s*==?\s*{column}", question, re.IGNORECASE)
    lists += re.findall(rf"{column}\s+IN\s*\(\s*({string}(?:\s*,\s*{string})*)\s*\)", question, re.IGNORECASE)
    texts = [text[1:-1].replace("''", "'") for listed in lists for text in re.findall(string, listed)]
    return list(dict.fromkeys(texts))[:_MOST_TEXTS]


_NULL_SHARE = 0.9
"""The share of rows in which a sum is null from which on the question is refused, because its answer would be noise."""


def null_sum_notes(tables: Sequence[TableToScan], null_sums: Sequence[NullSum]) -> list[tuple[TableToScan, ScanNote]]:
    """Return pairs (table, note) about `null_sums` that are null in rows where only some of their columns are filled.

    The note refuses the question if at least 90% of the rows (`_NULL_SHARE`) are such. `tables` are the tables that
    the question reads; an expression whose columns are not all numbers of one of them has no note.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_partly_filled

    notes = []
    for scanned in tables if null_sums else ():
        kinds = {column.name.lower(): column for column in open_to_scan(scanned, {}).schema}
        found = [each for each in null_sums if all(_is_added(kinds.get(name.lower())) for name in each.columns)]
        columns = [[kinds[name.lower()] for name in each.columns] for each in found]
        # Columns of text are read as numbers, because the statement adds them up.
        texts = {column.name: Kind.FLOAT for each in columns for column in each if column.kind is Kind.TEXT}
        table = open_to_scan(scanned, texts).table
        names = [[column.name for column in each] for each in columns]
        rows, counts = count_partly_filled(table, names) if found else (0, [])
        for each, count in zip(found, counts, strict=True):
            if count:
                text = (
                    f"in {count:,} of {rows:,} rows one of {each.names} is empty, so that {each.written} is null there "
                    f"and not counted: write {each.coalesced}"
                )
                rewritten = (each.written, each.coalesced)
                note = ScanNote(text, mostly_unreadable=count >= _NULL_SHARE * rows, rewritten=rewritten)
                notes.append((scanned, note))
    return notes


def _is_added(column: Column | None) -> bool:
    """Return whether `column` can be an operand of a sum; False for None, a column that the table does not have."""
    return column is not None and column.kind in ADDED_KINDS
