"""A parsed SQL statement: its budget options, its check before the charge, and its result after the release.

`parser.py` makes statements. This module also runs the part of their SQL over released (noisy) rows, which costs no
budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from setwise.accounting.promises import in_unit_nouns
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.bins import ConsecutiveTime, TimeUnit, group_of, parse_group, period_start
from setwise.analytics.budget import DEFAULT_DELTA, BudgetWords
from setwise.analytics.engines.duckdb.free_sql import ReleasedTable, ShellResult, check_shell, run_shell
from setwise.analytics.engines.joins import Join
from setwise.analytics.query import Count, Query, statistic_name
from setwise.analytics.result_texts import (
    describe_parts,
    with_chosen_rows,
    with_written_arguments,
    without_intervals,
    without_larger_numbers,
)
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.rows.expression import LARGEST_NUMBER
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.core import Core, stated_bounds, with_contributions, with_null_groups
from setwise.analytics.sql.free.choice import allow_for_choice
from setwise.analytics.sql.free.shell import Shell, ShellColumn, unique_names
from setwise.analytics.sql.result import Estimated, Output, RowCell, SqlAnswer, estimated
from setwise.analytics.sql.syntax import SPENDING
from setwise.analytics.tables.scan_notes import NullSum
from setwise.errors import InvalidParameter
from setwise.ledger.records import canonical
from setwise.mechanisms.labels import cell_of, shown_cell
from setwise.mechanisms.release import UNRELIABLE, mark_reasons, noise_may_dominate

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A parsed SQL statement: the SELECTs that aggregate private rows (`cores`), and the SQL over their noisy results.

    - `cores` are in the order in which they run.
    - `outputs` are the columns of the result; empty if they are known only after `shell` has run.
    - `user` is the user column.
    - `shell` is the SQL over released (noisy) rows and public tables, which costs nothing; None if the released rows
      are the result.
    - `scalars` are scalar subqueries whose released values stand in conditions of later SELECTs.
    - `has_public_values` is True if expressions over private rows have constants computed from public tables.
    - `explain` is True for EXPLAIN.
    - `null_sums` are sums and differences of columns that are null where one of the columns is null.
    - `epsilon`, `delta` and `within` are from the OPTIONS clause; None if not set. `within` is the precision that the
      analyst wants: half the width of a confidence interval, in the unit of the statistic.
    """

    cores: tuple[Core, ...]
    outputs: tuple[Output, ...]
    user: str
    shell: Shell | None = None
    scalars: tuple[Shell, ...] = ()
    has_public_values: bool = False
    explain: bool = False
    null_sums: tuple[NullSum, ...] = ()
    epsilon: float | None = None
    delta: float | None = None
    within: float | None = None

    @property
    def query(self) -> Query:
        """The statement's private query; if several SELECTs read private rows, the query of the last one to run."""
        return self.cores[-1].query

    @property
    def table(self) -> str:
        """The name of the private table that the statement reads.

        If several SELECTs aggregate private rows, it is the table of the last one to run.
        """
        return self.cores[-1].source.table

    @property
    def joins(self) -> tuple[Join, ...]:
        """The joins of the SELECT that aggregates private rows; with several such SELECTs, of the last one to run."""
        return self.cores[-1].source.joins

    @property
    def derivation(self) -> Derivation:
        """The steps that compute the private rows which the statement aggregates.

        Each step filters rows or computes columns. If several SELECTs aggregate private rows, these are the steps of
        the last one to run.
        """
        return self.cores[-1].source.derivation

    @property
    def public(self) -> tuple[str, ...]:
        """The names of the public tables that SQL over released (noisy) rows reads, for example to join them.

        They are tables without users. Public tables that are joined to private rows are in `joins` instead.
        """
        return tuple(dict.fromkeys(name for shell in self._shells for name in shell.public))

    @property
    def _shells(self) -> tuple[Shell, ...]:
        """All parts of the statement that are SQL over released (noisy) rows and public tables.

        These are the scalar subqueries (`scalars`) and, if it is not None, the SQL that computes the result (`shell`).
        """
        return (*self.scalars, *([] if self.shell is None else [self.shell]))

    @property
    def advice(self) -> str:
        """Sentences that say how ratios of the statement can mislead, and what to ask instead; "" if there are none."""
        return " ".join(dict.fromkeys(core.advice for core in self.cores if core.advice))

    @property
    def says_what_to_spend(self) -> bool:
        """Whether the statement's OPTIONS clause sets at least one of epsilon, delta and within."""
        return any(getattr(self, name) is not None for name in SPENDING)

    def paid_by(self, words: BudgetWords, delta: float = DEFAULT_DELTA) -> BudgetWords:
        """Return the budget of the statement: epsilon, delta and `within`, from `words` and from the OPTIONS clause.

        `words` has the values that were given beside the SQL text. `within` states an accuracy instead of an epsilon:
        the half-width that 95% intervals may have at most (see `Within`). Private groups need a delta: if the statement
        has such groups, and sets epsilon or `within` but no delta, the default `delta` is added.
        Raises: `InvalidParameter` if a value is given both in `words` and in OPTIONS.
        """
        options: BudgetWords = {name: value for name in SPENDING if (value := getattr(self, name)) is not None}  # type: ignore[assignment]
        for name in options:
            if words.get(name) is not None:
                raise InvalidParameter(f"{name} is given twice, in OPTIONS and beside the query: give it once")
        spent: BudgetWords = {**words, **options}
        total = spent.get("epsilon") is not None or spent.get("within") is not None
        if self.has_private_groups and total and spent.get("delta") is None:
            spent["delta"] = delta
        return spent

    @property
    def has_private_groups(self) -> bool:
        """Whether at least one SELECT groups by columns whose values are not public, so that a delta is needed."""
        return any(core.query.item is not None and core.query.domain is None for core in self.cores)

    def filled(self, *, finds_bounds: bool = True) -> "Statement":
        """Return the statement with defaults filled into its queries.

        - Rows in which a group key is null get the label NULL, if they form groups.
        - A query with private groups that does not state the most groups in which one user counts gets
          `contributions="auto"`, so that a private search finds this number.

        If `finds_bounds` is False, the second default is left out. The caller passes False if the question states no
        epsilon or accuracy, so that an account pays with guarantees that it registered in advance. Such a guarantee
        pays for a noisy count or a selection of a group, and not for a search for bounds.
        """
        cores = []
        for core in self.cores:
            query = with_null_groups(core.query) if core.has_null_groups else core.query
            # Guarantees of single mechanisms, drawn from an account, leave nothing for a search.
            if finds_bounds and core.says_nothing_of_contributions:
                query = with_contributions(query)
            cores.append(replace(core, query=query))
        return replace(self, cores=tuple(cores))

    def check_shell(self, schemas: Sequence[Schema | None], public: "Mapping[str, pa.Table] | None" = None) -> None:
        """Raise `InvalidParameter` if DuckDB rejects the SQL over released (noisy) rows.

        This check comes before the charge, so that a statement that cannot be finished costs nothing. `schemas` has,
        for each SELECT that aggregates private rows, the columns of these rows, or None if they are not known. `public`
        are the public tables by name; None means that there are none.
        """
        tables = {core.name: _types(core, schema) for core, schema in zip(self.cores, schemas, strict=True)}
        for shell in self._shells:
            check_shell(shell.sql, tables, public)

    def released_value(
        self, place: int, answers: Sequence[PrivateAnswer], public: "Mapping[str, pa.Table] | None" = None
    ) -> float | None:
        """Return the value of a scalar subquery, computed from released (noisy) `answers`; None if it is not usable.

        - `place` is the index of the subquery in `scalars`.
        - `answers` are the answers of the SELECTs that ran before.
        - `public` are the public tables by name; None means that there are none.

        A value is not usable if the SQL fails, if it has not exactly one row, or if the value is not a number of at
        most `LARGEST_NUMBER` in absolute value.
        """
        try:
            result = run_shell(self.scalars[place].sql, self._tables(answers), public)
        except InvalidParameter:
            return None
        value = result.rows[0][0] if len(result.rows) == 1 else None
        return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST_NUMBER else None

    def with_released(
        self,
        derivation: Derivation,
        answers: Sequence[PrivateAnswer],
        public: "Mapping[str, pa.Table] | None" = None,
    ) -> Derivation:
        """Return `derivation` with each reference to a scalar subquery replaced by its released (noisy) value.

        A derivation is the list of steps that compute the private rows of a SELECT. The values are computed from
        `answers`, the answers of the SELECTs that ran before this one, and from the `public` tables by name (None:
        there are none).
        """
        places = derivation.released
        if not places:
            return derivation
        return derivation.with_released({place: self.released_value(place, answers, public) for place in places})

    def request_text(self, texts: Sequence[str], versions: Mapping[str, str] | None = None) -> str:
        """Return a text that identifies a statement with several SELECTs over private rows.

        Equal statements have equal texts, so that a statement that is asked again is recognised and not charged again.
        `texts` are the request texts of the single SELECTs. `versions` maps the names of data lake tables to their
        versions; None if there are none.
        """
        stated = {} if not versions else {"versions": dict(versions)}
        return canonical({"statement": list(texts), "scalars": [shell.sql for shell in self.scalars], **stated})

    def result(self, answer: PrivateAnswer, public: "Mapping[str, pa.Table] | None" = None) -> SqlAnswer:
        """Return the result of the statement, computed from `answer`, the stored noisy answer; this costs no budget.

        `public` are the public tables by name; None means that there are none. If the SQL over released rows fails, the
        result has the released rows themselves and says why in `problem`.
        """
        answers = answer.parts or (answer,)
        cores = zip(self.cores, answers, strict=False)
        bounds = tuple(each for core, part in cores for each in stated_bounds(core, part.found))
        written = [
            with_written_arguments(part, core.arguments) for core, part in zip(self.cores, answers, strict=False)
        ]
        answer = replace(answer, parts=tuple(written)) if answer.parts else written[0]
        rows = self._rows(answer, answers, public)
        described = describe_parts(rows.answer, [core.query.groups for core in self.cores])
        sums = [each.answer_note() for each in self.null_sums]
        notes = (*rows.notes, *self._row_count_notes(answers), *self._null_notes(), *sums)
        return replace(rows, answer=described, bounds=bounds, notes=notes, advice=self.advice)

    def _row_count_notes(self, answers: Sequence[PrivateAnswer]) -> list[str]:
        """Return a list with one warning if COUNT(*) or COUNT(x) was answered as a count of users; [] if no count was.

        A count of rows becomes a count of users if the dataset or the catalog (the data holder's file) declares that
        only one row of a user counts in a group. `answers` are the answers of the SELECTs over private rows; the field
        `measure` of each says what was counted.
        """
        for core, answer in zip(self.cores, answers, strict=False):
            where = " per item" if core.query.item is not None else ""
            for statistic in core.query.statistics:
                if isinstance(statistic, Count) and (statistic.is_auto or statistic in core.cataloged):
                    users = Count(most=1, column=statistic.column)
                    counted = in_unit_nouns(users.description((), where), answer.unit, core.query.columns)
                    # The statement may also ask for the users themselves, which `measure` describes in the same words.
                    asked = users in core.query.statistics and users not in core.cataloged
                    if answer.measure.split("; ").count(counted) > asked:
                        return [
                            f"COUNT(*) and COUNT(x) count each {self.user} at most once in a group, because the "
                            "dataset or the catalog bounds the rows of each to 1."
                        ]
        return []

    def _null_notes(self) -> list[str]:
        """Return a list with one sentence, naming the group columns whose nulls form no group; [] if there are none."""
        columns = list(dict.fromkeys(column for core in self.cores for column in core.nulls_left_out))
        if not columns:
            return []
        return [
            f"Rows in which {' or '.join(columns)} is null are in no group; GROUP BY COALESCE({columns[0]}, ..) counts "
            "them."
        ]

    def _rows(
        self, answer: PrivateAnswer, answers: Sequence[PrivateAnswer], public: "Mapping[str, pa.Table] | None"
    ) -> SqlAnswer:
        if self.shell is None:
            return SqlAnswer(answer=_sorted_as_shown(answer, self.query), outputs=self.outputs)
        try:
            result = run_shell(self.shell.sql, self._tables(answers), public)
            # The rows that the SQL chooses do not depend on intervals, so a second run shows them with wider ones.
            released = sum(len(each.items) for each in answers)
            are_wider = False
            if self.shell.chooses_rows and 0 < len(result.rows) < released:
                share = Fraction(len(result.rows), released)
                wider, are_wider = allow_for_choice(answers, [core.query for core in self.cores], share)
                result = run_shell(self.shell.sql, self._tables(wider), public)
        except InvalidParameter as error:
            return SqlAnswer(answer=answer, outputs=_released_outputs(self.cores[-1].query), problem=str(error))
        return _computed_answer(answer, self.shell, result, are_wider=are_wider)

    def _tables(self, answers: Sequence[PrivateAnswer]) -> dict[str, ReleasedTable]:
        return {core.name: _released_table(core, answer) for core, answer in zip(self.cores, answers, strict=False)}


