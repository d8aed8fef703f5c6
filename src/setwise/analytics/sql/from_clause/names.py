"""Names of tables and columns in a SELECT over private rows: aliases, qualifiers, and key columns of LEFT JOINs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from setwise.analytics.sql.clauses import WRITTEN, own_nodes
from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class LeftKey:
    """How to compute b.k in FROM a LEFT JOIN b USING (k): in SQL, b.k is null in rows of a without a match in b.

    - `column` is the column of the joined rows that has the key k of the table a, with or without a match.
    - `match_column` is the column of the joined rows that is 1 in rows with a match, and null in other rows.

    So b.k is the value of `column` in rows where `match_column` is 1, and null elsewhere.
    """

    column: str
    match_column: str


@dataclass(slots=True)
class Scope:
    """The names of tables and columns that the expressions of a SELECT over private rows may use.

    - `tables` maps the alias of each table to its name.
    - `columns` are the columns of the joined rows, or None if they are not known.
    - `joined` maps (alias, column) of a subquery that was joined on the user column to the column's name in the joined
      rows.
    - `ambiguous` are the columns that both the private rows and such a subquery have.
    - `left_keys` maps (alias, column) of a key column of a table joined by LEFT JOIN to how that column is computed.

    All aliases and columns are in lower case in `ambiguous` and in the keys of `joined` and `left_keys`.
    """

    tables: dict[str, str]
    columns: tuple[str, ...] | None
    joined: dict[tuple[str, str], str] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)
    left_keys: dict[tuple[str, str], LeftKey] = field(default_factory=dict)

    @property
    def aliases(self) -> set[str]:
        """The aliases of all tables and subqueries that the SELECT reads, in lower case."""
        return {alias.lower() for alias in self.tables} | {alias for alias, _ in self.joined}

    def left_key(self, node: exp.Expr) -> LeftKey | None:
        """Return how to compute the column `node` if it is the key column of a table joined by LEFT JOIN, else None.

        In FROM a LEFT JOIN b USING (k), the joined rows have only one column k, which has the key of a. The column b.k
        differs from it: it is null in rows of a without a match in b. So b.k is computed from k.
        """
        alias = qualifier_of(node, self.aliases) if self.left_keys else None
        return None if alias is None else self.left_keys.get((alias.lower(), node.name.lower()))

    def resolve(self, select: exp.Expr) -> None:
        """Replace each column reference in `select`, such as t.x, by the column's name in the joined rows, in place.

        `select` is a SELECT or an expression. Subqueries in it are not changed.
        Raises: `InvalidParameter` if several tables have a column, or if a qualifier is not an alias.
        """
        results = {each.alias_or_name.lower(): each for each in select.expressions}
        for node in list(own_nodes(select)):
            if type(node) is not exp.Column:
                continue
            result = results.get(node.name.lower())
            if result is not None and not node.table and node.find_ancestor(exp.Order, exp.Group, exp.Having):
                if type(result) is exp.Alias:
                    continue  # the alias of a result column, which is no column of the tables
                node.set("table", result.args.get("table"))
            if node.args.get("table") is None:
                if node.name.lower() in self.ambiguous and WRITTEN not in node.meta:
                    raise InvalidParameter(
                        f"several tables have the column {node.name!r}: write the name of one before it"
                    )
                continue
            left_key = self.left_key(node)
            if left_key is not None:
                _replace_left_key(node, left_key)
                continue
            name = self.joined.get((node.args["table"].name.lower(), node.name.lower()))
            if name is not None:
                node.meta[WRITTEN] = node.name
                node.set("this", exp.to_identifier(name, quoted=True))
                _drop_qualifiers(node)
        unqualify(select, self.tables, self.columns)

    def resolve_copy(self, node: exp.Expr) -> exp.Expr:
        """Return a copy of the syntax node `node` in which a column such as t.x has its name in the joined rows."""
        holder = exp.Paren(this=node.copy())
        self.resolve(holder)
        return exp.Paren(this=holder.this)


def _replace_left_key(node: exp.Expr, key: LeftKey) -> None:
    """Replace `node`, the key column of a table joined by LEFT JOIN, in place, by an expression for its value in SQL.

    The value is null in rows without a match. It is computed from the two columns that `key` names: the key, and the
    column that says whether there is a match. COUNT(b.k) and b.k IS NULL depend only on whether there is a match, so
    there only the second column takes the place of `node`.
    """
    parent = node.parent
    # IS NULL and COUNT depend only on the match. They do not read the key, which may be the user column, so that a
    # service that refuses to compute with the user column can still answer.
    is_counted = isinstance(parent, exp.Anonymous) and str(parent.this).upper() == "COUNT"
    match = exp.column(key.match_column, quoted=True)
    if is_counted or (isinstance(parent, exp.Is) and isinstance(parent.args["expression"], exp.Null)):
        node.replace(match)
        return
    value = exp.column(key.column, quoted=True)
    value.meta[WRITTEN] = node.name
    has_match = exp.Not(this=exp.Is(this=match, expression=exp.Null()))
    case: exp.Expr = exp.Case(ifs=[exp.If(this=has_match, true=value)])
    node.replace(exp.alias_(case, node.name, quoted=True) if isinstance(parent, exp.Select) else case)


def qualifier_of(node: exp.Expr, aliases: Iterable[str]) -> str | None:
    """Return the alias in `aliases` that the qualifier of the column `node` means: t for t.x. None if it means none.

    The result is also None if the column has no qualifier. BI tools write the database and the schema before the table:
    db.public.films.x is a column of the table with the alias films, and films.x is a column of the table with the alias
    public.films.
    Raises: `InvalidParameter` if the qualifier means several aliases.
    """
    parts = [node.args.get(part) for part in ("catalog", "db", "table")]
    written = ".".join(part.name for part in parts if part is not None)
    if not written:
        return None
    return matching_name(written, aliases)


def matching_name(written: str, names: Iterable[str]) -> str | None:
    """Return which of the table names `names` the name `written` means; None if it means none of them.

    An equal name is preferred to one that differs in case, or that has more or fewer parts before a dot.
    Raises: `InvalidParameter` if `written` means several names.

    >>> matching_name("db.public.films", ["films", "people"]), matching_name("films", ["public.films"])
    ('films', 'public.films')
    """
    known = list(dict.fromkeys(names))
    if written in known:
        return written
    lower = written.lower()
    equal = [name for name in known if name.lower() == lower]
    ending = [name for name in known if lower.endswith(f".{name.lower()}") or name.lower().endswith(f".{lower}")]
    meant = equal or ending
    if len(meant) > 1:
        raise InvalidParameter(f"{written!r} may mean {' or '.join(map(repr, meant))}: write one of them")
    return meant[0] if meant else None


def use_known_names(tree: exp.Expr, names: Sequence[str]) -> None:
    """Replace each table name in the statement `tree` by the one of `names` that it means, in place.

    For example, "db"."public"."films" becomes films. A name that means none of `names` is not replaced.
    Raises: `InvalidParameter` if a table name means several of `names`.
    """
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        parts = [table.args.get(part) for part in ("catalog", "db", "this")]
        identifiers = [part for part in parts if part is not None]
        if not all(type(part) is exp.Identifier for part in identifiers):
            continue
        written = ".".join(part.name for part in identifiers)
        if len(identifiers) == 1 and written.lower() in common:
            continue
        name = matching_name(written, names)
        if name is not None and name != written:
            table.set("this", exp.to_identifier(name, quoted=True))
            table.set("db", None)
            table.set("catalog", None)


def known_table(node: exp.Expr, tables: Mapping[str, str]) -> str:
    """Return the name of the table of the column `node`, which has a qualifier, such as t in t.x.

    `tables` maps the aliases of tables to their names.
    Raises: `InvalidParameter` if no table, or more than one, has that alias.
    """
    alias = qualifier_of(node, tables)
    if alias is None:
        written = ".".join(node.args[part].name for part in ("catalog", "db", "table") if node.args.get(part))
        raise InvalidParameter(f"no table is called {written!r} here: write one of {', '.join(map(repr, tables))}")
    return tables[alias]


def _drop_qualifiers(node: exp.Expr) -> None:
    for part in ("table", "db", "catalog"):
        node.set(part, None)


def unqualify(select: exp.Expr, tables: dict[str, str], columns: Sequence[str] | None) -> None:
    """Replace every column reference in `select`, such as t.x, by the column's name in the joined rows, in place.

    - `tables` maps aliases to table names.
    - `columns` are the columns of the joined rows, or None if they are not known. A column x that several tables have
      is called TABLE.x there.
    Raises: `InvalidParameter` for an unqualified x that several tables have, or a qualifier that is not an alias.
    """
    for node in list(own_nodes(select)):
        if type(node) is not exp.Column:
            continue
        if type(node.this) is not exp.Identifier:
            continue  # refused later, when the expression is converted
        table = node.args.get("table")
        if table is not None:
            qualified = f"{known_table(node, tables)}.{node.name}"
            node.meta[WRITTEN] = node.name
            if columns is not None and _column_of(qualified, columns) is not None:
                node.set("this", exp.to_identifier(_column_of(qualified, columns), quoted=True))
            _drop_qualifiers(node)
        if columns is None or node.name in columns:
            continue
        several = [f"{name}.{node.name}" for name in tables.values() if f"{name}.{node.name}" in columns]
        if several and table is None:
            raise InvalidParameter(f"several tables have the column {node.name!r}: write {' or '.join(several)}")
        column = _column_of(node.name, columns)
        if column is not None:
            node.meta.setdefault(WRITTEN, column)
            node.set("this", exp.to_identifier(column, quoted=True))
        elif node.this.quoted and table is None and _beside_column(node, columns):
            node.replace(exp.Literal.string(node.name))


def _beside_column(node: exp.Expr, columns: Sequence[str]) -> bool:
    """Return whether `node`, a name in double quotes, is compared with one of `columns`, as "NO" in country = "NO".

    Some dialects write texts in double quotes. The caller therefore reads such a name as a text constant, unless it is
    the name of a column itself.
    """
    parent = node.parent
    if isinstance(parent, exp.In):
        other = parent.this
    elif isinstance(parent, exp.Binary):
        other = parent.args["expression"] if parent.this is node else parent.this
    else:
        return False
    return other is not node and type(other) is exp.Column and _column_of(other.name, columns) is not None


def _column_of(name: str, columns: Sequence[str]) -> str | None:
    """Return the name in `columns` that equals `name`, or that differs from it only in upper and lower case.

    The result is None if there is no such name, or if several names differ from `name` only in case and no name equals
    it.
    """
    if name in columns:
        return name
    matching = [column for column in columns if column.lower() == name.lower()]
    return matching[0] if len(matching) == 1 else None
