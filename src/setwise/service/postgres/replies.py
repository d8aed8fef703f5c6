"""Records that the modules of PostgreSQL's protocol pass to each other: results, refusals, and parsed SELECTs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from setwise.service.postgres.values import FLOAT8, ResultColumn


class Rejected(Exception):
    """Raised for a statement that is refused, with an SQLSTATE `code`, a `message` of one sentence and a `hint`."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a SQL statement: its columns and its rows."""

    columns: tuple[ResultColumn, ...]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFormat:
    """The form in which COPY sends rows: `form` is "text", "csv" or "binary".

    In the first two, `delimiter` separates cells, `null` stands for null, and with `has_header` the names of the
    columns come first.
    """

    form: str
    has_header: bool
    delimiter: str
    null: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a statement: a tag such as "SET" or "SELECT 3", its result if it returns rows, and notices.

    `copied` is the form of the rows if the statement is a COPY; None if the rows are a usual result.
    """

    tag: str
    result: Result | None = None
    notices: tuple[str, ...] = ()
    copied: CopyFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a SELECT is refused before it is asked: an SQLSTATE `code`, a `message` of one sentence and a `hint`.

    It is part of the `ReadSelect` that a worker process returns; the session then raises `Rejected` with these fields.
    """

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSelect:
    """A SELECT after it was parsed, but before it is asked as a question and charged.

    - `columns`: the columns of the result, or None if they are not known before the SELECT runs
    - `statistics`: for each column, whether it is a statistic, which may have an interval
    - `rows`: the rows of a catalogue query (an empty list for LIMIT 0), or None for a question about the dataset
    - `refusal`: why the SELECT is not answered, or None
    - `parameters`: the PostgreSQL type of each parameter that its place determines, by number ($1 is 1)
    """

    columns: tuple[ResultColumn, ...] | None = None
    statistics: tuple[bool, ...] = ()
    rows: Sequence[Sequence[object]] | None = None
    refusal: Refusal | None = None
    parameters: Mapping[int, int] = field(default_factory=dict)

    def with_intervals(self) -> tuple[ResultColumn, ...] | None:
        """Return the columns with two more, NAME_lower and NAME_upper, after each statistic.

        Returns None if the columns are not known.
        """
        if self.columns is None or len(self.statistics) != len(self.columns):
            return self.columns
        columns: list[ResultColumn] = []
        for column, is_statistic in zip(self.columns, self.statistics, strict=True):
            columns.append(column)
            if is_statistic:
                columns += interval_columns(column.name)
        return tuple(columns)


def interval_columns(name: str) -> list[ResultColumn]:
    """Return the two columns with the ends of the intervals of the statistic `name`."""
    return [ResultColumn(f"{name}_{end}", FLOAT8) for end in ("lower", "upper")]
