"""Rewriting of conditions on texts and nulls, and of TRUNC, from other SQL dialects into supported forms."""

import re

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.syntax import COMPARISONS, MIRRORED

_NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
_FOUND = {(exp.GT, "0"), (exp.NEQ, "0"), (exp.GTE, "1")}
_MISSING = {(exp.EQ, "0"), (exp.LT, "1"), (exp.LTE, "0")}
_PLACES = {"STRPOS": 0, "INSTR": 0, "CHARINDEX": 1, "LOCATE": 1}
"""The functions that return the place of a text in another, with the index of the argument in which they search."""

_LITERAL = re.compile(r"(\^?)((?:[\w /\-:@,;=#%&'\"~]|\\[./\-_])*)(\$?)")
"""A regular expression that is a plain text (group 2), perhaps after ^ (group 1) and before $ (group 3)."""


def plain_condition(node: exp.Expr) -> exp.Expr:
    """Return the condition or call `node` as equal SQL that Setwise supports; `node` itself if no rule below applies.

    - x IS DISTINCT FROM y becomes comparisons and IS NULL, with null equal to null.
    - STRPOS(x, 'a') > 0 becomes x LIKE '%a%', and so for INSTR, CHARINDEX, LOCATE and POSITION.
    - x > 1 IS NOT TRUE becomes (x > 1) IS NOT TRUE.
    - TRUNC(x / 2) becomes SIGN(x / 2) * FLOOR(ABS(x / 2)), which also rounds towards 0.
    """
    if isinstance(node, _NULL_SAFE) and node.find_ancestor(exp.Join) is None:
        return _null_safe(node)
    if isinstance(node, exp.Binary) and type(node) in COMPARISONS:
        return _rewrite_search(_with_outer_is(node))
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("TRUNC", "TRUNCATE"):
        return _rewrite_truncation(node)
    return node


def text_pattern(text: str) -> str:
    """Return the pattern of LIKE that matches only `text`: a backslash stands before %, _ and each backslash in it."""
    return re.sub(r"([%_\\])", r"\\\1", text)


def like_of_regex(pattern: str) -> str | None:
    r"""Return the pattern of LIKE for a regular expression that is a plain text; None for any other one.

    >>> like_of_regex("^/docs"), like_of_regex("50%$"), like_of_regex("a.*b")
    ('/docs%', '%50\\%', None)
    """
    parts = _LITERAL.fullmatch(pattern)
    if parts is None:
        return None
    text = text_pattern(re.sub(r"\\(.)", r"\1", parts[2]))
    return f"{'' if parts[1] else '%'}{text}{'' if parts[3] else '%'}"


def _null_safe(node: exp.Expr) -> exp.Expr:
    """Return `node`, x IS [NOT] DISTINCT FROM y, as an equal condition of comparisons, IS NULL, AND, OR and NOT.

    Two nulls count as equal, so the condition is true or false in every row, and never unknown.
    """
    left, right = node.this, node.args["expression"]
    nulls = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (left, right)]
    same: exp.Expr = exp.EQ(this=left.copy(), expression=right.copy())
    constants = [side for side in (left, right) if type(side.unnest()) in (exp.Literal, exp.Boolean, exp.Neg)]
    if len(constants) == 1:
        (null,) = [each for each, side in zip(nulls, (left, right), strict=True) if side is not constants[0]]
        if type(node) is exp.NullSafeEQ:
            return exp.paren(exp.and_(same, exp.Not(this=null)), copy=False)
        return exp.paren(exp.or_(exp.NEQ(this=left.copy(), expression=right.copy()), null), copy=False)
    known = exp.and_(same, *(exp.Not(this=each.copy()) for each in nulls))
    equal = exp.paren(exp.or_(exp.paren(known), exp.paren(exp.and_(*nulls))), copy=False)
    return equal if type(node) is exp.NullSafeEQ else exp.Not(this=equal)


def _with_outer_is(node: exp.Expr) -> exp.Expr:
    """Return (x > 1) IS NOT TRUE if the comparison `node` was parsed as x > (1 IS NOT TRUE); otherwise `node` itself.

    Only the first reading has a meaning, because a constant number or text is neither true, false nor null.
    """
    side = node.args["expression"].unnest()
    inner = side.this if type(side) is exp.Not else side
    if type(inner) is not exp.Is or type(inner.this.unnest()) not in (exp.Literal, exp.Neg):
        return node
    compared = exp.paren(type(node)(this=node.this.copy(), expression=inner.this.copy()), copy=False)
    tested = exp.Is(this=compared, expression=inner.args["expression"].copy())
    return exp.Not(this=tested) if type(side) is exp.Not else tested


def _rewrite_search(node: exp.Expr) -> exp.Expr:
    """Return x LIKE '%a%' for `node`, a comparison such as STRPOS(x, 'a') > 0; otherwise `node` itself.

    For STRPOS(x, 'a') = 0, which says that the text does not occur, NOT (x LIKE '%a%') is returned.
    """
    if not isinstance(node, exp.Binary):
        return node
    left, right = node.this.unnest(), node.args["expression"].unnest()
    kind: type[exp.Expr] = type(node)
    if type(left) is exp.Literal:
        left, right, kind = right, left, MIRRORED.get(kind, kind)
    searched = _search_arguments(left)
    test = (kind, right.name) if type(right) is exp.Literal and not right.is_string else None
    if searched is None or test not in _FOUND | _MISSING:
        return node
    text, part = searched
    like = exp.Like(this=text.copy(), expression=exp.Literal.string(f"%{text_pattern(part)}%"))
    return like if test in _FOUND else exp.Not(this=like)


def _search_arguments(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return (text, constant) if the call `node`, such as STRPOS(x, 'a'), asks where a constant stands in a text.

    For STRPOS(x, 'a') the result is (the node of x, "a"). None for other calls, and if the text sought is not constant.
    """
    if type(node) is exp.StrPosition:
        arguments = [node.this, node.args.get("substr")]
        plain = not any(value for name, value in node.args.items() if name not in ("this", "substr"))
    else:
        name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
        plain = name in _PLACES and len(node.expressions) == 2
        arguments = list(reversed(node.expressions)) if _PLACES.get(name) else list(node.expressions)
    if not plain or type(arguments[1]) is not exp.Literal or not arguments[1].is_string or not arguments[1].this:
        return None
    return arguments[0], str(arguments[1].this)


def _rewrite_truncation(node: exp.Expr) -> exp.Expr:
    """Return SIGN(x) * FLOOR(ABS(x)) for `node`, a call TRUNC(x) where x is an expression; otherwise `node` itself.

    TRUNC of a column alone is left as it is, because Oracle writes the day of a time in this way.
    """
    if len(node.expressions) != 1 or has_aggregate(node):
        return node
    (value,) = node.expressions
    if not isinstance(value.unnest(), exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        return node
    sign = exp.Anonymous(this="SIGN", expressions=[value.copy()])
    size = exp.Floor(this=exp.Anonymous(this="ABS", expressions=[value.copy()]))
    return exp.paren(exp.Mul(this=sign, expression=size), copy=False)
