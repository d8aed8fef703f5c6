"""The settings of a statement: a profile, a role or a user may set any of them, and none may change an answer.

Some settings filter rows, cut off results, turn nulls into zeros or a missing shard into silence. So every statement
sets back to its default whatever the login has changed, but for limits on memory, time and threads: these can make a
question fail, and not make its answer another. What the shared statements rely on is set in any case.
"""

from collections.abc import Mapping

_RELIED_ON = {
    "compatibility": "",  # first: it changes the defaults of others
    "prefer_column_name_to_alias": "1",  # as in standard SQL: a column may have the name of an alias of ours
    "cast_keep_nullable": "1",  # as in standard SQL: null as another type is null
    "additional_result_filter": "",
    "additional_table_filters": "{}",
    "aggregate_functions_null_for_empty": "0",
    "apply_deleted_mask": "1",
    "distributed_group_by_no_merge": "0",
    "empty_result_for_aggregation_by_constant_keys_on_empty_set": "1",
    "enable_positional_arguments": "0",
    "extremes": "0",
    "final": "0",  # it would let one user's row replace another's
    "force_grouping_standard_compatibility": "1",
    "group_by_use_nulls": "0",
    "any_join_distinct_right_table_keys": "0",
    "join_any_take_last_row": "0",
    "join_default_strictness": "ALL",
    "join_use_nulls": "1",
    "least_greatest_legacy_null_behavior": "0",
    "limit": "0",
    "max_parallel_replicas": "1",
    "offset": "0",
    "precise_float_parsing": "1",
    "optimize_distributed_group_by_sharding_key": "0",
    "session_timezone": "",
    "short_circuit_function_evaluation": "enable",
    "skip_unavailable_shards": "0",
    "transform_null_in": "0",
    "use_query_cache": "0",
    **{
        f"{what}_overflow_mode": "throw"
        for what in ("distinct", "group_by", "join", "read", "result", "set", "sort", "timeout", "transfer")
    },
    "read_overflow_mode_leaf": "throw",
    "timeout_overflow_mode_leaf": "throw",
    **{
        f"max_{what}": "0"
        for what in (
            *("rows_to_read", "bytes_to_read", "rows_to_read_leaf", "bytes_to_read_leaf", "result_rows"),
            *("result_bytes", "rows_to_group_by", "rows_to_sort", "bytes_to_sort", "rows_in_set", "bytes_in_set"),
            *("rows_in_distinct", "bytes_in_distinct", "rows_in_join", "bytes_in_join", "rows_to_transfer"),
            "bytes_to_transfer",
        )
    },
}
"""What the statements rely on, by name; limits on rows are off, because a row would decide whether they are met."""

_LEFT_ALONE = ("database", "log_comment", "priority", "readonly", "role", "workload")
_LEFT_ALONE_PREFIXES = (
    *(
        "cancel_http_",
        "connect_",
        "http_",
        "log_",
        "max_bytes_before_",
        "max_concurrent_",
        "max_execution_time",
        "max_memory_",
    ),
    *("max_network_", "max_temporary_", "max_threads", "memory_", "queue_max_", "receive_", "send_", "tcp_"),
)

_FIRST = (
    *("additional_result_filter", "additional_table_filters", "compatibility", "limit", "max_result_rows"),
    *("max_rows_to_read", "offset", "transform_null_in", "use_query_cache"),
)
_LISTED = ", ".join(f"'{name}'" for name in _RELIED_ON)
CHANGED = f"SELECT name, changed FROM system.settings WHERE changed OR name IN ({_LISTED}) SETTINGS " + ", ".join(
    f"{name} = '{_RELIED_ON[name]}'" for name in _FIRST
)
"""The settings that this login has changed or that statements rely on; a profile may not cut the list short."""


def settings_clause(found: Mapping[str, bool], log_comment: str) -> str:
    """Return the SETTINGS of a statement, given which settings there are, and whether the login has changed them."""
    chosen = {name: f"'{value}'" for name, value in _RELIED_ON.items() if name in found}
    for name, changed in sorted(found.items()):
        if changed and name not in chosen and name not in _LEFT_ALONE and not name.startswith(_LEFT_ALONE_PREFIXES):
            chosen[name] = "DEFAULT"
    chosen["log_comment"] = f"'{log_comment}'"
    return "SETTINGS " + ", ".join(f"{name} = {value}" for name, value in chosen.items())
