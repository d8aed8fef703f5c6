"""The part of a statement that costs no budget, as SQL text: a SELECT over released rows and public tables.

Released rows are the noisy answers of the statement's private queries. Result columns that depend on released
statistics get hidden columns beside them, with the ends of their intervals and whether noise may dominate them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.free.intervals import (
    ColumnEnds,
    Ends,
    HiddenColumns,
    constant_number,
    count_sources,
    interval_ends,
    is_released,
    statistic_ends,
    unreliable_condition,
)

_MOST_PRODUCTS = 40
"""The most products and quotients of two numbers in a statement with intervals; with more, no column has an interval.

Together with `_LARGEST_OPERANDS` it limits the SQL of a statement of 10,000 characters to about 300,000 characters.
"""


_COLUMNS = "columns with hidden ones"
"""The key in `meta` of a SELECT under which its result columns are kept once its hidden columns have been added."""


_HAS_COMMON_TABLES = "has common tables"
"""The note at a statement's tree that says whether it has common table expressions, so that none is looked for."""


_KEYS = "columns of group keys"
"""The key in `meta` of a statement's tree under which its `_KeyColumns` are kept."""


class _KeyColumns(dict[tuple[int, int], tuple[Sequence[exp.Expr], bool]]):
    """Whether columns of a statement's SELECTs hold group keys, by the identity of the SELECT and the column's place.

    The SELECTs are kept as well, so that no new one gets the identity of one that is gone.
    """

    def __deepcopy__(self, memo: object) -> "_KeyColumns":
        """Return the object itself, because a copy of the tree would otherwise copy the tree within it without end."""
        return self


_EXPANDED = "expanded"
"""The note at a SELECT whose * have been replaced by columns, as far as they can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellColumn:
    """A result column of a SELECT over released (noisy) rows, which a `Shell` describes.

    - `lower` and `upper` name the hidden columns (which the result does not show) with the ends of its confidence
      interval; both are None if it has no interval.
    - `unreliable` names the hidden column that is true in rows where noise may dominate the value; None if the column
      depends on no statistic.
    - `sources` is the number of released statistics from which the interval is computed; a note on the result says how
      sure the interval then is.
    - `is_key` is True if the column is computed from group keys alone, so that its values have no noise.
    """

    name: str
    lower: str | None = None
    upper: str | None = None
    unreliable: str | None = None
    sources: int = 0
    is_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The outer part of a statement: a SELECT, as DuckDB SQL text `sql`, over released (noisy) rows and public tables.

    Running it costs no budget, because it reads no private rows.
    - `columns` are the columns of the result; None if they are known only after the SQL has run.
    - `public` are the names of the public tables that the SQL reads.
    - `chooses_rows` is True if the SQL may leave out rows because of their noisy numbers.
    """

    sql: str
    columns: tuple[ShellColumn, ...] | None = None
    public: tuple[str, ...] = ()
    chooses_rows: bool = False


