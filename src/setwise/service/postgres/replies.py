"""Records that the modules of PostgreSQL's protocol pass to each other: results, refusals, and parsed SELECTs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from setwise.service.postgres.values import FLOAT8, ResultColumn


class Rejected(Exception):
    """Raised for a statement that is refused, with a `message` of one sentence.

    `code` is the SQLSTATE code that the client is sent, and `hint` says what to do ("" for no hint).
    """

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
    """The format in which COPY sends rows.

    - `form`: "text", "csv" or "binary"
    - `has_header`: whether a line with the names of the columns comes first (not in binary form)
    - `delimiter`: the text between cells (not in binary form)
    - `null`: the text that stands for null (not in binary form)
    """

    form: str
    has_header: bool
    delimiter: str
    null: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one statement of a client.

    - `tag`: says what has run, such as "SET" or "SELECT 3"
    - `result`: the columns and rows, or None if the statement returns no rows
    - `notices`: sentences that the client shows beside the result
    - `copied`: the format in which the rows are sent if the statement is a COPY; None for any other statement
    """

    tag: str
    result: Result | None = None
    notices: tuple[str, ...] = ()
    copied: CopyFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a SELECT is refused before it is asked: an SQLSTATE `code`, a `message` of one sentence and a `hint` (or "").

    A worker process returns it as part of a `ReadSelect`, and the session then raises `Rejected` with these fields.
    """

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSelect:
    """A SELECT after it was parsed, but before it is asked as a question and charged.

    - `columns`: the columns of the result, or None if they are not known before the SELECT runs
    - `statistics`: for each column, True if it is a statistic, which may have an interval; empty if this is not known
    - `rows`: the rows, if they are known without a question: a query of PostgreSQL's system tables has been run, and a
      SELECT with LIMIT 0 has no rows. None means that the SELECT must be asked and charged
    - `refusal`: why the SELECT is not answered, or None
    - `parameters`: the PostgreSQL type of each parameter $1, $2, ... whose type follows from the statement, by its
      number
    """

    columns: tuple[ResultColumn, ...] | None = None
    statistics: tuple[bool, ...] = ()
    rows: Sequence[Sequence[object]] | None = None
    refusal: Refusal | None = None
    parameters: Mapping[int, int] = field(default_factory=dict)

    def with_intervals(self) -> tuple[ResultColumn, ...] | None:
        """Return the result columns with two more after each statistic NAME: NAME_lower and NAME_upper, its interval.

        Returns None if the columns are not known. Adds no columns if it is not known which columns are statistics.
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
    """Return the columns NAME_lower and NAME_upper, of floats, for the interval ends of the statistic called `name`."""
    return [ResultColumn(f"{name}_{end}", FLOAT8) for end in ("lower", "upper")]