def _sorted_as_shown(answer: PrivateAnswer, query: Query) -> PrivateAnswer:
    """Return the `answer` to a private top k with its items in descending order of the numbers that it shows.

    A top k may release the order of its items and their counts with separate noise, so that a later item has the larger
    count. SQL's ORDER BY promises the order of the numbers in the rows. Other answers are returned unchanged.
    """
    users = [place for place, statistic in enumerate(query.statistics) if statistic == Count(most=1)]
    if query.k is None or (len(query.statistics) > 1 and not users):
        return answer
    place = 0 if len(query.statistics) == 1 else users[0]
    numbers = [item.estimates[place].value if item.estimates else item.count for item in answer.items]
    if any(number is None for number in numbers):
        return answer
    order = sorted(range(len(numbers)), key=lambda index: -(numbers[index] or 0))
    return replace(answer, items=tuple(answer.items[index] for index in order))


def _types(core: Core, schema: Schema | None) -> dict[str, type]:
    """Return the Python type of each column, by name, of the table of released (noisy) rows of `core`.

    `core` is one of the statement's SELECTs that aggregate private rows. `schema` describes these private rows. If
    `schema` is None, group keys are taken to be text, unless they are periods of time or ranges of numbers.
    """
    labels: list[type] = []
    for place, text in enumerate(core.query.groups):
        known = None if schema is None else group_of(text, schema).labels(schema)
        integers = known is not None and known.kind is Kind.INTEGER
        number = int if integers else float if core.has_fractions(place) else str
        labels.append(_time_type(text) if _is_time(core, place) else number)
    numbers: list[type] = []
    for statistic in core.query.statistics:
        numbers += [*[int if isinstance(statistic, Count) else float] * 3, bool]
    return dict(zip(core.columns, (*labels, *numbers), strict=True))


