"""Rewriting of conditions on texts and nulls, and of TRUNC, from other SQL dialects into supported forms.

Over private rows LOWER, UPPER and ILIKE change only the letters A to Z, because engines differ in all others: LOWER
turns ZÜRICH into zÜrich, which is not 'zürich'. So a comparison with a constant is rewritten to one with both spellings
of such letters, LOWER(city) IN ('zürich', 'zÜrich'), and holds as in a database that changes all letters.
"""

import re
from collections.abc import Iterator
from itertools import product

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.syntax import COMPARISONS, MIRRORED, short_text
from setwise.errors import InvalidParameter

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


_MOST_SPELLINGS = 64
"""The most spellings of one constant with which a condition compares."""


_SPELLED = "spelled in all cases"
"""The mark of conditions that have all spellings of their constants, so that they are not changed again."""


def with_letter_cases(node: exp.Expr) -> exp.Expr:
    """Return an equal form of the syntax node `node` that compares with all spellings of its constants.

    Calls such as LOWER('ZÜRICH') become constants. The result is `node` itself if it has no such call or comparison.
    Raises: `InvalidParameter` for a comparison that never holds, such as LOWER(city) = 'Paris', and for constants with
    too many letters beyond A to Z.
    """
    if node.meta.get(_SPELLED):
        return node
    if (constant := _constant(node)) is not None and not isinstance(node, exp.Literal):
        return exp.Literal.string(constant)
    match node:
        case exp.EQ() | exp.NEQ():
            for side, other in ((node.this, node.expression), (node.expression, node.this)):
                function, constant = _function(side), _constant(other)
                if function and constant is not None:
                    return _equals(node, side, [constant], function)
        case exp.In() if (function := _function(node.this)) and node.expressions:
            constants = [_constant(each) for each in node.expressions]
            if None not in constants:
                return _equals(node, node.this, [each for each in constants if each is not None], function)
        case exp.Like() | exp.ILike():
            function = "ILIKE" if isinstance(node, exp.ILike) else _function(node.this)
            pattern = _constant(node.expression)
            if function and pattern is not None:
                return _like(node, pattern, function)
    return node


def search_cases(tree: exp.Expr) -> None:
    """Change each CASE LOWER(x) WHEN 'a' THEN .. in `tree`, in place, to CASE WHEN LOWER(x) = 'a' THEN .."""
    for case in tree.find_all(exp.Case):
        value = case.this
        if value is not None and _function(value):
            for branch in case.args["ifs"]:
                branch.set("this", exp.EQ(this=value.copy(), expression=branch.this))
            case.set("this", None)


def with_reachable_constants(tree: exp.Expr) -> exp.Expr | None:
    """Return a copy of `tree` in which LOWER and UPPER are compared with constants that they can return; or None.

    For example, LOWER(city) = 'Paris' becomes LOWER(city) = 'paris'. The result is None if nothing changes.
    """
    changed = tree.copy()
    for node in list(changed.find_all(exp.EQ, exp.NEQ, exp.In, exp.Like)):
        sides = [node.this, *node.expressions, *filter(None, [node.args.get("expression")])]
        function = next(filter(None, map(_function, sides)), "")
        for literal in [side for side in sides if isinstance(side, exp.Literal) and side.is_string and function]:
            literal.replace(exp.Literal.string(_changed(str(literal.this), function)))
    return None if changed == tree else changed


def _function(node: exp.Expr) -> str:
    """Return "LOWER" or "UPPER" if `node` is a call of that function; otherwise ""."""
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    return name if name in ("LOWER", "UPPER") and len(node.expressions) == 1 else ""


def _constant(node: exp.Expr) -> str | None:
    """Return the text of the constant `node`, or of LOWER or UPPER of a constant; None for any other node."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return str(inner.this)
    if (function := _function(inner)) and (text := _constant(inner.expressions[0])) is not None:
        return _changed(text, function)
    return None


def _changed(text: str, function: str) -> str:
    """Return `text` with each letter changed by `function`, LOWER or UPPER, if the letter has one letter in its place.

    >>> _changed("Zürich", "UPPER"), _changed("STRASSE", "LOWER"), _changed("straße", "UPPER")
    ('ZÜRICH', 'strasse', 'STRAßE')
    """
    letters = ((letter, letter.lower() if function == "LOWER" else letter.upper()) for letter in text)
    return "".join(other if len(other) == 1 else letter for letter, other in letters)


def _equals(node: exp.Expr, call: exp.Expr, constants: list[str], function: str) -> exp.Expr:
    """Return `node`, a comparison of `call` with `constants`, as a comparison with all of their spellings.

    `function` is LOWER or UPPER, which `call` calls.
    """
    for constant in constants:
        _check_reachable(call, constant, function)
    spellings = [spelling for constant in constants for spelling in _spellings(constant, call)]
    if len(spellings) == len(constants):
        return node
    within = exp.In(this=call.copy(), expressions=[exp.Literal.string(each) for each in dict.fromkeys(spellings)])
    within.meta[_SPELLED] = True
    return exp.Not(this=within) if isinstance(node, exp.NEQ) else within


def _like(node: exp.Expr, pattern: str, function: str) -> exp.Expr:
    """Return `node`, a LIKE or ILIKE, as a condition that one of the spellings of its `pattern` matches."""
    if function != "ILIKE":
        _check_reachable(node.this, pattern, function)
    spellings = list(_spellings(pattern, node.this))
    if len(spellings) == 1:
        return node
    if isinstance(node.parent, exp.Escape):
        raise InvalidParameter(
            f"ESCAPE after {short_text(node)} is not read with letters beyond A to Z: escape with a backslash"
        )
    conditions = [type(node)(this=node.this.copy(), expression=exp.Literal.string(each)) for each in spellings]
    for condition in conditions:
        condition.meta[_SPELLED] = True
    return exp.Paren(this=exp.or_(*conditions, copy=False))


def _check_reachable(call: exp.Expr, constant: str, function: str) -> None:
    """Raise `InvalidParameter` if `call`, of LOWER or UPPER (`function`), never returns a text with these letters."""
    possible = _changed(constant, function)
    if possible != constant:
        letters = "lower-case letters" if function == "LOWER" else "capital letters"
        raise InvalidParameter(
            f"{short_text(call)} has {letters} only, and is never '{constant}': compare it with '{possible}'"
        )


def _spellings(text: str, call: exp.Expr) -> Iterator[str]:
    """Yield `text` with each letter beyond A to Z in both cases; `text` itself comes first.

    `call` is compared with `text`, and is named in the error.
    Raises: `InvalidParameter` if there are more than 64 spellings (`_MOST_SPELLINGS`).
    """
    letters = [(letter, *_other_case(letter)) for letter in text]
    cased = sum(len(each) > 1 for each in letters)
    if 2**cased > _MOST_SPELLINGS:
        raise InvalidParameter(
            f"{short_text(call)} changes only the letters A to Z of private rows, and '{text[:40]}' has {cased:,} "
            f"other letters: compare the column itself, as in IN ('{text[:40]}', '{text[:1].upper()}{text[1:40]}')"
        )
    yield from map("".join, product(*letters))


def _other_case(letter: str) -> tuple[str, ...]:
    """Return the capital of a small `letter` beyond A to Z, or its small letter, in a tuple; () if there is none."""
    other = letter.upper() if letter.islower() else letter.lower()
    return () if letter.isascii() or len(other) != 1 or other == letter or other.isascii() else (other,)
