"""The job list: filtered, searched, in pages, newest first.

Whatever the filter, a page is a merge of ranges of one index, each already in order: its price is that of the rows
shown, not of the rows that exist. Text search looks at an index of letter triples first; when a text is found all over,
it is cheaper to read the list in order and keep what matches.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, text

from holdfast.core.errors import UserError
from holdfast.core.records import JobFilter, JobSummary, Page
from holdfast.core.states import FINAL, JobState

from .rows import HOUR, SUMMARY_COLUMNS, folded, maybe_micros, storable, summary_of
from .search import text_hits

_LAST = 2**63 - 1
_MOST_RANGES = 400  # merged in one statement; SQLite takes 500
_WINDOW = 20_000  # jobs looked at between two glances at the clock
FEW_HITS = 2000  # a text found in no more jobs than this is looked up, else the list is read in order

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
    query = _query(filter)
    span = _span(conn, query, cursor)
    if query.needle is None:
        seqs, rest = _scan(conn, query, span, limit + 1), None
    else:
        seqs, rest = _search(conn, query, span, limit + 1, patience)
    if len(seqs) > limit:
        return Page(summaries(conn, seqs[:limit]), str(seqs[limit - 1]))
    return Page(summaries(conn, seqs), None if rest is None else str(rest))


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
    if states is None and (filter.groups is not None or filter.user is not None):
        states = tuple(JobState)  # the indexes have the state before the paging key
    chosen = _choices("state", None if states is None else [state.value for state in states])
    return [{**user, **group, **state} for user, group, state in itertools.product(users, groups, chosen)]


def _choices(column: str, values: Sequence[str] | None) -> list[Columns]:
    if values is None:
        return [{}]
    return [{column: value} for value in dict.fromkeys(values) if storable(value) == value]


def _span(conn: Connection, query: Query, cursor: str | None) -> Span:
    low, high = 0, _LAST
    if cursor is not None:
        high = _parse_cursor(cursor)
    if query.after is not None:
        first = conn.scalar(_FIRST_SINCE, {"hour": query.after // HOUR})
        low = _LAST if first is None else first
    if query.before is not None:
        last = conn.scalar(_LAST_UNTIL, {"hour": query.before // HOUR})
        high = min(high, 0 if last is None else last + 1)
    return Span(low, high)


_FIRST_SINCE = text("SELECT min(first_seq) FROM job_hours WHERE hour >= :hour")
_LAST_UNTIL = text("SELECT max(last_seq) FROM job_hours WHERE hour <= :hour")


def _parse_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise UserError("This page does not exist", field="cursor", hint="Start again from the first page.")
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
    if span.low >= span.high:
        return []
    found: list[int] = []
    for i in range(0, len(query.ranges), _MOST_RANGES):
        sql, values = _merge(conn, query, query.ranges[i : i + _MOST_RANGES])
        values |= {"low": span.low, "high": span.high, "limit": limit}
        found += conn.scalars(text(sql), values)
    return sorted(found, reverse=True)[:limit]


def _merge(conn: Connection, query: Query, ranges: Sequence[Columns]) -> tuple[str, Columns]:
    """Both databases run this lazily: each part is read only as far as the merged page needs it."""
    parts: list[str] = []
    values: Columns = {}
    common, common_values = _conditions(conn, query)
    for i, columns in enumerate(ranges):
        equal = [f"{column} = :{column}_{i}" for column in columns]
        values |= {f"{column}_{i}": value for column, value in columns.items()}
        parts.append(f"SELECT seq FROM jobs WHERE {' AND '.join([*equal, *common])}")  # noqa: S608
    return " UNION ALL ".join(parts) + " ORDER BY seq DESC LIMIT :limit", values | common_values


def _conditions(conn: Connection, query: Query) -> tuple[list[str], Columns]:
    sql = ["seq >= :low", "seq < :high"]
    values: Columns = {}
    if query.after is not None:
        sql.append("submitted_at >= :after")
        values["after"] = query.after
    if query.before is not None:
        sql.append("submitted_at < :before")
        values["before"] = query.before
    if query.needle is not None:
        place = "instr" if conn.dialect.name == "sqlite" else "strpos"
        sql.append(f"{place}(search, :needle) > 0")
        values["needle"] = query.needle
    return sql, values


# -- searching


def _search(conn: Connection, query: Query, span: Span, limit: int, patience: float) -> tuple[list[int], int | None]:
    """The newest fitting jobs, and where to go on when patience ended before the list did."""
    assert query.needle is not None
    if not query.ranges or span.low >= span.high:
        return [], None
    hits = text_hits(conn, query.needle, span.low, span.high, FEW_HITS)
    if hits is not None:
        return _fitting(conn, query, span, hits, limit), None
    return _scan_patiently(conn, query, span, limit, patience)


def _fitting(conn: Connection, query: Query, span: Span, hits: Sequence[int], limit: int) -> list[int]:
    """Those of a few jobs that fit."""
    if not hits:
        return []
    sql, values = _conditions(conn, query)
    values |= {"low": span.low, "high": span.high, "limit": limit, "hits": list(hits)}
    binds: list[BindParameter[Any]] = [bindparam("hits", expanding=True)]
    for column in query.ranges[0]:
        sql.append(f"{column} IN :{column}")
        values[column] = list({columns[column] for columns in query.ranges})
        binds.append(bindparam(column, expanding=True))
    where = " AND ".join(["seq IN :hits", *sql])
    statement = text(f"SELECT seq FROM jobs WHERE {where} ORDER BY seq DESC LIMIT :limit")  # noqa: S608
    return list(conn.scalars(statement.bindparams(*binds), values))


def _scan_patiently(
    conn: Connection, query: Query, span: Span, limit: int, patience: float
) -> tuple[list[int], int | None]:
    """Read on in windows, larger ones where there is little to read, until the page is full or time is up."""
    newest = conn.scalar(text("SELECT max(seq) FROM jobs")) or 0
    high, window = min(span.high, newest + 1), _WINDOW
    found: list[int] = []
    deadline = time.monotonic() + patience
    while high > span.low and len(found) < limit:
        began = time.monotonic()
        low = max(span.low, high - window)
        found += _scan(conn, query, Span(low, high), limit - len(found))
        high = low
        now = time.monotonic()
        if now > deadline and high > span.low and len(found) < limit:
            return found, high
        if now - began < patience / 8:
            window *= 2
    return found, None


# -- counting


def count_by_state(conn: Connection, groups: Sequence[str] | None = None) -> dict[JobState, int]:
    """How many jobs are in each state that is not final. Final ones are not counted: there may be millions."""
    counts = dict.fromkeys((state for state in JobState if state not in FINAL), 0)
    sql = "SELECT state, count(*) AS jobs FROM jobs WHERE state IN :states"
    values: Columns = {"states": [state.value for state in counts]}
    binds: list[BindParameter[Any]] = [bindparam("states", expanding=True)]
    if groups is not None:
        sql += " AND group_name IN :groups"
        values["groups"] = list(groups)
        binds.append(bindparam("groups", expanding=True))
    for row in conn.execute(text(f"{sql} GROUP BY state").bindparams(*binds), values):
        counts[JobState(row.state)] = row.jobs
    return counts