def _is_time(core: Core, place: int) -> bool:
    """Return whether the keys of the group column with the index `place` in `core`, a SELECT, are periods of time."""
    return place < len(core.times) and core.times[place]


def _time_type(group: str) -> type:
    """Return the Python type that shows the periods of a group column: `datetime` for hours, otherwise `date`.

    `group` is the group column as the query writes it, such as "at by month".
    """
    bin_of = parse_group(group).bin
    return datetime if isinstance(bin_of, ConsecutiveTime) and bin_of.unit is TimeUnit.HOUR else date


def _released_table(core: Core, answer: PrivateAnswer) -> ReleasedTable:
    """Return the groups of `answer` as a table of released (noisy) rows, which further SQL of the statement reads.

    `core` is the SELECT over private rows that `answer` answers. Group keys that are periods, such as "2026-01", become
    the date or time at which the period begins, and keys that stand for NULL become None.
    """
    rows: list[list[object]] = []
    for item in answer.items:
        labels: list[object] = [shown_cell(item.label, place) for place in range(len(core.query.groups))]
        numbers: list[object] = []
        if item.estimates:
            for estimate in item.estimates:
                numbers += [estimate.value, *(estimate.interval or (None, None)), estimate.unreliable]
        else:
            numbers += [item.count, *(item.interval or (None, None)), item.unreliable]
        rows.append([*labels, *numbers])
    kinds: dict[str, type] = {}
    for place, name in enumerate(core.columns):
        if name.startswith("g") and _is_time(core, place):
            kinds[name] = _time_type(core.query.groups[place])
            for row in rows:
                key = row[place]
                row[place] = period_start(key) if isinstance(key, str) else None
            continue
        if name.startswith("g") and core.has_fractions(place):
            kinds[name] = float
            for row in rows:
                row[place] = None if row[place] is None else float(str(row[place]))
            continue
        text = name.startswith("g") and any(isinstance(cell_of(item.label, place), str) for item in answer.items)
        kinds[name] = bool if name.endswith("_unreliable") else str if text else int
        if text:
            for row in rows:
                row[place] = None if row[place] is None else str(row[place])
    return ReleasedTable(columns=kinds, rows=rows)


