"""Joins of each private row with other rows of the same user: per-user subqueries in JOIN, EXISTS, IN and expressions.

A per-user subquery computes each of its rows from the rows of one user. In an expression, three forms are supported:
`user IN (SELECT user ..)`; EXISTS (SELECT ..); and a scalar subquery, as in x > (SELECT AVG(x) ..). In the last two,
WHERE of the subquery compares the user column with that of the outer row (a row of the SELECT around it). Each subquery
is rewritten as a SELECT with one row per user, or per user and further keys. Each outer row is then joined with the row
of its own user, so that every row still belongs to one user.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from setwise.analytics.rows.derivation import (
    AddColumns,
    Derivation,
    JoinedValue,
    JoinUserRows,
    KeepRows,
    KeyPair,
    NamedExpression,
)
from setwise.analytics.rows.expression import Branch, Case, ColumnValue, ConstantValue, RowExpression
from setwise.analytics.sql.aggregates import has_aggregate, is_aggregate
from setwise.analytics.sql.clauses import add_to_where, check_not_negated, conjunction, set_where, subqueries_of
from setwise.analytics.sql.core import SelectSource
from setwise.analytics.sql.from_clause.names import LeftKey, Scope
from setwise.analytics.sql.from_clause.tables import without_qualifiers
from setwise.analytics.sql.syntax import MIRRORED, check_parts, construct_of, unsupported
from setwise.errors import InvalidParameter

_VALUE, _LOWEST, _HIGHEST = "subquery value", "subquery lowest", "subquery highest"
_COUNTS = ("COUNT", "COUNTIF", "COUNT_IF")
_INEQUALITIES = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NEQ)


def join_rows(
    select: exp.Expr,
    join: exp.Expr,
    rows: SelectSource,
    source: SelectSource,
    scope: Scope,
    user: str,
    read: Callable[[exp.Expr], RowExpression],
) -> SelectSource:
    """Return the rows of `source`, each joined with those of `rows` that belong to the same user.

    - `rows` are the rows of a subquery or common table expression, and `source` the rows of the tables before it.
    - `join` is the syntax node of the join in the SELECT `select`. Conditions of an inner join that are no equalities
      are moved to WHERE of `select`, in place.
    - `scope` has the names that the SELECT may use, to which the names of the joined columns are added.
    - `user` is the user column.
    - `read` converts a syntax node into a row expression (a value computed from each row).
    Raises: `InvalidParameter` if the join is not on the user column, or is of another kind than JOIN and LEFT JOIN.
    """
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if join.args.get("method") or side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        words = " ".join(word for word in (str(join.args.get("method") or ""), side, kind, "JOIN") if word)
        raise unsupported(f"{words} of the rows of users", f"write JOIN or LEFT JOIN, with USING ({user})")
    check_parts(join, "this", "side", "kind", "on", "using")
    check_same_source(rows, source)
    alias = join.this.alias or join.this.name
    if not alias:
        raise InvalidParameter("a subquery that is joined needs a name: write AS p after it")
    if alias.lower() in scope.aliases:
        raise InvalidParameter(f"two tables are called {alias!r}: give one of them another alias")
    columns = rows.columns if rows.columns is not None else source.columns if not rows.derivation else None
    pairs, others = _join_conditions(join, alias, scope, columns, user)
    keys = [KeyPair(read(scope.resolve_copy(left)), read(without_qualifiers(right))) for left, right in pairs]
    derivation = rows.derivation
    if side == "LEFT":
        derivation, more = _left_conditions(
            others, derivation, lambda node: _is_joined(node, alias, scope, columns), scope, read
        )
        keys += more
        others = []
        match_column = f"{alias} found"
        derivation = derivation.then(AddColumns((NamedExpression(match_column, ConstantValue(1)),)))
    names_in_use = {name.lower() for name in (*(source.columns or ()), *scope.joined.values())}
    added = [JoinedValue(match_column, match_column)] if side == "LEFT" else []
    merged = {each.name.lower() for each in join.args.get("using") or ()}
    for name in _used_columns(select, others, alias, columns):
        if name.lower() == user.lower():
            scope.joined[alias.lower(), name.lower()] = user
            continue
        is_new = name.lower() not in names_in_use and source.columns is not None
        new = name if is_new else f"{alias}.{name}"
        scope.joined[alias.lower(), name.lower()] = new
        if name.lower() in names_in_use and name.lower() not in merged:
            scope.ambiguous.add(name.lower())
        added.append(JoinedValue(new, name))
    scope.joined[alias.lower(), user.lower()] = user
    if side == "LEFT":
        scope.left_keys[alias.lower(), user.lower()] = LeftKey(user, match_column)
    step = JoinUserRows(user, derivation, tuple(keys), tuple(added), keeps_all=side == "LEFT")
    if source.columns is not None:
        scope.columns = (*source.columns, *(each.name for each in added))
    if others:
        add_to_where(select, others)
    joined = replace(source, derivation=source.derivation.then(step), schema=None, columns=scope.columns)
    return joined if rows.unique_by == frozenset() else replace(joined, unique_by=None)


def _left_conditions(
    conditions: Sequence[exp.Expr],
    rows: Derivation,
    is_joined: Callable[[exp.Expr], bool | None],
    scope: Scope,
    read: Callable[[exp.Expr], RowExpression],
) -> tuple[Derivation, list[KeyPair]]:
    """Return (rows, keys), which apply the conditions in ON of a LEFT JOIN that are not equalities between both sides.

    In users u LEFT JOIN (..) o ON o.user_id = u.user_id AND o.total > 5 AND u.age > 30, for example, these `conditions`
    are o.total > 5 and u.age > 30. The first is about the joined `rows`, and becomes a step that keeps only the rows
    with o.total > 5. The second is about the earlier rows, and becomes a key of the join. A key is a pair of values
    that must be equal: here 1, and CASE WHEN u.age > 30 THEN 1 END. The CASE is null in the other rows of users, which
    therefore have no match.

    - `is_joined` says whether a column belongs to the joined rows.
    - `scope` has the names of the earlier rows.
    - `read` converts a node into a row expression (a value computed from each row).
    Raises: `InvalidParameter` for a condition over columns of both sides.
    """
    keys = []
    for part in conditions:
        belongs = {is_joined(column) for column in part.find_all(exp.Column)}
        if belongs <= {True}:
            rows = rows.then(KeepRows(read(without_qualifiers(part))))
        elif belongs == {False}:
            # The join compares CASE WHEN condition THEN 1 END with 1.
            keys.append(KeyPair(Case((Branch(read(scope.resolve_copy(part)), ConstantValue(1)),)), ConstantValue(1)))
        else:
            raise unsupported(
                f"{construct_of(part.unnest())} of columns of both tables in ON of a LEFT JOIN of the rows of users",
                "compare columns for equality, and put other conditions into the subquery",
            )
    return rows, keys


def check_same_source(rows: SelectSource, source: SelectSource) -> None:
    """Raise `InvalidParameter` unless `rows` and `source` come from one private table, with the same tables joined.

    The caller joins `rows` to `source` by user, and the engine computes both from the same input: the private table
    with its joins. So `rows` must not need another input. Joins of `source` that only test whether a match exists are
    an exception; they may be missing in `rows`.
    """
    if rows.table != source.table:
        raise unsupported(
            f"a subquery over {rows.table} beside rows of {source.table}",
            f"join the table itself with JOIN {rows.table}, and compute in the SELECT around it",
        )
    if rows.joins != tuple(join for join in source.joins if not join.once or join in rows.joins):
        raise unsupported(
            "a subquery that joins other tables than the SELECT around it",
            "join the same tables in both, or in a common table expression that both read",
        )


def _join_conditions(
    join: exp.Expr, alias: str, scope: Scope, columns: Sequence[str] | None, user: str
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Return (pairs, other conditions) of the syntax node `join`, which joins each row with rows of the same user.

    Each pair (node over earlier tables, node over the added rows) is compared for equality. The pair of user columns
    (`user`) is left out, because every such join compares the users.
    - `alias` is the alias of the added rows, and `columns` are their columns, or None if they are not known.
    - `scope` has the names of the earlier tables, to which the rows are joined.
    Raises: `InvalidParameter` if the join does not compare the users.
    """
    using, condition = join.args.get("using") or (), join.args.get("on")
    pairs_of_columns: list[tuple[exp.Expr, exp.Expr]] = []
    others: list[exp.Expr] = []
    if using:
        pairs_of_columns = [(exp.column(each.name, quoted=True), exp.column(each.name, quoted=True)) for each in using]
    elif condition is not None:
        plain = condition.unnest()
        for part in plain.flatten() if type(plain) is exp.And else [plain]:
            pair = _equal_sides(part.unnest(), lambda node: _is_joined(node, alias, scope, columns))
            if pair is None:
                others.append(part)
            else:
                pairs_of_columns.append(pair)
    by_user = [pair for pair in pairs_of_columns if all(_is_user(each, user) for each in pair)]
    pairs = [pair for pair in pairs_of_columns if pair not in by_user]
    others += [_is_present(left) for left, _ in by_user if scope.left_key(left) is not None]
    if not by_user:
        raise InvalidParameter(
            f"{alias!r} holds rows of single users, so it is joined on the user column, USING ({user}): on other "
            "columns alone a row would belong to two users"
        )
    return pairs, others


