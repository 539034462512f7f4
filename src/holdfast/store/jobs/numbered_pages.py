"""The job list by page number, for clients without cursors: in any order, from any offset.

Sorted by submission, a page is a merge of index ranges, as in `listing`; other orders are sorted by the database.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from holdfast.core.records import JobOrder, JobPhase, JobSummary, OffsetPage, OffsetPageQuery
from holdfast.core.states import FINAL_STATES, JobState

from ..rows import fold_text, make_storable
from ..statements import (
    MAX_INT,
    build_any_of_condition,
    format_placeholders,
    get_position_function,
    list_distinct_storable_values,
    to_list_value,
)
from .rows import SUMMARY_COLUMNS, summary_from_row
from .search import find_newest_hits

_MAX_RANGES = 400  # merged in one statement; SQLite accepts 500
_ROW_BATCH_SIZE = 2000  # read together
_MAX_INDEX_HITS = 2000  # jobs found by text
_MIN_PRIORITY, _MAX_PRIORITY = -(2**31), 2**31 - 1

_PHASE_CONDITIONS: dict[JobPhase, str] = {
    JobPhase.WAITING: "stop_json IS NULL AND (state = 'Preparing' OR (state = 'Pending' AND retry_at IS NULL))",
    JobPhase.RUNNING: "stop_json IS NULL AND"
    " (state IN ('Running', 'Held') OR (state = 'Pending' AND retry_at IS NOT NULL))",
    JobPhase.STOPPING: "stop_json IS NOT NULL AND state IN ('Pending', 'Preparing', 'Running', 'Held', 'Unknown')",
    JobPhase.SUCCEEDED: "state = 'Succeeded'",
    JobPhase.FAILED: "state = 'Failed'",
    JobPhase.CANCELLED: "state = 'Cancelled'",
}
_PHASE_STATES: dict[JobPhase, tuple[JobState, ...]] = {
    JobPhase.WAITING: (JobState.PENDING, JobState.PREPARING),
    JobPhase.RUNNING: (JobState.RUNNING, JobState.HELD, JobState.PENDING),
    JobPhase.STOPPING: tuple(state for state in JobState if state not in FINAL_STATES),
    JobPhase.SUCCEEDED: (JobState.SUCCEEDED,),
    JobPhase.FAILED: (JobState.FAILED,),
    JobPhase.CANCELLED: (JobState.CANCELLED,),
}
_SORT_COLUMNS: dict[JobOrder, str] = {
    JobOrder.NAME: "name",
    JobOrder.USER: "user_name",
    JobOrder.GROUP: "group_name",
    JobOrder.RETRIES: "user_retries + platform_retries",
    JobOrder.TASKS: "task_count",
    JobOrder.GPUS: "gpu",
    JobOrder.STATE: "CASE "
    + " ".join(f"WHEN {condition} THEN '{phase}'" for phase, condition in _PHASE_CONDITIONS.items())
    + " ELSE 'unknown' END",
    JobOrder.FINISHED: "finished_at",
    JobOrder.PRIORITY: "priority",
    JobOrder.SCHEDULE: "schedule_id",
    JobOrder.SHOWN_STATE: f"CASE WHEN {_PHASE_CONDITIONS[JobPhase.STOPPING]} THEN 'Cancelled'"
    " WHEN state IN ('Held', 'Unknown') THEN 'Running' ELSE state END",
}
_NULLABLE_ORDERS = (JobOrder.FINISHED, JobOrder.PRIORITY, JobOrder.SCHEDULE)
_TEXT_ORDERS = (JobOrder.NAME, JobOrder.USER, JobOrder.GROUP, JobOrder.STATE, JobOrder.SCHEDULE, JobOrder.SHOWN_STATE)


@dataclass(frozen=True, slots=True)
class SqlCondition:
    sql: str  # with {} for each value
    values: tuple[Any, ...] = ()


ColumnChoices = dict[str, list[str]]  # column -> its allowed values
IndexRange = dict[str, str]  # column -> value: a prefix of an index that ends in the paging key


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query as conditions on the table."""

    choices: ColumnChoices
    phase: list[SqlCondition]  # conditions on jobs that are not final, besides the state
    rest: list[SqlCondition]


