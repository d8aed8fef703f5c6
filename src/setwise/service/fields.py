"""The fields that several requests share: names, numbers and written uses that refuse what cannot be."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from setwise.accounting import calibrate
from setwise.accounting.notation import parse_use
from setwise.errors import InvalidParameter
from setwise.service.person import NAME

NO_CONTROL = r"^[^\u0000-\u001f\u007f]*$"

MOST_USES = 50
"""The most different uses in one request."""

LARGEST_COUNT = 100_000
"""The most uses of one kind in one request."""

_KIND_NAMES = (
    *("pure", "bounded-range", "laplace", "gaussian", "zcdp", "cdp", "approx"),
    *("discrete-laplace", "discrete-gaussian", "truncated-gaussian"),
)
_KINDS = f"({'|'.join(_KIND_NAMES)})"


class Body(BaseModel):
    """What a request may hold: exactly the named fields, of exactly their kinds."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _use(text: str) -> str:
    use = parse_use(text)
    if use.count > LARGEST_COUNT:
        raise InvalidParameter(f"a use must count at most {LARGEST_COUNT:,}, not {use.count:,}")
    return text


def _planned_use(text: str) -> str:
    if "?" not in text:
        return _use(text)
    calibrate.parse_plan([text])
    return text


Name = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"),
]
Column = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=NO_CONTROL)]
ShortText = Annotated[str, StringConstraints(max_length=100, pattern=NO_CONTROL)]
_WRITTEN = rf"^{_KINDS}:[0-9.,eE+x-]+$"
_PLANNED = rf"^{_KINDS}:[0-9.,eE+x?-]+$"
Written = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_WRITTEN)]
Use = Annotated[Written, AfterValidator(_use), Field(description="KIND:PARAMETERS[xCOUNT], such as pure:0.1x25")]
PlannedUse = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=_PLANNED),
    AfterValidator(_planned_use),
    Field(description="a use, one of them with a ? for what is to be found: gaussian:?x10, pure:?x25, pure:0.1x?"),
]
Epsilon = Annotated[float, Field(gt=0.0, le=100.0, description="a privacy loss, at most 100")]
Delta = Annotated[float, Field(gt=0.0, lt=1.0, description="a probability strictly between 0 and 1")]

PATTERNS_IN_WORDS = {
    NAME: "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit",
    NO_CONTROL: "text without control characters",
    _WRITTEN: f"a use such as pure:0.1 or gaussian:20x3, of one of the kinds {', '.join(_KIND_NAMES)}; "
    "leave the field out for none",
    _PLANNED: f"a use such as gaussian:?x10 or pure:0.1x25, of one of the kinds {', '.join(_KIND_NAMES)}",
}
"""What each pattern asks for: nobody should have to read a regular expression."""