def _is_joined(node: exp.Expr, alias: str, scope: Scope, columns: Sequence[str] | None) -> bool | None:
    """Return whether the column `node` belongs to the rows that a join adds (True) or to earlier tables (False).

    Returns None if that is unclear.
    - `alias` is the alias of the added rows, and `columns` are their columns, or None if they are not known.
    - `scope` has the names of the earlier tables, to which the rows are joined.
    """
    table = node.args.get("table")
    if table is not None:
        return bool(table.name.lower() == alias.lower())
    mine = columns is not None and node.name.lower() in [each.lower() for each in columns]
    theirs = scope.columns is not None and node.name.lower() in [each.lower() for each in scope.columns]
    return mine if mine != theirs else None


def _equal_sides(
    node: exp.Expr, is_inner: Callable[[exp.Expr], bool | None], kinds: tuple[type[exp.Expr], ...] = (exp.EQ,)
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (outer side, inner side) of the comparison `node`; None if it does not compare outer with inner rows.

    Outer rows are those of the SELECT, and inner rows are those of a subquery or a joined table. One side of the
    comparison must read only outer rows, and the other side only inner rows. `is_inner` says whether a column belongs
    to the inner rows. `kinds` are the classes of comparisons that are accepted, such as `exp.EQ`.
    """
    if type(node) not in kinds:
        return None
    sides = [node.this, node.args["expression"]]
    belongs = [{is_inner(column) for column in side.find_all(exp.Column)} for side in sides]
    if belongs == [{False}, {True}]:
        return sides[0], sides[1]
    return (sides[1], sides[0]) if belongs == [{True}, {False}] else None


def _is_user(node: exp.Expr, user: str) -> bool:
    inner = node.unnest()
    return type(inner) is exp.Column and inner.name.lower() == user.lower()


def _used_columns(
    select: exp.Expr, conditions: Sequence[exp.Expr], alias: str, columns: Sequence[str] | None
) -> list[str]:
    """Return the columns that a join has to add to the rows of `select`: those of the joined rows that are read.

    These are the columns that `select` or the further `conditions` of the join name, and all `columns` if `select`
    selects *. `alias` is the alias of the joined rows, and `columns` are their columns. If the columns are not known
    (None), only names with this alias before them are returned.
    """
    column_nodes = [node for part in (select, *conditions) for node in part.find_all(exp.Column)]
    nodes = [node for node in column_nodes if type(node.this) is exp.Identifier]
    qualified = [node for node in nodes if node.args.get("table") is not None]
    named = [node.name for node in qualified if node.args["table"].name.lower() == alias.lower()]
    if columns is None:
        # Other columns are not joined: a service refuses a question that reads columns which are not allowed.
        return list(dict.fromkeys(named))
    named += [node.name for node in nodes if node.args.get("table") is None]
    lower = {name.lower() for name in named}
    stars = [each for each in select.expressions if each.find(exp.Star) and not each.find(exp.Anonymous)]
    return [name for name in columns if stars or name.lower() in lower]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSubquery:
    """A subquery about the user of each outer row, rewritten as a SELECT to which the outer rows can be joined.

    The outer rows are those of the SELECT around the subquery. The SELECT has one row per user and per value of `keys`.
    The join compares the user column and the keys.
    - `select` is the rewritten SELECT.
    - `keys` are pairs (node over the outer rows, column of `select`) that the join compares for equality.
    - `columns` are the columns of `select` that the join adds to the outer rows.
    - `replacement` takes a mapping from these columns to their names in the joined rows, and returns the syntax node
      that replaces the subquery.
    - `tests_existence` says that the subquery only asks whether `select` has a row with the user and the keys.
    """

    select: exp.Expr
    keys: tuple[tuple[exp.Expr, str], ...]
    columns: tuple[str, ...]
    replacement: Callable[[Mapping[str, str]], exp.Expr]
    tests_existence: bool = False


def user_subquery(node: exp.Expr, scope: Scope, user: str) -> UserSubquery | None:
    """Return the subquery `node`, rewritten for a join, if it is about the user of each row; None if it is not.

    - `node` is an EXISTS, an IN with a subquery, or a scalar subquery. The subquery is about the user of each row if it
      compares its user column with the user column of the outer row.
    - `scope` has the names of the outer SELECT, and `user` is the user column.
    Raises: `InvalidParameter` for an EXISTS that names no outer column, and for a subquery that names outer columns but
    does not compare the users, or names them elsewhere than in comparisons in WHERE.
    """
    inner = node.this if isinstance(node, exp.Exists | exp.Subquery) else node.args["query"].this
    if not isinstance(inner, exp.Select) or inner.args.get("from_") is None:
        return None
    inner_aliases = _own_aliases(inner)
    outer = scope.aliases - inner_aliases

    def is_inner(column: exp.Expr) -> bool:
        table = column.args.get("table")
        return table is None or table.name.lower() not in outer

    _check_left_keys(inner, scope)
    correlated = any(not is_inner(column) for column in inner.find_all(exp.Column))
    compared = _in_pairs(node, inner) if isinstance(node, exp.In) else []
    if not correlated and not any(_is_user(left, user) and _is_user(right, user) for left, right in compared):
        if isinstance(node, exp.Exists):
            raise unsupported(
                "EXISTS that is not about the user of the row",
                f"compare the users, as in WHERE inner.{user} = outer.{user}",
            )
        return None
    inner = inner.copy()
    inequality: tuple[type[exp.Expr], exp.Expr, exp.Expr] | None = None
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    where = inner.args.get("where")
    kept = []
    for part in conjunction(where):
        plain = part.unnest()
        if all(is_inner(column) for column in plain.find_all(exp.Column)):
            kept.append(part)
            continue
        pair = _equal_sides(plain, is_inner, (exp.EQ, *_INEQUALITIES))
        if pair is None:
            raise unsupported(
                f"{construct_of(plain)} with columns of the SELECT around the subquery",
                "compare one column of each for equality",
            )
        if type(plain) is exp.EQ:
            pairs.append(pair)
            continue
        if inequality is not None or not isinstance(node, exp.Exists):
            raise unsupported(
                "more than equalities with columns of the SELECT around the subquery",
                "write a window function, as in MIN(x) OVER (PARTITION BY user), in a subquery in FROM",
            )
        turned = plain.this is pair[1]
        kind = type(plain)
        inequality = (kind if not turned else MIRRORED.get(kind, kind), *pair)
    set_where(inner, kept)
    if any(not is_inner(column) for column in inner.find_all(exp.Column)):
        raise unsupported("a column of the SELECT around a subquery, outside of WHERE", "compare it in WHERE")
    equal = [*pairs, *compared]
    if not any(_is_user(left, user) and _is_user(right, user) for left, right in equal):
        inside, outside = min(inner_aliases, default="inner"), min(outer, default="outer")
        raise InvalidParameter(
            f"a subquery that is correlated on other columns than the user compares rows of different users: add "
            f"AND {inside}.{user} = {outside}.{user} to its WHERE"
        )
    keys = [pair for pair in pairs if not all(_is_user(each, user) for each in pair)]
    if isinstance(node, exp.Subquery):
        return _scalar(inner, keys, user)
    matched = [pair for pair in compared if not all(_is_user(each, user) for each in pair)]
    if matched:
        check_not_negated(node)
    return _existence(inner, keys, matched, inequality, user)


def check_exists(select: exp.Expr) -> None:
    """Raise `InvalidParameter` if `select` has an EXISTS that is always true, because its subquery has an aggregate.

    A subquery with an aggregate and without GROUP BY, as in EXISTS (SELECT MAX(y) FROM p ..), has exactly one row, even
    if no row of p satisfies its conditions.
    """
    for node in subqueries_of(select):
        inner = node.this.unnest() if isinstance(node, exp.Exists) else None
        if isinstance(inner, exp.Select) and not inner.args.get("group") and any(map(has_aggregate, inner.expressions)):
            raise unsupported("EXISTS of an aggregate, which is always true,", "write SELECT 1 in its subquery")


def _check_left_keys(inner: exp.Expr, scope: Scope) -> None:
    """Raise `InvalidParameter` if the subquery `inner` reads a key column that it must not read.

    It is a key column of the table after LEFT JOIN in the outer SELECT. In SQL, this column is null in rows without a
    match. Setwise does not store it in the joined rows: it reads the key of the table before LEFT JOIN in its place,
    which is not null. A comparison with that key would so be true in rows without a match, too.
    `scope` has the names of tables and columns of the outer SELECT (the one around the subquery).
    """
    for column in inner.find_all(exp.Column):
        key = scope.left_key(column)
        if key is not None:
            raise InvalidParameter(
                f"{column.sql()} is null in rows for which LEFT JOIN finds no match, so a subquery cannot be compared "
                f"with it: compare the column {key.column} of the table before LEFT JOIN"
            )


def _own_aliases(select: exp.Expr) -> set[str]:
    """Return the names, in lower case, that may qualify columns of the tables in FROM and JOIN of `select`.

    For a table with an alias this is the alias, and for any other table its name.
    """
    tables = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    return {(table.alias or table.name).lower() for table in tables}


def _in_pairs(node: exp.Expr, inner: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the pairs (node on the left of IN, column of the subquery) that `left IN (SELECT ..)` compares.

    `node` is the IN, and `inner` is the SELECT of its subquery.
    Raises: `InvalidParameter` if the two sides have different numbers of columns.
    """
    left = node.this.unnest() if not isinstance(node.this, exp.Tuple) else node.this
    sides = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    selected = [each.this if type(each) is exp.Alias else each for each in inner.expressions]
    if len(sides) != len(selected):
        raise InvalidParameter(f"IN compares {len(sides)} columns with {len(selected)} columns of its subquery")
    return list(zip(sides, selected, strict=True))


def _with_groups(inner: exp.Expr, keys: Sequence[tuple[exp.Expr, exp.Expr]], user: str) -> exp.Group:
    """Return the GROUP BY clause of the subquery `inner`, with the user column and the inner sides of `keys` added.

    The subquery then has one row per user (`user` is the user column) and key values. The outer rows, those of the
    SELECT around the subquery, can be joined to that row. A key is a pair (expression over the outer rows, expression
    over the subquery's rows) that must be equal.
    """
    group = inner.args.get("group")
    known = [] if group is None else [each.copy() for each in group.expressions]
    added = [exp.column(user, quoted=True), *(right.copy() for _, right in keys)]
    return exp.Group(expressions=[*known, *(each for each in added if each not in known)])


def _key_selections(keys: Sequence[tuple[exp.Expr, exp.Expr]]) -> list[exp.Expr]:
    """Return columns to add to the SELECT list of a subquery: the inner side of each of `keys`, under a generated name.

    A key is a pair that must be equal: an expression over the outer rows (of the SELECT around the subquery), and an
    expression over the rows of the subquery, the inner side. The join that compares the two can read the inner side
    only if it is a column of the subquery.
    """
    return [exp.alias_(right.copy(), _key_name(place), quoted=True) for place, (_, right) in enumerate(keys)]


def _key_name(place: int) -> str:
    return f"subquery key {place}"


def _scalar(inner: exp.Expr, keys: Sequence[tuple[exp.Expr, exp.Expr]], user: str) -> UserSubquery:
    """Return a scalar subquery about the user of a row, rewritten as a SELECT with one row per user and key values.

    For example, (SELECT MAX(x) FROM t WHERE t.user = o.user AND t.k = o.k) becomes SELECT user, k, MAX(x) FROM t GROUP
    BY user, k, to which each outer row is then joined. An outer row is a row, here called o, of the SELECT around the
    subquery.

    - `inner` is the SELECT of the subquery, without the conditions that compared it with the outer row.
    - `keys` are the pairs (expression over the outer rows, expression over the subquery's rows) that were compared,
      except the pair of user columns; here the pair of o.k and t.k.
    - `user` is the user column.
    Raises: `InvalidParameter` if the subquery may have several rows for one user.
    """
    if len(inner.expressions) != 1:
        raise InvalidParameter("a subquery in an expression must have one column")
    (selected,) = inner.expressions
    value = selected.this if type(selected) is exp.Alias else selected
    grouped = inner.args.get("group") is not None
    limit = inner.args.get("limit")
    is_count = is_aggregate(value) and _is_count(value) and not grouped
    columns = [exp.column(user, quoted=True), *_key_selections(keys), exp.alias_(value.copy(), _VALUE, quoted=True)]
    if has_aggregate(value):
        if not is_count and any(_is_count(each) for each in value.find_all(exp.Anonymous)) and not grouped:
            raise unsupported("COUNT inside an expression of a correlated subquery", "write COUNT alone there")
        inner.set("group", _with_groups(inner, keys, user))
        inner.set("order", None)
        inner.set("limit", None)
    elif limit is not None and not grouped and str(limit.args["expression"]) == "1" and inner.args.get("order"):
        number = exp.Window(
            this=exp.Anonymous(this="ROW_NUMBER"),
            partition_by=[exp.column(user, quoted=True), *(right.copy() for _, right in keys)],
            order=inner.args["order"].copy(),
        )
        inner.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=exp.Literal.number(1))))
        inner.set("order", None)
        inner.set("limit", None)
    else:
        raise unsupported(
            "a correlated subquery that may have several rows",
            "write an aggregate, as in (SELECT MAX(x) ..), or ORDER BY .. LIMIT 1",
        )
    inner.set("expressions", columns)

    def replacement(names: Mapping[str, str]) -> exp.Expr:
        column = exp.column(names[_VALUE], quoted=True)
        zero = exp.Literal.number(0)
        return exp.Anonymous(this="COALESCE", expressions=[column, zero]) if is_count else column

    return UserSubquery(select=inner, keys=_key_columns(keys), columns=(_VALUE,), replacement=replacement)


