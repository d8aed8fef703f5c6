"""Checks in PostgreSQL's catalogue that reading a table or view cannot fail on any row.

The server evaluates views, row-level security policies and virtual columns while it reads a table, and converts the
rows of foreign tables. Views and policies are stored as parsed trees, in which every conversion is explicit. They are
accepted only if the tree consists of columns, constants, comparisons, AND, OR, NOT, null tests, joins, and functions of
the server that it marks as leakproof, which implies that they never fail on an argument.
"""

import re
from typing import Any

import psycopg

from setwise.analytics.engines.definitions import refuse_view
from setwise.errors import UnsuitableTable

_NODE = re.compile(r"(?<!\\)\{([A-Z_]+)")
_PLAIN_NODES = frozenset(
    {
        *("QUERY", "RANGETBLENTRY", "RTE", "RTEPERMISSIONINFO", "ALIAS", "FROMEXPR", "RANGETBLREF", "JOINEXPR"),
        *("TARGETENTRY", "VAR", "CONST", "BOOLEXPR", "NULLTEST", "BOOLEANTEST", "OPEXPR", "SCALARARRAYOPEXPR"),
        *("ARRAYEXPR", "ARRAY", "RELABELTYPE", "SQLVALUEFUNCTION", "FUNCEXPR", "SORTGROUPCLAUSE"),
        *("ARRAYCOERCEEXPR", "CASETESTEXPR"),
    }
)
"""The nodes of a parsed tree that cannot fail, given that their operators and functions, checked by number, cannot."""
_TABLE_OR_JOIN = frozenset({"0", "2"})
"""The values of `rtekind` that may stand after FROM: tables or views (0) and joins of them (2)."""

_TOTAL_OPERATORS = """
    SELECT count(*) FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode
    WHERE o.oid = ANY(%(numbers)s::oid[]) AND o.oprnamespace = 'pg_catalog'::regnamespace
        AND p.pronamespace = 'pg_catalog'::regnamespace
        AND (p.proleakproof OR (o.oprname IN ('=', '<>', '<', '<=', '>', '>=') AND o.oprleft <> 'record'::regtype
            AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND t.typtype = 'p')))
"""
"""Statement that counts which of the operators cannot fail: comparisons of the server's own types.

Comparisons of rows, arrays and ranges are excluded, because they can call functions of users.
"""
_TOTAL_FUNCTIONS = """
    SELECT count(*) FROM pg_proc
    WHERE oid = ANY(%(numbers)s::oid[]) AND pronamespace = 'pg_catalog'::regnamespace AND proleakproof AND NOT proretset
"""
_RELATION = "SELECT relkind::text, relname::text, relrowsecurity FROM pg_class WHERE oid = %(oid)s"
_FAMILY = """
    WITH RECURSIVE family AS (
        SELECT %(oid)s::oid AS oid
        UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON f.oid = i.inhparent
    )
"""
"""Common table expression of a table and all tables that inherit from it, including partitions."""
_FOREIGN = _FAMILY + "SELECT EXISTS (SELECT FROM family JOIN pg_class c USING (oid) WHERE c.relkind = 'f')"
_VIRTUAL = _FAMILY + (
    "SELECT DISTINCT a.attname::text FROM family JOIN pg_attribute a ON a.attrelid = family.oid "
    "WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = 'v' ORDER BY 1"
)
_POLICIES = "SELECT polqual::text FROM pg_policy WHERE polrelid = %(oid)s AND polcmd IN ('r', '*')"
_ACTIVE = "SELECT row_security_active(%(oid)s::oid)"
_RULE = "SELECT ev_action::text FROM pg_rewrite WHERE ev_class = %(oid)s AND ev_type = '1' AND rulename = '_RETURN'"


def computed_columns(connection: psycopg.Connection[Any], oid: int, table: str) -> tuple[str, ...]:
    """Return the names of a table's virtual columns, which the server computes while it reads; () for a view.

    Queries must leave these columns out, because computing them could fail on a row, and the failure would reveal the
    row. `oid` is the number of the table or view in the catalogue, which `connection` reads, and `table` is its name
    for messages.
    Raises: `UnsuitableTable` if one row could make every query fail, whichever columns it reads: if a view or a
    row-level security policy computes something, if a foreign table is read, or if a view reads a table with virtual
    columns.
    """
    kind, _, _ = _catalogue_row(connection, _RELATION, oid)
    _check_relation(connection, oid, table, below_view=False, seen=frozenset())
    if kind == "v":
        return ()
    return tuple(name for (name,) in connection.execute(_VIRTUAL, {"oid": oid}).fetchall())


