"""The settings of a statement: a profile, a role or a user may set any of them, and none may change an answer.

Some settings filter rows, cut off results, turn nulls into zeros, let one row replace another, or a missing shard pass
in silence. So every statement sets back to its default whatever the login has changed, but for limits on memory, time
and threads: these can make a question fail, and not make its answer another.
"""

from collections.abc import Mapping

_RELIED_ON = {
    "prefer_column_name_to_alias": "1",  # as in standard SQL: a column may have the name of an alias of ours
    "cast_keep_nullable": "1",  # as in standard SQL: null as another type is null
    "join_use_nulls": "1",  # as in standard SQL: what meets nothing is null
    "least_greatest_legacy_null_behavior": "0",  # older versions may not have it, nor the next
    "precise_float_parsing": "1",
}
"""What statements rely on where it is no default, or has not always been one."""

_SET_TO_LOOK = {
    "compatibility": "",  # first: it changes the defaults of others
    "additional_result_filter": "",
    "additional_table_filters": "{}",
    "limit": "0",
    "max_result_rows": "0",
    "max_rows_to_read": "0",
    "offset": "0",
    "read_overflow_mode": "throw",
    "result_overflow_mode": "throw",
    "timeout_overflow_mode": "throw",
    "transform_null_in": "0",
    "use_query_cache": "0",
}
"""What could cut the list of changed settings short; set for that statement, they are not listed as changed."""

_LEFT_ALONE = ("database", "log_comment", "priority", "readonly", "role", "workload")
_LEFT_ALONE_PREFIXES = (
    *("cancel_http_", "connect_", "http_", "log_", "max_bytes_before_", "max_concurrent_", "max_execution_time"),
    *("max_memory_", "max_network_", "max_temporary_", "max_threads", "memory_", "queue_max_", "receive_", "send_"),
    "tcp_",
)
"""Limits on memory, time and threads, and how the connection is kept."""

_LISTED = ", ".join(f"'{name}'" for name in _RELIED_ON)
CHANGED = f"SELECT name, changed FROM system.settings WHERE changed OR name IN ({_LISTED}) SETTINGS " + ", ".join(
    f"{name} = '{value}'" for name, value in _SET_TO_LOOK.items()
)
"""The settings that this login has changed, and those that statements rely on."""


def settings_clause(found: Mapping[str, bool], log_comment: str) -> str:
    """Return the SETTINGS of a statement, given what `CHANGED` finds."""
    relied_on = {name: value for name, value in _RELIED_ON.items() if name in found}
    chosen = {name: f"'{value}'" for name, value in {**_SET_TO_LOOK, **relied_on}.items()}
    for name, changed in sorted(found.items()):
        if changed and name not in chosen and name not in _LEFT_ALONE and not name.startswith(_LEFT_ALONE_PREFIXES):
            chosen[name] = "DEFAULT"
    chosen["log_comment"] = f"'{log_comment}'"
    return "SETTINGS " + ", ".join(f"{name} = {value}" for name, value in chosen.items())
