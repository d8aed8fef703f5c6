"""Finds sums and differences of several columns in a SQL statement, which are null where one of the columns is null."""

import re
from collections.abc import Iterator

from sqlglot import exp

from setwise.analytics.schema import Kind, Schema
from setwise.analytics.tables.scan_notes import ADDED_KINDS, NullSum


def nullable_sums(tree: exp.Expr, text: str) -> tuple[NullSum, ...]:
    """Return the sums and differences of at least two columns in the statement `tree`, each once.

    Only SELECTs that read tables are searched, and not those over subqueries or WITH, whose columns are computed. An
    expression is left out if its SELECT tests all of its columns by IS NULL, because nulls are then thought of. `text`
    is the text from which `tree` was parsed.
    """
    with_names = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    found = {}
    for node in tree.find_all(exp.Add, exp.Sub):
        select = node.find_ancestor(exp.Select)
        outer = _outer(node)
        if isinstance(outer, exp.Add | exp.Sub) or not isinstance(select, exp.Select):
            continue
        if outer is not None and next(outer.find_all(exp.Interval), None) is not None:  # a difference of times
            continue
        source = select.args.get("from_") or select.args.get("from")
        table = None if source is None else source.this
        if not isinstance(table, exp.Table) or table.name.lower() in with_names:
            continue
        columns = {column.name: column for column in _operands(node) if isinstance(column, exp.Column)}
        aliases = {each.alias.lower() for each in select.expressions if each.alias}
        tested = {column.name for test in select.find_all(exp.Is) for column in test.find_all(exp.Column)}
        if len(columns) > 1 and not aliases & {name.lower() for name in columns} and not tested >= columns.keys():
            found[node.sql()] = NullSum(
                columns=tuple(columns), written=_written(node, text), coalesced=_written(_coalesced(node), "")
            )
    return tuple(found.values())


def of_numbers(sums: tuple[NullSum, ...], schema: Schema) -> tuple[NullSum, ...]:
    """Return those of `sums` whose columns are all columns of numbers, or of text, in the table's `schema`."""
    kinds = {column.name.lower(): column.kind for column in schema}
    return tuple(
        each for each in sums if all(kinds.get(name.lower(), Kind.OTHER) in ADDED_KINDS for name in each.columns)
    )


def _outer(node: exp.Expr) -> exp.Expr | None:
    """Return the nearest expression around `node` that is no parenthesis."""
    outer = node.parent
    while isinstance(outer, exp.Paren):
        outer = outer.parent
    return outer


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands of the sum or difference `node`, and of the sums and differences among them."""
    match node:
        case exp.Paren():
            yield from _operands(node.this)
        case exp.Add() | exp.Sub():
            yield from _operands(node.this)
            yield from _operands(node.expression)
        case _:
            yield node


def _coalesced(node: exp.Expr) -> exp.Expr:
    """Return a copy of the sum or difference `node` in which each column x is COALESCE(x, 0)."""
    copy = node.copy()
    for column in [each for each in _operands(copy) if isinstance(each, exp.Column)]:
        column.replace(exp.Coalesce(this=column.copy(), expressions=[exp.Literal.number(0)]))
    return copy


def _written(node: exp.Expr, text: str) -> str:
    """Return the expression `node` as it is written in the statement `text`, or as SQL if it is not found there."""
    plain = node.sql(dialect="postgres")
    parts = re.findall(r"\w+|[^\w\s]", plain.replace('"', ""))
    names = [f'["`]?{part}["`]?' if part.isidentifier() else re.escape(part) for part in parts]
    spaced = r"\s*".join(names)
    found = re.search(rf"(?<![\w.]){spaced}(?![\w.])", text, re.IGNORECASE)
    return plain if found is None else found[0]
