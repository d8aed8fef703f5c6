"""Which cells a question will not read, counted before it is asked, for the holder of a file alone.

The counts are exact and so not private. The command line prints them on standard error, where the holder of the file
sees them. They never become part of an answer, and neither a service nor an agent calls this.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from setwise.analytics.engines.connect import duckdb_table, magic_of
from setwise.analytics.engines.files import CsvOptions, described, files_of
from setwise.analytics.schema import Kind
from setwise.analytics.tables.writing import CERTAIN_NULL_WORDS, KIND_WORDS, grammar_words, guess_grammar, is_readable

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import CellCount

_BLOCK = 2**22


def unread_cells(
    source: str, table: str | None, csv: CsvOptions, types: Mapping[str, Kind], question: str
) -> list[str]:
    """Return sentences about cells of a file that a question will skip, each with the option that reads them.

    `question` is the text of the question; columns whose names occur in it are looked at. Empty for files whose columns
    have types of their own.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells, text_samples

    types, csv = described(source, types, csv)
    files = files_of(source.partition("::")[0])
    is_text = bool(files) and magic_of(files[0]) is None
    if not is_text and not types:
        return []
    raw = duckdb_table(source, table, {}, replace(csv, null=()))
    samples = text_samples(raw)
    names = [name for name in samples if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)]
    if not names:
        return []
    kinds = {name: kind for name, kind in types.items() if name in names}
    counts = count_cells(raw, kinds, None, csv.cells, names).columns
    sentences = [_unconverted(each, samples[each.name], csv) for each in counts if each.filled > each.readable]
    words = sorted({cell.strip() for name in names for cell in samples[name] if name not in kinds} & CERTAIN_NULL_WORDS)
    if words and not csv.null:
        left = count_cells(raw, kinds, None, replace(csv.cells, null=tuple(words)), names).columns
        sentences += [
            f"{each.filled - other.filled:,} cells of {each.name!r} are {' or '.join(map(repr, words))} and count as a "
            f"value: {join(grammar_words(replace(csv.cells, null=tuple(words))))} takes them for empty"
            for each, other in zip(counts, left, strict=True)
            if each.filled > other.filled and each.name not in kinds
        ]
    if is_text and csv.encoding == "utf-8" and not all(_is_utf8(file, csv) for file in files):
        whole = duckdb_table(source, table, {}, replace(csv, null=(), encoding="latin-1"))
        decoded = count_cells(whole, {}, None, columns=names).columns
        plain = count_cells(raw, {}, None, columns=names).columns
        sentences += [
            f"{each.filled - other.filled:,} of {each.filled:,} cells of {each.name!r} are not UTF-8 and will be "
            "skipped: --encoding cp1252 reads them if the file is from Windows, --encoding latin-1 if it is older"
            for each, other in zip(decoded, plain, strict=True)
            if each.filled > other.filled
        ]
    return sentences


def _unconverted(count: "CellCount", sample: Sequence[str], csv: CsvOptions) -> str:
    """Return the sentence about the cells of a column that are not of its kind."""
    lost = (
        f"{count.filled - count.readable:,} of {count.filled:,} cells of {count.name!r} are not "
        f"{KIND_WORDS[count.kind]} and will be skipped"
    )
    unread = [cell for cell in sample if cell.strip() and not is_readable(cell, count.kind, csv.cells)]
    guess = guess_grammar({count.name: list(sample)}, replace(csv.cells, decimal=".", thousands="", date_format=None))
    if any(is_readable(cell, count.kind, guess.grammar) or cell.strip() in guess.grammar.null for cell in unread):
        either = f" (or {' or '.join(guess.other_dates)}: the cells do not tell)" if guess.other_dates else ""
        return f"{lost}: {join(grammar_words(guess.grammar))} reads them{either}"
    if count.kind is Kind.INTEGER and any(is_readable(cell, Kind.FLOAT, csv.cells) for cell in unread):
        return f"{lost}: --type {count.name}=float reads them"
    return f"{lost}; setwise check shows how the file is written"


def _is_utf8(file: Path, csv: CsvOptions) -> bool:
    """Return whether all bytes of a text file are UTF-8; one that cannot be decompressed is left to the reader."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with csv.format_of(csv.suffix_of(file)).decompressed(file.open("rb"), file.name) as opened:
            while block := opened.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except OSError:
        return True
    return True