def shell_of(tree: exp.Expr, public: Sequence[str], most_keys: int) -> Shell:
    """Return, as a `Shell`, the DuckDB SQL text of the part of a statement that runs over released (noisy) rows.

    - `tree` is the syntax tree of this part. Hidden columns, which the result does not show, are added to it in place.
      They have the ends of confidence intervals, and say whether noise may dominate a number.
    - `public` are the names of the public tables that it reads.
    - `most_keys` is the largest number of group columns that a private query of the statement has. An ORDER BY with
      fewer group keys leaves some rows equal, in an order that may depend on noise. A LIMIT may then choose rows by
      noise; the field `chooses_rows` of the result says so.
    """
    columns = None
    selects = _united_selects(tree)
    tree.meta[_HAS_COMMON_TABLES] = tree.find(exp.CTE) is not None
    chooses = _chooses_by_noise(tree, most_keys)
    # Without this limit the SQL of the ends of intervals could become very long.
    if selects and _count_products(tree) <= _MOST_PRODUCTS:
        for select in selects:
            _expand_stars(select, tree)
        tree.meta.pop(_KEYS, None)  # the columns of a * are known by now
        if _have_equal_columns(selects):
            shown = _with_ends(selects, tree)
            names = unique_names([column.name for column in shown])
            columns = tuple(replace(column, name=name) for column, name in zip(shown, names, strict=True))
    text = tree.sql(dialect="duckdb", identify=True)
    return Shell(sql=text, columns=columns, public=tuple(public), chooses_rows=chooses)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the column names `names` with a number added to each repeated name, so that n, n becomes n, n_1.

    The names must differ because a row of the result is a mapping from column name to cell.
    """
    unique: list[str] = []
    for name in names:
        other, number = name, 1
        while other in unique:
            other, number = f"{name}_{number}", number + 1
        unique.append(other)
    return unique


def _chooses_by_noise(tree: exp.Expr, most_keys: int) -> bool:
    """Return whether a WHERE, HAVING, QUALIFY, LIMIT or JOIN of `tree` may choose rows by released (noisy) numbers.

    `most_keys` is the largest number of group columns that a private query of the statement has.
    - A condition may choose by noise unless it reads only group keys.
    - A join may choose by noise unless it compares only columns without noise.
    - A LIMIT or OFFSET may choose by noise unless ORDER BY has only group keys, and at least `most_keys` of them. With
      fewer keys, the order of rows with equal keys could depend on noise.
    """
    for node in tree.find_all(exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Offset):
        select = node.parent
        if not isinstance(select, exp.Select):
            return True
        conditions = [node.this]
        if isinstance(node, exp.Limit | exp.Offset):
            order = select.args.get("order")
            conditions = [] if order is None else [_selected(term.this, select) for term in order.expressions]
            if len(set(conditions)) < max(most_keys, 1):
                return True
        if not all(_is_key(condition, select, tree) for condition in conditions):
            return True
    return any(_joins_by_noise(join, tree) for join in tree.find_all(exp.Join))


def _joins_by_noise(join: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether the condition of `join` may compare released (noisy) numbers, as in JOIN m ON t.n = m.most.

    Noise then decides which rows the join keeps, as with a condition on released numbers in WHERE. `tree` is the whole
    statement.
    """
    select = join.parent
    if not isinstance(select, exp.Select) or str(join.args.get("method") or "").upper() == "NATURAL":
        return True
    condition = join.args.get("on")
    columns = [exp.column(each.name) for each in join.args.get("using") or ()]
    columns += [] if condition is None else list(condition.find_all(exp.Column))
    if condition is not None and condition.find(exp.Subquery, exp.Select) is not None:
        return True
    tables = [select.args["from_"].this, *(each.this for each in select.args["joins"])]
    return any(
        _may_hold_noise(column, table, tree)
        for column in columns
        for table in tables
        if not column.table or table.alias_or_name.lower() == column.table.lower()
    )