def _released_outputs(query: Query) -> tuple[Output, ...]:
    groups = [Output(name=name, group=place) for place, name in enumerate(query.groups)]
    statistics = [Output(name=statistic_name(each), statistic=place) for place, each in enumerate(query.statistics)]
    return (*groups, *statistics)


def _computed_answer(answer: PrivateAnswer, shell: Shell, result: ShellResult, *, are_wider: bool) -> SqlAnswer:
    """Return the result of a statement whose rows are `result`: DuckDB computed them with the SQL of `shell`.

    That SQL has read the released (noisy) rows of `answer`. The numbers of a column become `Estimated` (a value, its
    interval, and the mark "unreliable") if the column has confidence intervals, or if noise may dominate one of them.
    `are_wider` is True if intervals allow for rows that the SQL chose by their noisy numbers.
    """
    names = unique_names(result.names) if shell.columns is None else result.names
    columns = [ShellColumn(name=name) for name in names] if shell.columns is None else list(shell.columns)
    hidden = {name: place for place, name in enumerate(result.names)}
    rows: list[dict[str, RowCell]] = [{} for _ in result.rows]
    for place, column in enumerate(columns):
        flags = [column.unreliable is not None and bool(row[hidden[column.unreliable]]) for row in result.rows]
        for cells, row, flag in zip(rows, result.rows, flags, strict=True):
            value = row[place]
            estimate = column.lower is not None or any(flags)
            if estimate and (value is None or (isinstance(value, int | float) and not isinstance(value, bool))):
                cells[column.name] = estimated(value, _interval(column, row, hidden), unreliable=flag)
            else:
                cells[column.name] = value
    outputs = tuple(computed_output(column) for column in columns)
    notes = _notes(answer, columns, rows)
    if all(column.lower is None for column in columns):
        answer = without_intervals(answer)
    if not any(column.sources == 1 for column in columns):  # ratios and the like, which bounds change to either side
        answer = without_larger_numbers(answer)
    released = sum(len(part.items) for part in answer.parts or (answer,))
    if shell.chooses_rows and len(rows) < released and any(column.lower is not None for column in columns):
        answer = with_chosen_rows(answer, are_wider=are_wider)
    return SqlAnswer(answer=answer, outputs=outputs, computed=tuple(rows), notes=notes)


