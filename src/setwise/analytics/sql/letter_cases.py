"""Conditions on LOWER, UPPER and ILIKE with constants that have letters beyond A to Z, such as LOWER(city) = 'zürich'.

Over private rows these functions change only the letters A to Z, because engines differ in all others. So LOWER turns
ZÜRICH into zÜrich, which is not 'zürich'. The condition is rewritten to compare with both spellings of such letters,
LOWER(city) IN ('zürich', 'zÜrich'), so that it holds as in a database that changes all letters.
"""

from collections.abc import Iterator
from itertools import product

from sqlglot import exp

from setwise.analytics.sql.syntax import short_text
from setwise.errors import InvalidParameter

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
