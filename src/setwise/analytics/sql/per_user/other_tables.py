"""Rows of the same user in another private table: subqueries over it in JOIN, IN, EXISTS and expressions.

SELECT .. FROM users WHERE user_id IN (SELECT user_id FROM orders GROUP BY user_id HAVING COUNT(*) > 2) reads two
private tables. Each row of the subquery comes from the orders of one user. It is joined to the rows of users on the
user column (`Join.rows`), so that each row of the result still belongs to one user.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.rows.derivation import Derivation, GroupByUser, KeepRows, NamedExpression, SelectColumns
from setwise.analytics.rows.expression import ColumnValue, IsNull, Negated
from setwise.analytics.schema import Schema
from setwise.analytics.sql.core import Problems, SelectSource
from setwise.analytics.sql.from_clause.names import known_table
from setwise.analytics.sql.from_clause.tables import ROWS
from setwise.analytics.sql.per_user.joined_rows import UserSubquery
from setwise.analytics.sql.syntax import construct_of, unsupported


@contextmanager
def replacing_refused(node: exp.Expr, problems: Problems) -> Iterator[None]:
    """Return a context manager that adds an error raised inside its block to `problems`, and continues after the block.

    The block converts the subquery `node`. After an error, a constant takes the place of `node` in the statement, so
    that the conversion goes on and finds the statement's other problems.
    """
    known = len(problems.messages)
    with problems.collect(node):
        yield
    if len(problems.messages) > known:
        node.replace(exp.Literal.number(0) if isinstance(node, exp.Subquery) else exp.true())


def name_table(join: exp.Expr, rows: SelectSource) -> None:
    """Replace the subquery or common table expression in `join`, in place, by the private table from which it comes.

    `rows` are the rows of that subquery. The steps that compute them from the private table are stored in the metadata
    of the new node. `read_tables`, which runs later, adds them to the join.
    Raises: `InvalidParameter` if the rows are not computed from this table alone, or if the subquery has no name.
    """
    _check_one_table(rows)
    table = exp.Table(this=exp.to_identifier(rows.table, quoted=True))
    alias = join.this.alias or join.this.name
    if not alias:
        raise unsupported("a subquery in JOIN without a name", "write AS p after it")
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    table.meta[ROWS] = rows.derivation
    join.set("this", table)


def join_subquery(
    subquery: UserSubquery, rows: SelectSource, tables: Mapping[str, str], user: str, number: int
) -> tuple[Join, exp.Expr]:
    """Return (join, syntax node) that together replace `subquery`, which reads another private table than the SELECT.

    The subquery is about the user of each row of the SELECT around it (an outer row), as in (SELECT COUNT(*) FROM
    orders o WHERE o.user_id = u.user_id AND o.city = u.city). The join compares the user and the keys, here the city,
    and adds columns with the result of the subquery. The node computes the subquery's value from these columns.

    - `rows` are the rows of the subquery, at most one for each user and values of the keys.
    - `tables` maps the aliases of the outer SELECT to names of tables, and `user` is the user column.
    - `number` makes the names of the added columns unique in the statement.
    Raises: `InvalidParameter` if the rows are not computed from one table, or if a key is not a column.
    """
    _check_one_table(rows)
    name = f"in {rows.table} {number}"
    keys = [Key(column=user, joined=user)]
    for left, right in subquery.keys:
        column = left.unnest()
        if type(column) is not exp.Column:
            raise unsupported(
                f"{construct_of(column)} compared with a subquery over {rows.table}", "compare a column of the table"
            )
        earlier = None if column.args.get("table") is None else known_table(column, tables)
        keys.append(Key(column=column.name, joined=right, earlier=earlier))
    if subquery.tests_existence:
        join = Join(
            table=rows.table, keys=tuple(keys), keeps_all=True, match_column=name, once=True, alias=name,
            rows=rows.derivation,
        )  # fmt: skip
        return join, subquery.replacement(dict.fromkeys(subquery.columns, name))
    names = {column: f"{column} {name}" for column in subquery.columns}
    named = [NamedExpression(names.get(column, column), ColumnValue(column)) for column in _others(rows, user)]
    steps = rows.derivation.then(SelectColumns(user, (NamedExpression(user, ColumnValue(user)), *named)))
    join = Join(table=rows.table, keys=tuple(keys), keeps_all=True, alias=name, rows=steps)
    return join, subquery.replacement(names)


def beside(base: SelectSource, rows: SelectSource, user: str, number: int) -> tuple[SelectSource, SelectSource]:
    """Return (`base`, `rows`), rewritten so that both are computed from one private table, and can be joined by user.

    - `base` are the rows of a subquery over one private table, say users. They stay the same.
    - `rows` are the rows of a subquery over another private table, say orders, with at most one row per user. They are
      returned as rows computed from users: each row of users is joined with the row of orders that has the same value
      in the user column `user`.
    - `number` makes the names of the added columns unique in the statement.

    Raises: `InvalidParameter` if a user may have several of `rows`, which would repeat the rows of `base`, or if `rows`
    are not computed from one table.
    """
    _check_one_table(rows)
    if rows.unique_by != frozenset():
        raise unsupported(
            f"a subquery over {rows.table} with several rows of a user beside a subquery over {base.table}",
            f"add GROUP BY {user} to the subquery over {rows.table}, or name the table {base.table} itself in FROM",
        )
    name = f"in {rows.table} {number}"
    columns = _others(rows, user)
    renamed = [NamedExpression(f"{name} {column}", ColumnValue(column)) for column in columns]
    join = Join(
        table=rows.table,
        keys=(Key(column=user, joined=user),),
        keeps_all=True,
        match_column=name,
        alias=name,
        rows=rows.derivation.then(SelectColumns(user, (NamedExpression(user, ColumnValue(user)), *renamed))),
    )
    # Each user has at most one of these rows, so that grouping by their values gives them back.
    steps = (
        KeepRows(Negated(IsNull(ColumnValue(name)))),
        GroupByUser(user, tuple(NamedExpression(each, ColumnValue(f"{name} {each}")) for each in columns), ()),
    )
    joins = (*base.joins, join)
    joined = SelectSource(
        table=base.table,
        joins=joins,
        derivation=Derivation(steps),
        columns=None if rows.columns is None else (user, *columns),
        unique_by=frozenset(),
    )
    return replace(base, joins=joins), joined


def main_table(tree: exp.Expr, others: Collection[str]) -> str | None:
    """Return the private table that the answer of the statement `tree` is about; None if the statement names none.

    The result is the first table that is neither a common table expression nor in `others`. `others` are the public
    tables, and the private tables that were declared as tables to join.
    """
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    names = [".".join(part.name for part in table.parts) for table in tree.find_all(exp.Table)]
    return next((name for name in names if name not in others and name.lower() not in common), None)


_OTHER = "other table"
"""The alias of another private table while its columns are looked up."""


def schema_beside(schema_of: Callable[[str, tuple[Join, ...]], Schema], main: str, table: str, user: str) -> Schema:
    """Return the columns of `table`, a private table that the data holder lets join the private table `main`.

    `schema_of(name, joins)` returns the columns of a private table together with the tables joined to it. To find the
    columns of `table`, `table` is joined to `main` on the user column `user`, and the columns that this adds are taken.
    """
    join = Join(table=table, keys=(Key(column=user, joined=user),), alias=_OTHER)
    # A name that both tables have stands after the name of its table.
    known = {f"{before}{name}" for name in schema_of(main, ()).names for before in ("", f"{main}.")} - {user}
    columns = [column for column in schema_of(main, (join,)) if column.name not in known]
    return Schema(tuple(replace(each, name=each.name.removeprefix(f"{_OTHER}.")) for each in columns))


def tables_read(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of all tables and common table expressions in FROM and JOIN of `node`, a subquery or SELECT."""
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    if isinstance(inner, exp.Table):
        yield inner
    elif isinstance(inner, exp.Select) and inner.args.get("from_") is not None:
        yield from tables_read(inner.args["from_"].this)
        for join in inner.args.get("joins") or ():
            yield from tables_read(join.this)


def _others(rows: SelectSource, user: str) -> Sequence[str]:
    """Return the names of the columns of `rows`, except the user column `user`; none if the columns are not known."""
    return [column for column in rows.columns or () if column.lower() != user.lower()]


def _check_one_table(rows: SelectSource) -> None:
    """Raise `InvalidParameter` unless `rows` are computed from one table alone.

    Rows that are joined with other tables are refused. So are rows that are computed with a noisy number which another
    part of the statement releases, as in WHERE x > (SELECT AVG(x) FROM t).
    """
    if rows.joins:
        raise unsupported(
            f"a subquery over {rows.table} that joins other tables, beside another private table",
            f"read {rows.table} alone in the subquery, and join the other tables in the SELECT around it",
        )
    if rows.derivation.released:
        raise unsupported(
            f"a released number in a subquery over {rows.table}, beside another private table", "write the number"
        )
