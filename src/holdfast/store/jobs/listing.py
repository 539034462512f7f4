"""The job list: filtered, searched, in pages, newest first.

Whatever the filter, a page is a merge of ranges of one index, each already in order: its price is that of the rows
shown, not of the rows that exist. Text search both looks up an index of letter triples and reads the list in order, and
takes whichever is there first.
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
from holdfast.core.states import FINAL, JobState

from ..rows import HOUR, SUMMARY_COLUMNS, folded, maybe_micros, storable, summary_of
from ..statements import MAX_INT, any_of, distinct_storable, list_value, marked, position
from .search import newest_hits

_MAX_RANGES = 100  # merged in one statement; SQLite takes 500
_WINDOW = 20_000  # jobs read between two glances at the clock, at first
_QUICK = 0.005  # seconds; windows read faster than this grow
_HITS = 2000  # jobs found by text that are looked at together

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """Jobs with low <= seq < high."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Query:
    """What a filter asks of the table."""

    ranges: Sequence[Columns]  # any of them: equal columns, each the beginning of an index
    after: int | None  # submitted then or later
    before: int | None  # submitted earlier
    needle: str | None  # folded


# -- pages


def list_page(
    conn: Connection,
    filter: JobFilter,
    limit: int = 50,
    cursor: str | None = None,
    *,
    patience: float = 0.06,
) -> Page[JobSummary]:
    """Jobs that fit, newest first. `submitted_after` is inclusive, `submitted_before` is not.

    A search that matches little and finds its letters everywhere ends after about `patience` seconds: such a page may
    be short, even empty, and still have a next one. Only `next is None` means the end.
    """
    limit = max(limit, 1)
    query = _query(filter)
    span = _span(conn, query, cursor)
    if not query.ranges or span.low >= span.high:
        return Page((), None)
    if query.needle is None:
        seen = Progress(_scan(conn, query, span, limit + 1), span.low)
    else:
        seen = _search(conn, query, span, limit + 1, patience)
    if len(seen.found) > limit:
        return Page(summaries(conn, seen.found[:limit]), str(seen.found[limit - 1]))
    return Page(summaries(conn, seen.found), str(seen.down_to) if seen.down_to > span.low else None)


def _query(filter: JobFilter) -> Query:
    needle = folded(filter.text) if filter.text else None
    ranges = _ranges(filter)
    if needle is not None and ("\n" in needle or storable(needle) != needle):
        ranges = []  # no job has such a name
    span = maybe_micros(filter.submitted_after), maybe_micros(filter.submitted_before)
    return Query(ranges, *span, needle)


def _ranges(filter: JobFilter) -> list[Columns]:
    groups = _choices("group_name", filter.groups)
    users = _choices("user_name", None if filter.user is None else [filter.user])
    states = filter.states
    if states is None and filter.groups is not None and filter.user is not None:
        states = tuple(JobState)  # their index has the state before the paging key
    chosen = _choices("state", None if states is None else [state.value for state in states])
    return [{**user, **group, **state} for user, group, state in itertools.product(users, groups, chosen)]


def _choices(column: str, values: Sequence[str] | None) -> list[Columns]:
    if values is None:
        return [{}]
    return [{column: value} for value in distinct_storable(values)]


