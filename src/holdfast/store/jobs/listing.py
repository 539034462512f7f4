"""The job list: filtered, searched, in pages, newest first.

With every filter, a page is a merge of sorted ranges of one index: its cost depends on the rows shown, not on the
rows that exist. Text search runs a trigram index lookup and a scan side by side and uses the faster one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.records import JobFilter, JobSummary, Page
from holdfast.core.states import FINAL_STATES, JobState

from ..rows import MICROS_PER_HOUR, fold_text, make_storable, to_optional_micros
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

_MAX_RANGES = 100  # merged in one statement; SQLite accepts 500
_WINDOW_SIZE = 20_000  # jobs read between two checks of the deadline, at first
_FAST_WINDOW_TIME = 0.005  # seconds; windows that are read faster grow
_HIT_BATCH_SIZE = 2000  # jobs found by text that are filtered in one statement

ColumnValues = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeqRange:
    """Jobs with low <= seq < high."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A job filter as conditions on the table."""

    ranges: Sequence[ColumnValues]  # alternatives: equal columns, each a prefix of an index
    after: int | None  # submitted at this time or later
    before: int | None  # submitted earlier
    needle: str | None  # folded


# -- pages


def list_job_page(
    conn: Connection, filter: JobFilter, limit: int = 50, cursor: str | None = None, *, timeout: float = 0.06
) -> Page[JobSummary]:
    """Return matching jobs, newest first. `submitted_after` is inclusive, `submitted_before` is not.

    A search with many candidates and few matches ends after about `timeout` seconds: such a page may be short, even
    empty, and still have a next one. Only `next is None` means the end.
    """
    limit = max(limit, 1)
    query = _build_query(filter)
    span = _compute_seq_range(conn, query, cursor)
    if not query.ranges or span.low >= span.high:
        return Page((), None)
    if query.needle is None:
        seen = SearchProgress(_scan_jobs(conn, query, span, limit + 1), span.low)
    else:
        seen = _search_jobs(conn, query, span, limit + 1, timeout)
    if len(seen.found) > limit:
        return Page(load_summaries(conn, seen.found[:limit]), str(seen.found[limit - 1]))
    return Page(load_summaries(conn, seen.found), str(seen.down_to) if seen.down_to > span.low else None)


def _build_query(filter: JobFilter) -> ListQuery:
    needle = fold_text(filter.text) if filter.text else None
    ranges = _build_index_prefixes(filter)
    if needle is not None and ("\n" in needle or make_storable(needle) != needle):
        ranges = []  # no job has such a name
    span = to_optional_micros(filter.submitted_after), to_optional_micros(filter.submitted_before)
    return ListQuery(ranges, *span, needle)


def _build_index_prefixes(filter: JobFilter) -> list[ColumnValues]:
    groups = _build_column_choices("group_name", filter.groups)
    users = _build_column_choices("user_name", None if filter.user is None else [filter.user])
    states = filter.states
    if states is None and filter.groups is not None and filter.user is not None:
        states = tuple(JobState)  # their index has the state before the paging key
    chosen = _build_column_choices("state", None if states is None else [state.value for state in states])
    return [{**user, **group, **state} for user, group, state in itertools.product(users, groups, chosen)]


def _build_column_choices(column: str, values: Sequence[str] | None) -> list[ColumnValues]:
    if values is None:
        return [{}]
    return [{column: value} for value in list_distinct_storable_values(values)]


