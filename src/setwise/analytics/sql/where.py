"""WHERE as a filter: every node that the filter language has is written anew in it, and every other is refused."""

import re

from sqlglot import exp

from setwise.analytics.filter.parser import ALLOWED, KEYWORDS
from setwise.analytics.sql.syntax import check_parts, column_name, construct_of, unsupported

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_LABELS = {exp.DType.DATE: "DATE ", exp.DType.TIMESTAMP: "TIMESTAMP ", exp.DType.TIMESTAMPTZ: "TIMESTAMP "}

_PLAIN = re.compile(r"[^\W\d]\w*")


def filter_text(node: exp.Expr) -> str:
    """Return the filter that a condition states, in the filter language.

    The kinds of columns and constants are checked when the filter is read for its table.
    """
    match type(node):
        case exp.Paren:
            check_parts(node, "this")
            return filter_text(node.this)
        case exp.And | exp.Or:
            check_parts(node, "this", "expression")
            return f" {node.key.upper()} ".join(_part(each, type(node)) for each in node.flatten())
        case exp.Not:
            check_parts(node, "this")
            return _negated(node.this.unnest())
        case _:
            return _comparison(node, negated=False)


def _part(node: exp.Expr, outer: type[exp.Expr]) -> str:
    inner = node.unnest()
    written = filter_text(inner)
    return f"({written})" if type(inner) in (exp.And, exp.Or) and type(inner) is not outer else written


def _negated(node: exp.Expr) -> str:
    match type(node):
        case exp.In | exp.Between | exp.Like | exp.Is:
            return _comparison(node, negated=True)
        case exp.And | exp.Or:
            return f"NOT ({filter_text(node)})"
        case _:
            return f"NOT {filter_text(node)}"


def _comparison(node: exp.Expr, *, negated: bool) -> str:
    """Return a comparison of a column with constants, or its negation; some nodes also say `negate` themselves."""
    kind = type(node)
    negation = "NOT " if negated != bool(node.args.get("negate")) else ""
    if kind in _COMPARISONS:
        check_parts(node, "this", "expression")
        return f"{_operand(node.this)} {_COMPARISONS[kind]} {_operand(node.args['expression'])}"
    match kind:
        case exp.In:
            check_parts(node, "this", "expressions")
            return f"{_column(node.this)} {negation}IN ({', '.join(_constant(each) for each in node.expressions)})"
        case exp.Between:
            check_parts(node, "this", "low", "high")
            low, high = (_constant(node.args[end]) for end in ("low", "high"))
            return f"{_column(node.this)} {negation}BETWEEN {low} AND {high}"
        case exp.Like:
            check_parts(node, "this", "expression", "negate")
            pattern = node.args["expression"]
            if type(pattern) is exp.Literal and "\\" in pattern.this:
                raise unsupported("an escape (\\) in LIKE", "use % and _ alone")
            return f"{_column(node.this)} {negation}LIKE {_constant(pattern)}"
        case exp.Is if type(node.args["expression"]) is exp.Null:
            check_parts(node, "this", "expression", "negate")
            return f"{_column(node.this)} IS {negation}NULL"
        case exp.Is:
            raise unsupported(f"IS {node.args['expression'].sql()}", "write = TRUE or = FALSE")
        case exp.Column:
            raise unsupported(f"{construct_of(node)} as a condition", "write = TRUE after it")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)


def _operand(node: exp.Expr) -> str:
    return _column(node) if type(node) is exp.Column else _constant(node)


def _column(node: exp.Expr) -> str:
    name = column_name(node, "WHERE")
    if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _constant(node: exp.Expr) -> str:
    match type(node):
        case exp.Literal if node.is_string:
            return "'" + str(node.this).replace("'", "''") + "'"
        case exp.Literal:
            return str(node.this)
        case exp.Neg if type(node.this) is exp.Literal and not node.this.is_string:
            return f"-{node.this.this}"
        case exp.Boolean:
            return "TRUE" if node.this else "FALSE"
        case exp.Cast if type(node.this) is exp.Literal and node.this.is_string and node.args["to"].this in _LABELS:
            check_parts(node, "this", "to")
            return _LABELS[node.args["to"].this] + _constant(node.this)
        case exp.Null:
            raise unsupported("a comparison with NULL", "write IS NULL or IS NOT NULL")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)