def _span(conn: Connection, query: Query, cursor: str | None) -> Span:
    low, high = 0, MAX_INT
    if cursor is not None:
        high = _parse_cursor(cursor)
    if query.after is not None:
        first = conn.scalar(_FIRST_SINCE, {"hour": query.after // HOUR})
        low = MAX_INT if first is None else first
    if query.before is not None:
        last = conn.scalar(_LAST_UNTIL, {"hour": query.before // HOUR})
        high = min(high, 0 if last is None else last + 1)
    return Span(low, high)


_FIRST_SINCE = text("SELECT min(first_seq) FROM job_hours WHERE hour >= :hour")
_LAST_UNTIL = text("SELECT max(last_seq) FROM job_hours WHERE hour <= :hour")


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise UserError(msg("This page does not exist"), field="cursor", hint=msg("Start again from the first page."))
    return int(cursor)


_SUMMARIES = text(
    f"SELECT {SUMMARY_COLUMNS} FROM jobs WHERE seq IN :seqs ORDER BY seq DESC"  # noqa: S608
).bindparams(bindparam("seqs", expanding=True))


def summaries(conn: Connection, seqs: Sequence[int]) -> tuple[JobSummary, ...]:
    if not seqs:
        return ()
    return tuple(map(summary_of, conn.execute(_SUMMARIES, {"seqs": list(seqs)})))


# -- reading the list in order


def _scan(conn: Connection, query: Query, span: Span, limit: int) -> list[int]:
    """The newest `limit` jobs of the span that fit."""
    if not query.ranges[0]:
        merges = [_one_range(conn, query, span, limit)]
    elif conn.dialect.name == "sqlite":
        merges = _union_of_ranges(conn, query, span, limit)
    else:
        merges = [_loop_over_ranges(conn, query, span, limit)]
    found = [seq for sql, values in merges for seq in conn.exec_driver_sql(sql, values).scalars()]
    return sorted(found, reverse=True)[:limit]


Statement = tuple[str, tuple[Any, ...]]


def _one_range(conn: Connection, query: Query, span: Span, limit: int) -> Statement:
    conditions, values = _conditions(conn, query, span)
    sql = f"SELECT seq FROM jobs WHERE {conditions} ORDER BY seq DESC LIMIT {{}}"  # noqa: S608
    return marked(conn, sql), (*values, limit)


def _union_of_ranges(conn: Connection, query: Query, span: Span, limit: int) -> list[Statement]:
    """SQLite merges a union in order as it goes, and reads each part only as far as the page needs."""
    conditions, values = _conditions(conn, query, span)
    equal = " AND ".join(f"{column} = {{}}" for column in query.ranges[0])
    part = f"SELECT seq FROM jobs WHERE {equal} AND {conditions}"  # noqa: S608
    merges = []
    for i in range(0, len(query.ranges), _MAX_RANGES):
        ranges = query.ranges[i : i + _MAX_RANGES]
        sql = " UNION ALL ".join([part] * len(ranges)) + " ORDER BY seq DESC LIMIT {}"
        wanted = [value for columns in ranges for value in (*columns.values(), *values)]
        merges.append((marked(conn, sql), (*wanted, limit)))
    return merges


def _loop_over_ranges(conn: Connection, query: Query, span: Span, limit: int) -> Statement:
    """PostgreSQL looks up each range by itself. Bounds of whole index keys make it take that index: given equal columns
    and ordered by `seq` alone, it may read the whole table backwards for a group that has no jobs.
    """
    conditions, values = _conditions(conn, query, span)
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
    return marked(conn, sql), (*lists, span.low, span.high, *values, limit, limit)


def _conditions(conn: Connection, query: Query, span: Span) -> tuple[str, list[Any]]:
    """What must hold whatever the range, and the value of each {} in it."""
    conditions: list[tuple[str, Any]] = [("seq >= {}", span.low), ("seq < {}", span.high)]
    if query.after is not None:
        conditions.append(("submitted_at >= {}", query.after))
    if query.before is not None:
        conditions.append(("submitted_at < {}", query.before))
    if query.needle is not None:
        conditions.append((f"{position(conn)}(search, {{}}) > 0", query.needle))
    return " AND ".join(sql for sql, _ in conditions), [value for _, value in conditions]


# -- searching


@dataclass(frozen=True, slots=True)
class Progress:
    """All that fits with seq >= down_to, newest first."""

    found: list[int]
    down_to: int


@dataclass(slots=True)
class Way:
    steps: Iterator[Progress]
    spent: float = 0.0  # seconds


def _search(conn: Connection, query: Query, span: Span, limit: int, patience: float) -> Progress:
    """Two ways run side by side, since either can be slow where the other is quick: the one that has had less time goes
    next. When time is up, the furthest counts.
    """
    deadline = time.monotonic() + patience
    best = Progress([], span.high)
    ways = [Way(_read_in_order(conn, query, span, limit)), Way(_look_up(conn, query, span, limit))]
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


def _read_in_order(conn: Connection, query: Query, span: Span, limit: int) -> Iterator[Progress]:
    """Quick when many jobs have the text, or few fit the rest of the filter. Goes to the end of the span."""
    newest = conn.scalar(text("SELECT max(seq) FROM jobs")) or 0
    high, window = max(span.low, min(span.high, newest + 1)), _WINDOW
    found: list[int] = []
    while True:
        low = max(span.low, high - window)
        began = time.monotonic()
        found = found + _scan(conn, query, Span(low, high), limit - len(found))
        high = low
        yield Progress(found, high)
        if time.monotonic() - began < _QUICK:
            window *= 2


def _look_up(conn: Connection, query: Query, span: Span, limit: int) -> Iterator[Progress]:
    """Quick when few jobs have the text. Ends early when the index is no help."""
    assert query.needle is not None
    high = span.high
    found: list[int] = []
    while True:
        hits = newest_hits(conn, query.needle, span.low, high, _HITS)
        if hits is None:
            return
        high = hits[-1] if len(hits) == _HITS else span.low
        found = found + _fitting(conn, query, span, hits, limit - len(found))
        yield Progress(found, high)


def _fitting(conn: Connection, query: Query, span: Span, hits: Sequence[int], limit: int) -> list[int]:
    """Those of a few jobs that fit."""
    conditions, values = _conditions(conn, query, span)
    choices = {column: list({wanted[column] for wanted in query.ranges}) for column in query.ranges[0]}
    lists: dict[str, Sequence[Any]] = {"seq": hits, **choices}
    fits = " AND ".join(any_of(conn, column) for column in lists)
    sql = f"SELECT seq FROM jobs WHERE {conditions} AND {fits} ORDER BY seq DESC LIMIT {{}}"  # noqa: S608
    values += [list_value(conn, wanted) for wanted in lists.values()]
    return list(conn.exec_driver_sql(marked(conn, sql), (*values, limit)).scalars())


# -- counting


def count_by_state(conn: Connection, groups: Sequence[str] | None = None) -> dict[JobState, int]:
    """How many jobs are in each state that is not final. Final ones are not counted: there may be millions."""
    counts = dict.fromkeys((state for state in JobState if state not in FINAL), 0)
    lists: dict[str, Sequence[str]] = {"state": [state.value for state in counts]}
    if groups is not None:
        lists["group_name"] = groups
    where = " AND ".join(any_of(conn, column) for column in lists)
    sql = marked(conn, f"SELECT state, count(*) FROM jobs WHERE {where} GROUP BY state")  # noqa: S608
    values = tuple(list_value(conn, wanted) for wanted in lists.values())
    for state, count in conn.exec_driver_sql(sql, values):
        counts[JobState(state)] = count
    return counts