def list_numbered_page(conn: Connection, query: OffsetPageQuery, *, count: bool) -> OffsetPage:
    """Return the matching jobs from number `offset` on, and their total if `count` is set.

    Jobs with equal keys are sorted by submission; jobs without a key, such as a finish time, are last. A descending
    order reverses both.
    """
    rest = _build_other_conditions(conn, query)
    wanted = TableQuery(_build_choices(query), _build_phase_conditions(query), rest or [])
    if rest is None or not all(wanted.choices.values()):
        return OffsetPage((), 0 if count else None)
    # Text and tags often leave few jobs; sorting them is faster than reading every range.
    few = query.text or query.name_or_id or query.in_name or query.tags_any
    ranges = [] if few else _build_index_ranges(wanted.choices)
    total = _execute_statement(conn, _build_count_statement(conn, wanted, ranges)).scalar_one() if count else None
    offset, limit = (min(max(number, 0), MAX_INT // 4) for number in (query.offset, query.limit))
    if not limit or (total is not None and offset >= total):
        return OffsetPage((), total)
    if not ranges or query.order is not JobOrder.SUBMITTED:
        statement = _build_sorted_statement(conn, query, wanted, offset, limit)
    else:
        merge = _build_union_statement if conn.dialect.name == "sqlite" else _build_lateral_statement
        statement = merge(ranges, wanted, _format_direction(query), offset, limit)
    return OffsetPage(_load_ordered_summaries(conn, _execute_statement(conn, statement).scalars().all()), total)


# -- conditions


def _build_choices(query: OffsetPageQuery) -> ColumnChoices:
    choices: ColumnChoices = {}
    if query.users is not None:
        choices["user_name"] = list_distinct_storable_values(query.users)
    groups = [set(names) for names in (query.groups, query.named_groups) if names is not None]
    if groups:
        choices["group_name"] = list_distinct_storable_values(sorted(set.intersection(*groups)))
    if query.phases is not None:
        choices["state"] = list(dict.fromkeys(state.value for phase in query.phases for state in _PHASE_STATES[phase]))
    return choices


def _build_phase_conditions(query: OffsetPageQuery) -> list[SqlCondition]:
    if all(_PHASE_STATES[phase][0].final for phase in query.phases or ()):
        return []
    return [SqlCondition(" OR ".join(f"({_PHASE_CONDITIONS[phase]})" for phase in query.phases or ()))]


def _build_other_conditions(conn: Connection, query: OffsetPageQuery) -> list[SqlCondition] | None:
    """Build the conditions besides choices and phase; None if nothing can match."""
    rest = [*_build_seq_conditions(query)]
    for find, needle in _iter_text_matchers(query):
        if "\n" in needle or make_storable(needle) != needle:
            return None
        has_text = find(conn, needle)
        if has_text is None:
            return None
        rest.append(has_text)
    rest += _build_tag_conditions(conn, query)
    has_priority = _build_priority_condition(conn, query)
    return rest if has_priority is None else [*rest, has_priority]


def _build_tag_conditions(conn: Connection, query: OffsetPageQuery) -> Iterator[SqlCondition]:
    held = f"state = '{JobState.HELD.value}'"
    if query.tags_any is not None:
        tags = to_list_value(conn, list_distinct_storable_values(query.tags_any))
        has_one = f"seq IN (SELECT job_seq FROM job_tags WHERE {build_any_of_condition(conn, 'tag')})"  # noqa: S608
        yield SqlCondition(f"({has_one} OR {held})" if query.held_tag in query.tags_any else has_one, (tags,))
    if query.tags_none:
        tags = to_list_value(conn, list_distinct_storable_values(query.tags_none))
        has_one = f"EXISTS (SELECT 1 FROM job_tags WHERE job_seq = seq AND {build_any_of_condition(conn, 'tag')})"  # noqa: S608
        yield SqlCondition(
            f"NOT ({has_one} OR {held})" if query.held_tag in query.tags_none else f"NOT {has_one}", (tags,)
        )


def _build_seq_conditions(query: OffsetPageQuery) -> Iterator[SqlCondition]:
    for sign, seq in (("<", query.before_seq), (">", query.after_seq)):
        if seq is not None:
            yield SqlCondition(f"seq {sign} {{}}", (min(max(seq, 0), MAX_INT),))


def _iter_text_matchers(
    query: OffsetPageQuery,
) -> Iterator[tuple[Callable[[Connection, str], SqlCondition | None], str]]:
    """Return each text to find, with the function that matches it."""
    if query.text:
        yield _build_text_condition, fold_text(query.text)
    if query.name_or_id:
        yield _build_name_or_id_condition, fold_text(query.name_or_id)
    if query.in_name:
        yield _build_exact_name_condition, query.in_name


def _build_text_condition(conn: Connection, needle: str) -> SqlCondition | None:
    """Match the name of a job, its user or its group; None if nothing can match. Users and groups are few, so they are
    filtered here: databases differ in folding letters.
    """
    ways = [_build_name_condition(conn, needle)]
    for column, names in (("user_name", _SELECT_USER_NAMES), ("group_name", _SELECT_GROUP_NAMES)):
        fitting = [name for name in conn.scalars(names) if needle in fold_text(name)]
        ways.append(
            SqlCondition(build_any_of_condition(conn, column), (to_list_value(conn, fitting),)) if fitting else None
        )
    return _join_with_or([way for way in ways if way])


def _build_name_condition(conn: Connection, needle: str) -> SqlCondition | None:
    """Match the name, which ends at the first line break of `search`. Use the index if few jobs contain the text."""
    place, line_break = (get_position_function(conn), "char(10)" if conn.dialect.name == "sqlite" else "chr(10)")
    in_name = f"{place}(substr(search, 1, {place}(search, {line_break})), {{}}) > 0"
    hits = find_newest_hits(conn, needle, 0, MAX_INT, _MAX_INDEX_HITS)
    if hits is None or len(hits) == _MAX_INDEX_HITS:
        return SqlCondition(f"({place}(search, {{}}) > 0 AND {in_name})", (needle, needle))
    return (
        SqlCondition(f"({build_any_of_condition(conn, 'seq')} AND {in_name})", (to_list_value(conn, hits), needle))
        if hits
        else None
    )


def _build_name_or_id_condition(conn: Connection, needle: str) -> SqlCondition | None:
    """Match name or id: both are in `search`, separated by a line break."""
    hits = find_newest_hits(conn, needle, 0, MAX_INT, _MAX_INDEX_HITS)
    found = f"{get_position_function(conn)}(search, {{}}) > 0"
    if hits is None or len(hits) == _MAX_INDEX_HITS:
        return SqlCondition(found, (needle,))
    return (
        SqlCondition(f"({build_any_of_condition(conn, 'seq')} AND {found})", (to_list_value(conn, hits), needle))
        if hits
        else None
    )


def _build_exact_name_condition(conn: Connection, part: str) -> SqlCondition | None:
    """Match the exact letters, after a search for the folded text."""
    folded_too = _build_name_condition(conn, fold_text(part))
    exactly = SqlCondition(f"{get_position_function(conn)}(name, {{}}) > 0", (part,))
    if folded_too is None:
        return None
    return SqlCondition(f"({folded_too.sql} AND {exactly.sql})", (*folded_too.values, *exactly.values))


def _join_with_or(ways: Sequence[SqlCondition]) -> SqlCondition | None:
    if not ways:
        return None
    return SqlCondition(" OR ".join(way.sql for way in ways), tuple(value for way in ways for value in way.values))


def _build_distinct_names_query(column: str) -> str:
    """Build a query for the distinct names, which skips through the index."""
    return (
        f"WITH RECURSIVE names (name) AS (SELECT min({column}) FROM jobs UNION ALL"  # noqa: S608
        f" SELECT (SELECT min({column}) FROM jobs WHERE {column} > names.name) FROM names WHERE names.name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL"
    )


_SELECT_USER_NAMES, _SELECT_GROUP_NAMES = (
    text(_build_distinct_names_query("user_name")),
    text(_build_distinct_names_query("group_name")),
)


def _build_priority_condition(conn: Connection, query: OffsetPageQuery) -> SqlCondition | None:
    """Match some priorities, or all but some; None if all match."""
    ways: list[SqlCondition] = []
    if query.priorities is not None:
        ways.append(
            SqlCondition(build_any_of_condition(conn, "priority"), (_list_valid_priorities(conn, query.priorities),))
        )
    if query.other_priorities is not None:
        ways.append(
            SqlCondition(
                f"NOT ({build_any_of_condition(conn, 'priority')})",
                (_list_valid_priorities(conn, query.other_priorities),),
            )
        )
    return _join_with_or(ways)


def _list_valid_priorities(conn: Connection, numbers: Sequence[int]) -> Any:
    return to_list_value(conn, [each for each in numbers if _MIN_PRIORITY <= each <= _MAX_PRIORITY])


# -- statements: sql with {} for each value, and the values

Statement = tuple[str, list[Any]]


def _build_count_statement(conn: Connection, wanted: TableQuery, ranges: Sequence[IndexRange]) -> Statement:
    if not ranges:
        where, values = _join_with_and(_list_all_conditions(conn, wanted))
        return f"SELECT count(*) FROM jobs WHERE {where}", values  # noqa: S608
    sql, values = _build_union_parts("count(*) AS number", ranges, wanted)
    return f"SELECT CAST(sum(number) AS bigint) FROM ({sql}) AS parts", values  # noqa: S608


def _build_sorted_statement(
    conn: Connection, query: OffsetPageQuery, wanted: TableQuery, offset: int, limit: int
) -> Statement:
    where, values = _join_with_and(_list_all_conditions(conn, wanted))
    order = SqlCondition(f"seq {_format_direction(query)}")
    if query.order is not JobOrder.SUBMITTED:
        by, last = _build_sort_key(conn, query), order.sql
        nulls = " NULLS FIRST" if query.descending else " NULLS LAST"
        order = SqlCondition(
            f"{by.sql} {_format_direction(query)}{nulls * (query.order in _NULLABLE_ORDERS)}, {last}", by.values
        )
    sql = f"SELECT seq FROM jobs WHERE {where} ORDER BY {order.sql} LIMIT {{}} OFFSET {{}}"  # noqa: S608
    return sql, [*values, *order.values, limit, offset]


def _build_sort_key(conn: Connection, query: OffsetPageQuery) -> SqlCondition:
    by = _SORT_COLUMNS[query.order]
    if query.order is JobOrder.PRIORITY and query.ordered_priorities is not None:
        known = _list_valid_priorities(conn, query.ordered_priorities)
        return SqlCondition(f"CASE WHEN {build_any_of_condition(conn, 'priority')} THEN {by} END", (known,))
    if query.order in _TEXT_ORDERS and conn.dialect.name != "sqlite":
        by = f'({by}) COLLATE "C"'  # the same order everywhere
    return SqlCondition(by)


def _build_index_ranges(choices: ColumnChoices) -> list[IndexRange]:
    """Build all ranges that the choices allow; none if they allow everything, or too many."""
    if "user_name" in choices and "group_name" in choices and "state" not in choices:
        choices = {**choices, "state": [state.value for state in JobState]}  # it precedes the paging key
    if not choices or math.prod(map(len, choices.values())) > _MAX_RANGES:
        return []
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def _build_union_statement(
    ranges: Sequence[IndexRange], wanted: TableQuery, direction: str, offset: int, limit: int
) -> Statement:
    """Build a union: SQLite merges it in order and reads each part only as far as the page needs."""
    sql, values = _build_union_parts("seq", ranges, wanted)
    return f"{sql} ORDER BY seq {direction} LIMIT {{}} OFFSET {{}}", [*values, limit, offset]


def _build_union_parts(what: str, ranges: Sequence[IndexRange], wanted: TableQuery) -> Statement:
    parts = [_build_union_part(what, columns, wanted) for columns in ranges]
    return " UNION ALL ".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def _build_union_part(what: str, columns: IndexRange, wanted: TableQuery) -> Statement:
    final = JobState(columns.get("state", JobState.PENDING)).final
    where, values = _join_with_and([*([] if final else wanted.phase), *wanted.rest])
    equal = " AND ".join(f"{column} = {{}}" for column in columns)
    return f"SELECT {what} FROM jobs WHERE {equal} AND {where}", [*columns.values(), *values]  # noqa: S608


def _build_lateral_statement(
    ranges: Sequence[IndexRange], wanted: TableQuery, direction: str, offset: int, limit: int
) -> Statement:
    """Build a lateral join: PostgreSQL looks up each range; bounds of whole index keys make it use that index."""
    where, values = _join_with_and([*wanted.phase, *wanted.rest])
    columns = list(ranges[0])
    key = [*(f"jobs.{column}" for column in columns), "seq"]
    bounds = ", ".join(f"wanted.{column}" for column in columns)
    order = ", ".join(f"{each} {direction}" for each in key)
    sql = (
        f"SELECT part.seq FROM unnest({', '.join(['{}::text[]'] * len(columns))}) AS wanted ({', '.join(columns)})"  # noqa: S608
        f" CROSS JOIN LATERAL (SELECT seq FROM jobs"
        f" WHERE ({', '.join(key)}) >= ({bounds}, 0) AND ({', '.join(key)}) < ({bounds}, {MAX_INT}) AND {where}"
        f" ORDER BY {order} LIMIT {{}}) AS part"
        f" ORDER BY part.seq {direction} LIMIT {{}} OFFSET {{}}"
    )
    lists = [[each[column] for each in ranges] for column in columns]
    return sql, [*lists, *values, offset + limit, limit, offset]


def _list_all_conditions(conn: Connection, wanted: TableQuery) -> list[SqlCondition]:
    lists = [
        SqlCondition(build_any_of_condition(conn, column), (to_list_value(conn, values),))
        for column, values in wanted.choices.items()
    ]
    return [*lists, *wanted.phase, *wanted.rest]


def _join_with_and(conditions: Sequence[SqlCondition]) -> Statement:
    sql = " AND ".join(f"({condition.sql})" for condition in conditions) or "seq > 0"
    return sql, [value for condition in conditions for value in condition.values]


def _format_direction(query: OffsetPageQuery) -> str:
    return "DESC" if query.descending else "ASC"


def _execute_statement(conn: Connection, statement: Statement) -> Any:
    sql, values = statement
    return conn.exec_driver_sql(format_placeholders(conn, sql), tuple(values))


def _load_ordered_summaries(conn: Connection, seqs: Sequence[int]) -> tuple[JobSummary, ...]:
    """Load summaries in the given order."""
    found: dict[int, JobSummary] = {}
    sql = f"SELECT {SUMMARY_COLUMNS} FROM jobs WHERE {build_any_of_condition(conn, 'seq')}"  # noqa: S608
    for first in range(0, len(seqs), _ROW_BATCH_SIZE):
        some = to_list_value(conn, seqs[first : first + _ROW_BATCH_SIZE])
        found |= {row.seq: summary_from_row(row) for row in _execute_statement(conn, (sql, [some]))}
    return tuple(found[seq] for seq in seqs)