def _is_count(node: exp.Expr) -> bool:
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.Anonymous) and str(call.this).upper() in _COUNTS


def _key_columns(keys: Sequence[tuple[exp.Expr, exp.Expr]]) -> tuple[tuple[exp.Expr, str], ...]:
    return tuple((left, _key_name(place)) for place, (left, _) in enumerate(keys))


def _existence(
    inner: exp.Expr,
    keys: Sequence[tuple[exp.Expr, exp.Expr]],
    matched: Sequence[tuple[exp.Expr, exp.Expr]],
    inequality: tuple[type[exp.Expr], exp.Expr, exp.Expr] | None,
    user: str,
) -> UserSubquery:
    """Return an EXISTS or IN about the user of a row, rewritten as a SELECT with one row per user and key values.

    A pair (outer, inner) below is an expression over the outer rows (of the SELECT around the subquery) and an
    expression over the rows of the subquery.
    - `inner` is the SELECT of the subquery, and `user` the user column.
    - `keys` are the pairs (outer, inner) that WHERE of `inner` compares for equality.
    - `matched` are the pairs (outer, inner) that IN compares; empty for EXISTS.
    - `inequality` is (class, outer side, inner side) of one further comparison in WHERE, or None.
    Raises: `InvalidParameter` for HAVING without GROUP BY or aggregates, and for an inequality together with GROUP BY
    or aggregates.
    """
    aggregated = any(has_aggregate(each) for each in inner.expressions)
    if inner.args.get("group") is not None or aggregated:
        if inequality is not None:
            raise unsupported("an inequality in a correlated subquery with GROUP BY", "write it in HAVING")
        inner.set("group", _with_groups(inner, keys, user))
    elif inner.args.get("having") is not None:
        raise unsupported("HAVING without GROUP BY in a subquery", f"add GROUP BY {user}")
    all_keys = [*keys, *matched]
    columns = [exp.column(user, quoted=True), *_key_selections(all_keys)]
    if inequality is not None:
        columns.append(exp.alias_(inequality[2].copy(), _VALUE, quoted=True))
    inner.set("expressions", columns)
    inner.set("distinct", None)
    inner.set("order", None)
    if isinstance(inner.args.get("limit"), exp.Limit) and keys and not matched:
        inner.set("limit", None)  # EXISTS needs one row of the user only
    names = [exp.column(user, quoted=True), *(exp.column(_key_name(p), quoted=True) for p in range(len(all_keys)))]
    computed = {_VALUE: exp.Anonymous(this="COUNT", expressions=[exp.Star()])}
    if inequality is not None:
        value = exp.column(_VALUE, quoted=True)
        computed = {
            # x < inner is true for some row exactly if it is true for the highest value, and x > inner for the lowest.
            _LOWEST: exp.Anonymous(this="MIN", expressions=[value.copy()]),
            _HIGHEST: exp.Anonymous(this="MAX", expressions=[value.copy()]),
        }
    select = exp.Select(expressions=[*names, *(exp.alias_(each, name, quoted=True) for name, each in computed.items())])
    alias = exp.TableAlias(this=exp.to_identifier("found"))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    select.set("group", exp.Group(expressions=[each.copy() for each in names]))

    def replacement(joined: Mapping[str, str]) -> exp.Expr:
        if inequality is None:
            return _is_present(exp.column(joined[_VALUE], quoted=True))
        kind, outer, _ = inequality
        lowest, highest = (exp.column(joined[name], quoted=True) for name in (_LOWEST, _HIGHEST))
        tested = [lowest, highest]
        if kind is not exp.NEQ:
            tested = [highest] if kind in (exp.LT, exp.LTE) else [lowest]
        compared = exp.or_(*(kind(this=outer.copy(), expression=each) for each in tested), copy=False)
        present = [_is_present(lowest.copy()), _is_present(outer.copy())]
        return exp.paren(exp.and_(*present, exp.paren(compared), copy=False), copy=False)

    return UserSubquery(
        select=select,
        keys=_key_columns(all_keys),
        columns=tuple(computed),
        replacement=replacement,
        tests_existence=inequality is None,
    )


