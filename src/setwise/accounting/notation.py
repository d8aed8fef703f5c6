"""The notation of uses, KIND:PARAMETERS[xCOUNT], on the command line and in the ledger: parser, format, and words.

The module also has the words by which uses are shown to people. The words of promises are in `promises`.

>>> parse_use("pure:0.1x25")
Use(guarantee=PureDP(epsilon=0.1), count=25)
>>> format_use(parse_use("approx:0.1,1e-9x3"))
'approx:0.1,1e-09x3'
"""

import re
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import lru_cache

from setwise.accounting.guarantees import KINDS, Guarantee, Use
from setwise.errors import InvalidParameter

_FORM = re.compile(r"(?P<kind>[a-z-]+):(?P<parameters>[^x]+)(?:x(?P<count>[^x]*))?")


def syntax() -> str:
    """Return a help text: an example of every kind of use, with the names of its parameters if there are several.

    >>> "zcdp:0.02x10 (rho[,xi[,delta]])" in syntax()
    True
    """
    return "  ".join(f"{kind}:{guarantee.example}{_parameter_names(guarantee)}" for kind, guarantee in KINDS.items())


def calibrated_kinds(free: str) -> str:
    """Return examples of written uses with a "?" in place of the parameter to calibrate, joined by commas.

    `free` is "noise" or "epsilon": only kinds of use whose one parameter is a noise scale, or an epsilon, are listed.

    >>> calibrated_kinds("epsilon")
    'pure:?x25, bounded-range:?x25'
    """
    return ", ".join(
        f"{kind}:?x{guarantee.example.partition('x')[2]}"
        for kind, guarantee in KINDS.items()
        if guarantee.calibrates == free
    )


def _parameter_names(kind: type[Guarantee]) -> str:
    """Return the parameter names of a `kind` of guarantee as a help text, such as " (rho[,xi[,delta]])".

    Optional parameters are in square brackets. The text is empty if there is only one parameter.
    """
    names, fewest = [field.name for field in fields(kind)], _required_parameters(kind)  # type: ignore[arg-type]
    if len(names) == 1:
        return ""
    optional = "".join(f"[,{name}" for name in names[fewest:])
    return f" ({','.join(names[:fewest])}{optional}{']' * (len(names) - fewest)})"


def _required_parameters(kind: type[Guarantee]) -> int:
    """Return how many parameters the written form of a `kind` of guarantee must have, because they have no default."""
    return sum(field.default is MISSING for field in fields(kind))  # type: ignore[arg-type]


def parse_guarantee(kind: str, parameters: list[float]) -> Guarantee:
    """Return the guarantee of the `kind`, such as "zcdp", with `parameters` in the order of the notation.

    Optional parameters may be left out at the end.

    Raises: `InvalidParameter` for an unknown kind, a wrong number of parameters, or a value out of range.
    """
    if kind not in KINDS:
        raise InvalidParameter(f"unknown kind {kind!r}; known kinds are {', '.join(KINDS)}")
    guarantee = KINDS[kind]
    known, fewest = fields(guarantee), _required_parameters(guarantee)  # type: ignore[arg-type]
    if not fewest <= len(parameters) <= len(known):
        wanted = str(fewest) if fewest == len(known) else f"{fewest} to {len(known)}"
        raise InvalidParameter(f"{kind} needs {wanted} parameter(s), not {len(parameters)}")
    values: dict[str, float] = {}
    for field, value in zip(known, parameters, strict=False):
        is_integer = field.type is int and value.is_integer()
        values[field.name] = int(value) if is_integer else value
    return guarantee(**values)


@lru_cache(maxsize=4096)
def parse_use(text: str) -> Use:
    """Return the use (a guarantee and a count) that `text` writes, such as ``pure:0.1x25`` or ``approx:0.1,1e-9``.

    Raises: `InvalidParameter` if the text is malformed.
    """
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise InvalidParameter(f"{text!r} is not of the form KIND:PARAMETERS[xCOUNT], such as pure:0.1x25")
    try:
        parameters = [float(part) for part in form["parameters"].split(",")]
    except ValueError:
        raise InvalidParameter(f"{text!r} has a parameter that is not a number") from None
    if form["count"] is not None and not re.fullmatch(r"[+-]?\d+", form["count"]):
        raise InvalidParameter(f"{text!r} has the count {form['count']!r}, which is not a whole number")
    try:
        return Use(parse_guarantee(form["kind"], parameters), int(form["count"] or 1))
    except InvalidParameter as error:
        raise InvalidParameter(f"in {text!r}, {error}") from None


def as_uses(uses: Iterable[Use | Guarantee | str] | Use | Guarantee | str) -> tuple[Use, ...]:
    """Return one or several uses as a tuple; each may be a `Use`, a guarantee or a written form such as "pure:0.1x25".

    Raises: `InvalidParameter` for a malformed form, or if there are no uses.
    """
    if isinstance(uses, str | Use | Guarantee):
        uses = [uses]
    parsed = []
    for use in uses:
        if isinstance(use, Use):
            parsed.append(use)
        elif isinstance(use, str):
            parsed.append(parse_use(use))
        else:
            parsed.append(Use(use))
    if not parsed:
        raise InvalidParameter("there is nothing to compose: give at least one use, such as pure:0.1x25")
    return tuple(parsed)


def format_use(use: Use) -> str:
    """Return the written form of a use, such as ``pure:0.1x25``. Parsing it gives the same use, to the last bit."""
    text = f"{use.guarantee.kind}:{','.join(repr(value) for value in use.guarantee.parameters())}"
    return text if use.count == 1 else f"{text}x{use.count}"


def shown_by(statement: str) -> str:
    """Return `statement`, the name of a proof, with the command that prints the document in which the proof is.

    Unlike a path of the repository, the command works wherever Setwise is installed.

    >>> shown_by("docs/optimal-composition.md, the set-wise optimum")
    'setwise docs optimal-composition, the set-wise optimum'
    >>> shown_by("lem:AGM"), shown_by("BunSt16")
    ('lem:AGM (setwise docs statements)', 'BunSt16 (setwise docs references)')
    """
    if "docs/" in statement:
        return re.sub(r"docs/([a-z-]+)\.md", r"setwise docs \1", statement)
    return f"{statement} (setwise docs {'statements' if ':' in statement else 'references'})"


def use_in_words(use: Use) -> str:
    """Return a use (a guarantee and a count) as text for pages that people read.

    On pages a bounded-range use is called a pick, and a (0, delta)-DP use a threshold.

    >>> use_in_words(parse_use("bounded-range:0.1x8")), use_in_words(parse_use("approx:0,1e-09"))
    ('8 picks at ε 0.1', '1 threshold at δ 1e-9')
    """
    noun, at = use.guarantee.in_words()
    return f"{use.count:,} {noun if use.count == 1 else noun + 's'} at {short_exponents(at)}"


def kind_in_words(guarantee: Guarantee) -> str:
    """Return the kind of `guarantee` and its parameters in words for pages, in the plural and without a count.

    Example: "picks at ε 0.1" for 0.1-bounded range, because pages call bounded-range uses picks.
    """
    noun, at = guarantee.in_words()
    return f"{noun}s at {short_exponents(at)}"


def short_exponents(text: str) -> str:
    """Return `text` with exponents written without leading zeros.

    >>> short_exponents("1e-06 and 3e+08")
    '1e-6 and 3e+8'
    """
    return re.sub(r"e([+-])0*", r"e\1", text)