def computed_output(column: ShellColumn) -> Output:
    """Return the result column that shows `column`, a column of the SQL over released (noisy) rows."""
    return Output(name=column.name, interval=column.lower is not None, is_key=column.is_key)


def _interval(column: ShellColumn, row: Sequence[object], hidden: Mapping[str, int]) -> list[float] | None:
    """Return the confidence interval [lower, upper] of the result column `column` in `row`; None if the value has none.

    The ends stand in hidden columns of `row`, which the result does not show; `hidden` maps the names of these columns
    to their indexes in `row`.
    """
    if column.lower is None or column.upper is None:
        return None
    lower, upper = row[hidden[column.lower]], row[hidden[column.upper]]
    return [lower, upper] if isinstance(lower, int | float) and isinstance(upper, int | float) else None


def _notes(
    answer: PrivateAnswer, columns: Sequence[ShellColumn], rows: Sequence[Mapping[str, RowCell]]
) -> tuple[str, ...]:
    """Return sentences for the analyst about a result that was computed by SQL from the noisy `answer`.

    `columns` and `rows` are the columns and rows of the result. The sentences say with which probability computed
    confidence intervals hold, what the mark "unreliable" means if a cell has it, and which columns have numbers without
    intervals.
    """
    notes = []
    for sources in sorted({column.sources for column in columns if column.sources > 1}):
        names = [column.name for column in columns if column.sources == sources]
        sure = max(0.0, 1 - sources * (1 - answer.confidence))
        one = len(names) == 1
        notes.append(
            f"The interval{'' if one else 's'} of {' and '.join(names)} {'is' if one else 'are'} computed from the "
            f"intervals of {sources} released numbers, which all hold with probability {sure:.0%} or more."
        )
    marked = [cell for row in rows for cell in row.values() if isinstance(cell, dict) and cell.get("unreliable")]
    if marked and mark_reasons(answer.interval_note) != UNRELIABLE:  # other reasons, of other statistics
        marked = [cell for cell in marked if _is_noisy(cell)]
    if marked and UNRELIABLE not in answer.interval_note:
        notes.append(UNRELIABLE)
    names = [column.name for column in columns if column.lower is None and not column.is_key]
    bare = [name for name in names if any(_is_number(row[name]) for row in rows)]
    if bare:
        one = len(bare) == 1
        notes.append(f"The number{'' if one else 's'} in {' and '.join(bare)} come{'s' * one} without an interval.")
    return tuple(notes)


def _is_noisy(cell: Estimated) -> bool:
    """Return whether the confidence interval of the number in `cell` shows that noise may be as large as the number."""
    lower, upper = cell.get("interval", (0.0, 0.0))
    return noise_may_dominate(cell["value"], (lower, upper))


def _is_number(cell: RowCell) -> bool:
    value = cell["value"] if isinstance(cell, dict) else cell
    return isinstance(value, int | float) and not isinstance(value, bool)