def _is_present(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Not(this=exp.Is(this=node, expression=exp.Null())), copy=False)


def with_subquery(
    subquery: UserSubquery,
    rows: SelectSource,
    source: SelectSource,
    scope: Scope,
    user: str,
    number: int,
    read: Callable[[exp.Expr], RowExpression],
) -> tuple[SelectSource, exp.Expr]:
    """Return (the rows of `source` with added columns, the syntax node that replaces `subquery`).

    The columns hold the result of `subquery` for the user of each row, and the node reads them.
    - `rows` are the rows of the SELECT of `subquery`.
    - `scope` has the names of the outer SELECT, to which the new columns are added.
    - `user` is the user column.
    - `number` makes the names of the new columns unique in the statement.
    - `read` converts a syntax node into a row expression (a value computed from each row).
    """
    check_same_source(rows, source)
    names = {column: f"{column} {number}" for column in subquery.columns}
    keys = tuple(KeyPair(read(scope.resolve_copy(left)), ColumnValue(right)) for left, right in subquery.keys)
    values = tuple(JoinedValue(name, column) for column, name in names.items())
    step = JoinUserRows(user, rows.derivation, keys, values, keeps_all=True)
    if source.columns is not None:
        scope.columns = (*source.columns, *names.values())
    joined = replace(source, derivation=source.derivation.then(step), schema=None, columns=scope.columns)
    return joined, scope.resolve_copy(subquery.replacement(names)).this