def _compute_seq_range(conn: Connection, query: ListQuery, cursor: str | None) -> SeqRange:
    low, high = 0, MAX_INT
    if cursor is not None:
        high = _parse_cursor(cursor)
    if query.after is not None:
        first = conn.scalar(_SELECT_FIRST_SEQ_SINCE, {"hour": query.after // MICROS_PER_HOUR})
        low = MAX_INT if first is None else first
    if query.before is not None:
        last = conn.scalar(_SELECT_LAST_SEQ_UNTIL, {"hour": query.before // MICROS_PER_HOUR})
        high = min(high, 0 if last is None else last + 1)
    return SeqRange(low, high)


_SELECT_FIRST_SEQ_SINCE = text("SELECT min(first_seq) FROM job_hours WHERE hour >= :hour")
_SELECT_LAST_SEQ_UNTIL = text("SELECT max(last_seq) FROM job_hours WHERE hour <= :hour")


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise UserError(
            msg("This page cursor is not valid"), field="cursor", hint=msg("Start again from the first page.")
        )
    return int(cursor)


_SELECT_SUMMARIES = text(
    f"SELECT {SUMMARY_COLUMNS} FROM jobs WHERE seq IN :seqs ORDER BY seq DESC"  # noqa: S608
).bindparams(bindparam("seqs", expanding=True))


def load_summaries(conn: Connection, seqs: Sequence[int]) -> tuple[JobSummary, ...]:
    if not seqs:
        return ()
    return tuple(map(summary_from_row, conn.execute(_SELECT_SUMMARIES, {"seqs": list(seqs)})))


# -- reading the list in order


def _scan_jobs(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> list[int]:
    """Return the newest `limit` matching jobs of the range."""
    if not query.ranges[0]:
        merges = [_build_range_statement(conn, query, span, limit)]
    elif conn.dialect.name == "sqlite":
        merges = _build_union_statements(conn, query, span, limit)
    else:
        merges = [_build_lateral_statement(conn, query, span, limit)]
    found = [seq for sql, values in merges for seq in conn.exec_driver_sql(sql, values).scalars()]
    return sorted(found, reverse=True)[:limit]


Statement = tuple[str, tuple[Any, ...]]


def _build_range_statement(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> Statement:
    conditions, values = _build_conditions(conn, query, span)
    sql = f"SELECT seq FROM jobs WHERE {conditions} ORDER BY seq DESC LIMIT {{}}"  # noqa: S608
    return format_placeholders(conn, sql), (*values, limit)


def _build_union_statements(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> list[Statement]:
    """Build unions: SQLite merges them in order and reads each part only as far as the page needs."""
    conditions, values = _build_conditions(conn, query, span)
    equal = " AND ".join(f"{column} = {{}}" for column in query.ranges[0])
    part = f"SELECT seq FROM jobs WHERE {equal} AND {conditions}"  # noqa: S608
    merges = []
    for i in range(0, len(query.ranges), _MAX_RANGES):
        ranges = query.ranges[i : i + _MAX_RANGES]
        sql = " UNION ALL ".join([part] * len(ranges)) + " ORDER BY seq DESC LIMIT {}"
        wanted = [value for columns in ranges for value in (*columns.values(), *values)]
        merges.append((format_placeholders(conn, sql), (*wanted, limit)))
    return merges


def _build_lateral_statement(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> Statement:
    """Build a lateral join: PostgreSQL looks up each range separately. Bounds of whole index keys make it use that
    index: with equal columns and sorting by `seq` alone, it may read the whole table for a group without jobs.
    """
    conditions, values = _build_conditions(conn, query, span)
    columns = list(query.ranges[0])
    listed = ", ".join(columns)
    key = ", ".join([*(f"jobs.{column}" for column in columns), "seq"])
    wanted = ", ".join(f"wanted.{column}" for column in columns)
    sql = (
        f"SELECT part.seq FROM unnest({', '.join(['{}::text[]'] * len(columns))}) AS wanted ({listed})"  # noqa: S608
        f" CROSS JOIN LATERAL (SELECT seq FROM jobs"
        f" WHERE ({key}) >= ({wanted}, {{}}) AND ({key}) < ({wanted}, {{}}) AND {conditions}"
        f" ORDER BY {key.replace(',', ' DESC,')} DESC LIMIT {{}}) AS part"
        " ORDER BY part.seq DESC LIMIT {}"
    )
    lists = [[each[column] for each in query.ranges] for column in columns]
    return format_placeholders(conn, sql), (*lists, span.low, span.high, *values, limit, limit)


def _build_conditions(conn: Connection, query: ListQuery, span: SeqRange) -> tuple[str, list[Any]]:
    """Build the conditions common to all ranges, and the value of each {} in them."""
    conditions: list[tuple[str, Any]] = [("seq >= {}", span.low), ("seq < {}", span.high)]
    if query.after is not None:
        conditions.append(("submitted_at >= {}", query.after))
    if query.before is not None:
        conditions.append(("submitted_at < {}", query.before))
    if query.needle is not None:
        conditions.append((f"{get_position_function(conn)}(search, {{}}) > 0", query.needle))
    return " AND ".join(sql for sql, _ in conditions), [value for _, value in conditions]


# -- searching


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Matching jobs with seq >= down_to, newest first."""

    found: list[int]
    down_to: int


@dataclass(slots=True)
class SearchStrategy:
    steps: Iterator[SearchProgress]
    spent: float = 0.0  # seconds


def _search_jobs(conn: Connection, query: ListQuery, span: SeqRange, limit: int, timeout: float) -> SearchProgress:
    """Run two strategies in turns, since either can be slow where the other is fast: the one with less time spent is
    next. At the deadline, the one with the most progress is used.
    """
    deadline = time.monotonic() + timeout
    best = SearchProgress([], span.high)
    ways = [
        SearchStrategy(_search_by_scan(conn, query, span, limit)),
        SearchStrategy(_search_by_index(conn, query, span, limit)),
    ]
    while best.down_to > span.low and len(best.found) < limit:
        way = min(ways, key=lambda way: way.spent)
        began = time.monotonic()
        step = next(way.steps, None)
        now = time.monotonic()
        way.spent += now - began
        if step is None:
            ways.remove(way)
        elif step.down_to < best.down_to:
            best = step
        if now > deadline:
            break
    return best


def _search_by_scan(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> Iterator[SearchProgress]:
    """Scan in order: fast when many jobs contain the text, or few match the rest of the filter."""
    newest = conn.scalar(text("SELECT max(seq) FROM jobs")) or 0
    high, window = max(span.low, min(span.high, newest + 1)), _WINDOW_SIZE
    found: list[int] = []
    while True:
        low = max(span.low, high - window)
        began = time.monotonic()
        found = found + _scan_jobs(conn, query, SeqRange(low, high), limit - len(found))
        high = low
        yield SearchProgress(found, high)
        if time.monotonic() - began < _FAST_WINDOW_TIME:
            window *= 2


def _search_by_index(conn: Connection, query: ListQuery, span: SeqRange, limit: int) -> Iterator[SearchProgress]:
    """Use the index: fast when few jobs contain the text. Ends early when the index cannot help."""
    assert query.needle is not None
    high = span.high
    found: list[int] = []
    while True:
        hits = find_newest_hits(conn, query.needle, span.low, high, _HIT_BATCH_SIZE)
        if hits is None:
            return
        high = hits[-1] if len(hits) == _HIT_BATCH_SIZE else span.low
        found = found + _filter_hits(conn, query, span, hits, limit - len(found))
        yield SearchProgress(found, high)


def _filter_hits(conn: Connection, query: ListQuery, span: SeqRange, hits: Sequence[int], limit: int) -> list[int]:
    conditions, values = _build_conditions(conn, query, span)
    choices = {column: list({wanted[column] for wanted in query.ranges}) for column in query.ranges[0]}
    lists: dict[str, Sequence[Any]] = {"seq": hits, **choices}
    fits = " AND ".join(build_any_of_condition(conn, column) for column in lists)
    sql = f"SELECT seq FROM jobs WHERE {conditions} AND {fits} ORDER BY seq DESC LIMIT {{}}"  # noqa: S608
    values += [to_list_value(conn, wanted) for wanted in lists.values()]
    return list(conn.exec_driver_sql(format_placeholders(conn, sql), (*values, limit)).scalars())


def count_jobs_by_state(conn: Connection, groups: Sequence[str] | None = None) -> dict[JobState, int]:
    """Count the jobs in each state that is not final: final ones may be millions."""
    counts = dict.fromkeys((state for state in JobState if state not in FINAL_STATES), 0)
    lists: dict[str, Sequence[str]] = {"state": [state.value for state in counts]}
    if groups is not None:
        lists["group_name"] = groups
    where = " AND ".join(build_any_of_condition(conn, column) for column in lists)
    sql = format_placeholders(conn, f"SELECT state, count(*) FROM jobs WHERE {where} GROUP BY state")  # noqa: S608
    values = tuple(to_list_value(conn, wanted) for wanted in lists.values())
    for state, count in conn.exec_driver_sql(sql, values):
        counts[JobState(state)] = count
    return counts