def _check_relation(
    connection: psycopg.Connection[Any], oid: int, table: str, *, below_view: bool, seen: frozenset[int]
) -> None:
    """Raise `UnsuitableTable` if a row could make reading the table or view with the number `oid` fail.

    - `connection` reads the catalogue.
    - `table` is the name that the caller gave, for messages.
    - `below_view` says that a view reads this table. Then virtual columns (computed while they are read) are refused
      too, because the caller can leave out columns only of the table that it names.
    - `seen` has the numbers of the views through which `oid` was reached. They are not checked again; otherwise the
      check of two views that read each other would never end.
    """
    kind, name, secured = _catalogue_row(connection, _RELATION, oid)
    if kind == "v":
        # Views can read each other, which would recurse for ever.
        if oid in seen:
            return
        tree = str(_catalogue_row(connection, _RULE, oid)[0])
        if not _is_plain_view(connection, tree):
            raise refuse_view(table, "store it with CREATE MATERIALIZED VIEW")
        for below in {int(number) for number in re.findall(r":rtekind 0 :relid (\d+)", tree)} - {oid}:
            _check_relation(connection, below, table, below_view=True, seen=seen | {oid})
        return
    if kind != "m" and _catalogue_row(connection, _FOREIGN, oid)[0]:
        raise UnsuitableTable(
            f"{table!r} reads the foreign table {name!r} or has one among its partitions, whose rows are converted as "
            "they are read, so one row could make every question fail: copy it with CREATE MATERIALIZED VIEW"
        )
    if below_view and connection.execute(_VIRTUAL, {"oid": oid}).fetchall():
        raise UnsuitableTable(
            f"{table!r} is a view of a table with virtual columns, which one row could make fail: ask the table, or "
            "make the columns STORED"
        )
    if secured and (below_view or _catalogue_row(connection, _ACTIVE, oid)[0]):
        for (condition,) in connection.execute(_POLICIES, {"oid": oid}).fetchall():
            if condition is not None and not _cannot_fail(connection, str(condition)):
                raise UnsuitableTable(
                    f"a row-level security policy of {name!r} computes something, so one row could make every question "
                    "fail: let the policy compare columns with constants, or copy the rows with CREATE MATERIALIZED "
                    "VIEW"
                )


def _is_plain_view(connection: psycopg.Connection[Any], tree: str) -> bool:
    """Return whether a view is one SELECT of tables and joins, without LIMIT, and no row can make it fail.

    `tree` is PostgreSQL's parsed form of the view's query, as the catalogue, which `connection` reads, stores it.
    """
    whole = tree.count("{QUERY ") == 1 and ":limitOffset <> :limitCount <> " in tree
    return whole and set(re.findall(r":rtekind (\d+)", tree)) <= _TABLE_OR_JOIN and _cannot_fail(connection, tree)


def _cannot_fail(connection: psycopg.Connection[Any], tree: str) -> bool:
    """Return whether the parsed query or condition `tree` never raises an error, whatever the rows.

    `tree` is PostgreSQL's parsed form as the catalogue stores it. Only columns, constants, comparisons, AND, OR, NOT,
    null tests, and operators and functions that the catalogue, read through `connection`, marks as leakproof are known
    not to fail. Any other node gives False.
    """
    if not set(_NODE.findall(tree)) <= _PLAIN_NODES:
        return False
    for statement, pattern in ((_TOTAL_OPERATORS, r":opno (\d+)"), (_TOTAL_FUNCTIONS, r":funcid (\d+)")):
        numbers = sorted(set(map(int, re.findall(pattern, tree))))
        if numbers and connection.execute(statement, {"numbers": numbers}).fetchone() != (len(numbers),):
            return False
    return True


def _catalogue_row(connection: psycopg.Connection[Any], statement: str, oid: int) -> tuple[Any, ...]:
    """Run the catalogue query `statement` on `connection`; return its one row about the table or view number `oid`.

    Raises: `UnsuitableTable` if there is no row, because the table was dropped.
    """
    row = connection.execute(statement, {"oid": oid}).fetchone()
    if row is None:
        raise UnsuitableTable("the PostgreSQL table was dropped while it was looked up")
    return tuple(row)