def _may_hold_noise(column: exp.Expr, table: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether `column` may come from `table`, an entry of FROM, and depend on released (noisy) numbers.

    Columns of public tables, constants and group keys do not depend on them. `tree` is the whole statement.
    """
    if not _reads_released_rows(table, tree):
        return False
    selects = _selects_of(table, tree)
    if not selects or not _have_equal_columns(selects):
        return True
    names = [each.alias_or_name.lower() for each in selects[0].expressions]
    if column.name.lower() not in names:
        return False
    for select in selects:
        rows = select.copy()
        for clause in ("group", "distinct"):  # what a row is made of decides, not which rows are made one
            rows.set(clause, None)
        node = rows.expressions[names.index(column.name.lower())].unalias()
        is_constant = node.find(exp.Column, exp.Window, exp.Select) is None and not has_aggregate(node)
        if not is_constant and not _is_key(node, rows, tree):
            return True
    return False


def _reads_released_rows(table: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether `table`, an entry of FROM in the statement `tree`, reads the rows of a private query's answer."""
    common = {each.alias.lower(): each.this for each in tree.find_all(exp.CTE)}
    waiting, seen = [table], set[str]()
    while waiting:
        for read in waiting.pop().find_all(exp.Table):
            name = read.name.lower()
            if is_released(read):
                return True
            if name in common and name not in seen:
                seen.add(name)
                waiting.append(common[name])
    return False


def _selected(node: exp.Expr, select: exp.Expr) -> exp.Expr:
    """Return the expression by which `node`, one entry of ORDER BY in `select`, sorts.

    If `node` names the alias of a result column, this is the expression of that column; otherwise it is `node` itself.
    """
    for column in select.expressions:
        if type(node) is exp.Column and not node.table and column.alias.lower() == node.name.lower():
            named: exp.Expr = column.unalias()
            return named
    return node


def _count_products(tree: exp.Expr) -> int:
    """Return how often the syntax tree `tree` multiplies or divides two numbers that are not constant.

    Each such product or quotient makes the SQL that computes confidence intervals several times as long. The caller
    adds no intervals if there are too many.
    """
    return sum(
        constant_number(node.this.unnest()) is None and constant_number(node.args["expression"].unnest()) is None
        for node in tree.find_all(exp.Mul, exp.Div)
    )


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


def _united_selects(tree: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs whose rows `tree` unites with UNION ALL, in order; only `tree` itself if it is a SELECT.

    The caller adds hidden columns to these SELECTs, which the result does not show: the ends of confidence intervals,
    and whether noise may dominate a number. The list is empty for UNION, INTERSECT and EXCEPT, because they compare
    whole rows, so that an added column would change the result.
    """
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Subquery) and not tree.alias:
        return _united_selects(tree.this)
    if not isinstance(tree, exp.Union) or tree.args.get("distinct") or tree.args.get("by_name"):
        return []
    sides = [_united_selects(tree.args[side]) for side in ("this", "expression")]
    return [*sides[0], *sides[1]] if all(sides) else []


def _have_equal_columns(selects: Sequence[exp.Expr]) -> bool:
    """Return whether `selects` have equal numbers of result columns, and no result column is a *.

    If not, the columns of SELECTs that UNION ALL unites cannot be matched by their positions.
    """
    columns = [each for select in selects for each in select.expressions]
    return len({len(select.expressions) for select in selects}) == 1 and not any(map(_is_star, columns))


def _passed_selects(select: exp.Expr, tree: exp.Expr) -> list[exp.Expr]:
    """Return the inner SELECTs from which `select` reads, if each row of `select` comes from one of their rows.

    The caller finds out from the inner SELECTs which group keys and statistics a column of `select` shows. The inner
    SELECTs are those of the subquery or common table expression in FROM; there are several if it unites them with UNION
    ALL. The list is empty if `select` combines rows, by GROUP BY, DISTINCT or a join, or if FROM names a table that is
    no common table expression. `tree` is the whole statement.
    """
    source = select.args.get("from_")
    if source is None or any(select.args.get(clause) for clause in ("group", "distinct", "joins")):
        return []
    return _selects_of(source.this, tree)


def _selects_of(table: exp.Expr, tree: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs that make up `table`, an entry of a FROM clause, if hidden columns may be added to them.

    Hidden columns, which the result does not show, have the ends of a number's confidence interval. `table` is a
    subquery, or the name of a common table expression of the whole statement `tree`. The list is empty for other
    tables, and if added columns would change the result, as under SELECT * or DISTINCT.
    """
    inner = None
    if table.args.get("pivots"):
        return []
    if isinstance(table, exp.Subquery) and not table.alias_column_names:
        inner = table.this
    elif not tree.meta[_HAS_COMMON_TABLES]:
        return []
    elif isinstance(table, exp.Table) and not isinstance(table.this, exp.Func) and not table.alias_column_names:
        name = table.name.lower()
        defined = [each for each in tree.find_all(exp.CTE) if each.alias.lower() == name]
        reads = [each for each in tree.find_all(exp.Table) if each.name.lower() == name]
        if len(defined) == 1 and not defined[0].args["alias"].args.get("columns"):
            inner = defined[0].this if len(reads) == 1 or all(map(_names_columns, reads)) else None
    selects = [] if inner is None else _united_selects(inner)
    return [] if any(each.args.get("distinct") for each in selects) else selects


def _names_columns(read: exp.Expr) -> bool:
    """Return whether hidden columns can be added to the table `read` in FROM without changing the SELECT around it.

    Hidden columns have the ends of a number's confidence interval; the result does not show them. They can be added if
    the SELECT names each column that it takes from the table. They cannot be added if the SELECT has a * or a NATURAL
    JOIN, which would take the hidden columns too.
    """
    select = read.find_ancestor(exp.Select, exp.CTE)
    if not isinstance(select, exp.Select) or read.args.get("pivots") or read.alias_column_names:
        return False
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in select.args.get("joins") or ()):
        return False
    names = {column.name.lower() for column in select.find_all(exp.Column) if not column.table}
    return read.alias_or_name.lower() not in names and not any(
        isinstance(star.parent, exp.Select | exp.Column | exp.Columns) for star in select.find_all(exp.Star)
    )


def _expand_stars(select: exp.Expr, tree: exp.Expr) -> None:
    """Replace each plain * of `select`, in place, by the columns of the subquery or common table expression in FROM.

    Hidden columns (the ends of confidence intervals, which the result does not show) can then be added to the inner
    query, because no * would show them. Each * of the inner query is replaced first.
    A * of `select` is not replaced if the columns of the inner query are not known, or if rows of `select` and of the
    inner query do not correspond one to one. `tree` is the whole statement.
    """
    if _EXPANDED in select.meta:  # unions of unions would otherwise take time that doubles with each level
        return
    select.meta[_EXPANDED] = True
    passed = _passed_selects(select, tree)
    for inner in passed:
        _expand_stars(inner, tree)
    if not passed or not _have_equal_columns(passed):
        return
    names = [each.alias_or_name for each in passed[0].expressions]
    if not all(names) or len({*map(str.lower, names)}) < len(names):
        return
    columns: list[exp.Expr] = []
    for selected in select.expressions:
        plain = _is_star(selected) and not any(
            (selected if type(selected) is exp.Star else selected.this).args.values()
        )
        columns += [exp.column(name, quoted=True) for name in names] if plain else [selected]
    select.set("expressions", columns)


@dataclass(frozen=True, slots=True)
class _ColumnPrecision:
    """How precise a result column of one SELECT over released (noisy) rows is.

    - `flag` is a condition that is true in rows in which noise may dominate the value; None if the column depends on no
      statistic.
    - `ends` are the two ends of the column's confidence interval, as syntax nodes; None if it has no interval.
    - `sources` is the number of released statistics from which the interval is computed.
    """

    flag: exp.Expr | None
    ends: Ends | None
    sources: int


def _with_ends(selects: Sequence[exp.Expr], tree: exp.Expr) -> tuple[ShellColumn, ...]:
    """Add hidden columns to `selects`, SELECTs that are united with UNION ALL, in place; return the visible columns.

    A hidden column, which the result does not show, has an end of a number's confidence interval, or says whether noise
    may dominate the number. `selects` have equal numbers of columns. `tree` is the whole statement, whose common table
    expressions the SELECTs may read.
    """
    if _COLUMNS in selects[0].meta:  # of a common table expression that another part of the statement reads as well
        known: tuple[ShellColumn, ...] = selects[0].meta[_COLUMNS]
        return known
    precisions = [_precisions(select, tree) for select in selects]
    columns = []
    hidden: list[list[exp.Expr]] = [[] for _ in selects]
    for place, first in enumerate(list(selects[0].expressions)):
        name = first.alias_or_name or str(first.sql(dialect="duckdb"))
        branches = [each[place] for each in precisions]
        if all(each.flag is None for each in branches):
            columns.append(ShellColumn(name=name, is_key=_holds_keys(selects, place, tree)))
            continue
        unreliable = f"unreliable {place}"
        bounded = any(each.ends is not None for each in branches)
        lower, upper = (f"lower {place}", f"upper {place}") if bounded else (None, None)
        for added, branch in zip(hidden, branches, strict=True):
            added.append(exp.alias_(branch.flag or exp.null(), unreliable, quoted=True))
            if lower is not None and upper is not None:
                ends = branch.ends or (exp.null(), exp.null())
                added += [exp.alias_(ends[0], lower, quoted=True), exp.alias_(ends[1], upper, quoted=True)]
        sources = max(each.sources for each in branches)
        columns.append(ShellColumn(name=name, lower=lower, upper=upper, unreliable=unreliable, sources=sources))
    for select, added in zip(selects, hidden, strict=True):
        select.set("expressions", [*select.expressions, *added])
    selects[0].meta[_COLUMNS] = tuple(columns)
    return tuple(columns)


def _precisions(select: exp.Expr, tree: exp.Expr) -> list[_ColumnPrecision]:
    """Return the precision of each result column of `select`, a SELECT over released (noisy) rows.

    The precision is the column's confidence interval, and whether noise may dominate its values. `tree` is the whole
    statement.
    """
    hidden_of = _hidden_columns(select, tree)
    columns_precision = []
    for selected in select.expressions:
        node = selected.unalias()
        flag = unreliable_condition(node, hidden_of)
        ends = None if flag is None else interval_ends(node, hidden_of)
        sources = 0 if ends is None else count_sources(node, hidden_of)
        columns_precision.append(_ColumnPrecision(flag, ends, sources))
    return columns_precision


def _is_key(node: exp.Expr, select: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether the expression `node` of `select` is computed from group keys of released (noisy) rows alone.

    Its values then have no noise. `tree` is the whole statement, whose common table expressions `select` may read.
    """
    if has_aggregate(node) or node.find(exp.Window, exp.Subquery, exp.Select) is not None:
        return False
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(_names_key(column, select, tree) for column in columns)


def _names_key(column: exp.Column, select: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether `column`, which `select` reads, is a group key of released (noisy) rows, and so has no noise.

    Group keys are called g0, g1, .. in a table of released rows. If `select` joins tables, the column must be qualified
    by the released table, because a public table may have a column g0, too. `tree` is the whole statement, whose common
    table expressions `select` may read.
    """
    source = select.args.get("from_")
    table = None if source is None else source.this
    if select.args.get("joins") and table is not None and not select.args.get("group"):
        inner = _joined_selects(column, select, tree)
        if inner:
            return _holds_column(inner, column, tree)
    if table is not None and is_released(table):
        is_own = column.table == table.alias_or_name or not (column.table or select.args.get("joins"))
        return is_own and column.name.startswith("g") and column.name[1:].isdecimal()
    return _holds_column(_passed_selects(select, tree), column, tree)


def _joined_selects(column: exp.Column, select: exp.Expr, tree: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs that make up the table of `column`, which is one of the tables that `select` joins.

    A column without a qualifier belongs to the first table if it is in USING. The list is empty if the table of the
    column is not known, or is no subquery or common table expression. `tree` is the whole statement.
    """
    tables = [select.args["from_"].this, *(join.this for join in select.args["joins"])]
    if column.table:
        tables = [each for each in tables if each.alias_or_name.lower() == column.table.lower()]
        return _selects_of(tables[0], tree) if len(tables) == 1 else []
    merged = {each.name.lower() for join in select.args["joins"] for each in join.args.get("using") or ()}
    return _selects_of(tables[0], tree) if column.name.lower() in merged else []


def _holds_column(selects: Sequence[exp.Expr], column: exp.Column, tree: exp.Expr) -> bool:
    """Return whether `column` names a result column of `selects` that holds group keys; False for an unknown name.

    `selects` are united with UNION ALL, and the first of them names the columns. `tree` is the whole statement.
    """
    names = [each.alias_or_name.lower() for each in selects[0].expressions] if selects else []
    if column.name.lower() not in names or not _have_equal_columns(selects):
        return False
    return _holds_keys(selects, names.index(column.name.lower()), tree)


def _holds_keys(selects: Sequence[exp.Expr], place: int, tree: exp.Expr) -> bool:
    """Return whether a result column of SELECTs that are united with UNION ALL holds group keys, which have no noise.

    `place` is the index of the column. The column holds group keys if it is computed from group keys in at least one of
    `selects`, and is constant in the other ones. `tree` is the whole statement.
    """
    known = tree.meta.setdefault(_KEYS, _KeyColumns())
    if (id(selects[0]), place) in known:  # without this, time would double with each level of unions of unions
        return bool(known[id(selects[0]), place][1])
    nodes = [select.expressions[place].unalias() for select in selects]
    keys = [_is_key(node, select, tree) for node, select in zip(nodes, selects, strict=True)]
    constant = [node.find(exp.Column, exp.Window, exp.Select) is None and not has_aggregate(node) for node in nodes]
    holds = any(keys) and all(key or fixed for key, fixed in zip(keys, constant, strict=True))
    known[id(selects[0]), place] = (selects, holds)
    return holds


def _hidden_columns(select: exp.Expr, tree: exp.Expr) -> ColumnEnds:
    """Return a function that takes a column that `select` reads, and returns its hidden columns or None.

    Hidden columns say how precise a statistic is: the ends of its confidence interval, and whether noise may dominate
    it. The function returns None for a column that depends on no statistic. If `select` reads an inner SELECT, hidden
    columns are added to that SELECT, in place. `tree` is the whole statement.
    """
    source = select.args.get("from_")
    if source is None or any(select.args.get(clause) for clause in ("group", "distinct")):
        return lambda _: None
    if any(map(_is_star, select.expressions)):
        return lambda _: None
    if select.args.get("joins"):
        return _joined_columns(select, tree)
    ends_of = _columns_of(source.this, tree)
    return ends_of if ends_of is not None else lambda _: None


def _columns_of(table: exp.Expr, tree: exp.Expr) -> ColumnEnds | None:
    """Return a function that takes a column of `table`, an entry of FROM, and returns its hidden columns or None.

    Hidden columns (the ends of a statistic's confidence interval, and whether noise may dominate it) are added to the
    SELECTs of `table`, in place. The function returns None for a column that depends on no statistic. The result is
    None, and no function, if a row of `table` does not come from exactly one released (noisy) row. `tree` is the whole
    statement.
    """
    if is_released(table):
        return statistic_ends
    passed = _selects_of(table, tree)
    if not passed or not _have_equal_columns(passed):
        return None
    known = {
        column.name.lower(): HiddenColumns(column.lower, column.upper, column.unreliable, column.sources)
        for column in _with_ends(passed, tree)
        if column.unreliable is not None
    }
    return lambda column: known.get(column.name.lower())


def _joined_columns(select: exp.Expr, tree: exp.Expr) -> ColumnEnds:
    """Return a function that takes a column read by `select`, which has joins, and returns its hidden columns or None.

    Hidden columns have the ends of a statistic's confidence interval and say whether noise may dominate it. Columns in
    USING, and all columns of a NATURAL JOIN, have no hidden columns. `tree` is the whole statement.
    """
    joins = select.args["joins"]
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in joins):
        return lambda _: None
    merged = {column.name.lower() for join in joins for column in join.args.get("using") or ()}
    tables = [select.args["from_"].this, *(join.this for join in joins)]
    names = [table.alias_or_name for table in tables]
    if len({name.lower() for name in names}) < len(names):
        return lambda _: None
    columns = {
        name: ends_of
        for name, table in zip(names, tables, strict=True)
        if name and (ends_of := _columns_of(table, tree)) is not None
    }

    def ends_of_column(column: exp.Column) -> HiddenColumns | None:
        if not column.table and column.name.lower() in merged:
            return None
        candidates = [
            replace(hidden, table=name)
            for name, ends_of in columns.items()
            if (not column.table or column.table.lower() == name.lower()) and (hidden := ends_of(column)) is not None
        ]
        return candidates[0] if len(candidates) == 1 else None

    return ends_of_column
