"""The job list by page number, for clients that know no cursors: in any order, from any offset.

By submission, a page is a merge of ranges of one index, as in `listing`; in other orders the database sorts what fits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from holdfast.core.records import JobSummary, NumberedPage, NumberedQuery, Order, Phase
from holdfast.core.states import FINAL, JobState

from ..rows import SUMMARY_COLUMNS, folded, storable, summary_of
from ..statements import MAX_INT, any_of, distinct_storable, list_value, marked, position
from .search import newest_hits

_MAX_RANGES = 400  # merged in one statement; SQLite takes 500
_ROWS = 2000  # read together
_FEW = 2000  # jobs found by text
_MIN_PRIORITY, _MAX_PRIORITY = -(2**31), 2**31 - 1

_IN_PHASE: dict[Phase, str] = {
    Phase.WAITING: "stop_json IS NULL AND (state = 'Preparing' OR (state = 'Pending' AND retry_at IS NULL))",
    Phase.RUNNING: "stop_json IS NULL AND"
    " (state IN ('Running', 'Held') OR (state = 'Pending' AND retry_at IS NOT NULL))",
    Phase.STOPPING: "stop_json IS NOT NULL AND state IN ('Pending', 'Preparing', 'Running', 'Held', 'Unknown')",
    Phase.SUCCEEDED: "state = 'Succeeded'",
    Phase.FAILED: "state = 'Failed'",
    Phase.CANCELLED: "state = 'Cancelled'",
}
_STATES: dict[Phase, tuple[JobState, ...]] = {
    Phase.WAITING: (JobState.PENDING, JobState.PREPARING),
    Phase.RUNNING: (JobState.RUNNING, JobState.HELD, JobState.PENDING),
    Phase.STOPPING: tuple(state for state in JobState if state not in FINAL),
    Phase.SUCCEEDED: (JobState.SUCCEEDED,),
    Phase.FAILED: (JobState.FAILED,),
    Phase.CANCELLED: (JobState.CANCELLED,),
}
_SORTED_BY: dict[Order, str] = {
    Order.NAME: "name",
    Order.USER: "user_name",
    Order.GROUP: "group_name",
    Order.RETRIES: "user_retries + platform_retries",
    Order.TASKS: "task_count",
    Order.GPUS: "gpu",
    Order.STATE: "CASE "
    + " ".join(f"WHEN {condition} THEN '{phase}'" for phase, condition in _IN_PHASE.items())
    + " ELSE 'unknown' END",
    Order.FINISHED: "finished_at",
    Order.PRIORITY: "priority",
    Order.SCHEDULE: "schedule_id",
    Order.SHOWN_STATE: f"CASE WHEN {_IN_PHASE[Phase.STOPPING]} THEN 'Cancelled'"
    " WHEN state IN ('Held', 'Unknown') THEN 'Running' ELSE state END",
}
_MAY_BE_NONE = (Order.FINISHED, Order.PRIORITY, Order.SCHEDULE)
_TEXTS = (Order.NAME, Order.USER, Order.GROUP, Order.STATE, Order.SCHEDULE, Order.SHOWN_STATE)


@dataclass(frozen=True, slots=True)
class Condition:
    sql: str  # with {} for each value
    values: tuple[Any, ...] = ()


Choices = dict[str, list[str]]  # column -> values, any of which it may have
Range = dict[str, str]  # column -> value, each the beginning of an index that ends in the paging key


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query asks of the table."""

    choices: Choices
    phase: list[Condition]  # what a job that is not final must meet besides its state
    rest: list[Condition]


def numbered_page(conn: Connection, query: NumberedQuery, *, count: bool) -> NumberedPage:
    """The jobs that fit from number `offset` on, and how many fit in all when asked to count.

    Jobs that are equal in the order come as they were submitted, or the other way round when it is descending.
    Those without what it is about, such as a time of finish, come last, or first when it is descending.
    """
    rest = _rest(conn, query)
    wanted = Wanted(_choices(query), _phase(query), rest or [])
    if rest is None or not all(wanted.choices.values()):
        return NumberedPage((), 0 if count else None)
    # Text and tags often leave few jobs, which are then quicker sorted than looked for in every range.
    few = query.text or query.name_or_id or query.in_name or query.tags_any
    ranges = [] if few else _ranges(wanted.choices)
    total = _run(conn, _count(conn, wanted, ranges)).scalar_one() if count else None
    offset, limit = (min(max(number, 0), MAX_INT // 4) for number in (query.offset, query.limit))
    if not limit or (total is not None and offset >= total):
        return NumberedPage((), total)
    if not ranges or query.order is not Order.SUBMITTED:
        statement = _sorted(conn, query, wanted, offset, limit)
    else:
        merge = _union_of_ranges if conn.dialect.name == "sqlite" else _loop_over_ranges
        statement = merge(ranges, wanted, _direction(query), offset, limit)
    return NumberedPage(_summaries(conn, _run(conn, statement).scalars().all()), total)


# -- what fits


def _choices(query: NumberedQuery) -> Choices:
    choices: Choices = {}
    if query.users is not None:
        choices["user_name"] = distinct_storable(query.users)
    groups = [set(names) for names in (query.groups, query.named_groups) if names is not None]
    if groups:
        choices["group_name"] = distinct_storable(sorted(set.intersection(*groups)))
    if query.phases is not None:
        choices["state"] = list(dict.fromkeys(state.value for phase in query.phases for state in _STATES[phase]))
    return choices


def _phase(query: NumberedQuery) -> list[Condition]:
    if all(_STATES[phase][0].final for phase in query.phases or ()):
        return []
    return [Condition(" OR ".join(f"({_IN_PHASE[phase]})" for phase in query.phases or ()))]


def _rest(conn: Connection, query: NumberedQuery) -> list[Condition] | None:
    """What must hold besides choices and phase; None when nothing can."""
    rest = [*_between(query)]
    for find, needle in _texts(query):
        if "\n" in needle or storable(needle) != needle:
            return None
        has_text = find(conn, needle)
        if has_text is None:
            return None
        rest.append(has_text)
    rest += _has_tags(conn, query)
    has_priority = _has_priority(conn, query)
    return rest if has_priority is None else [*rest, has_priority]


def _has_tags(conn: Connection, query: NumberedQuery) -> Iterator[Condition]:
    held = f"state = '{JobState.HELD.value}'"
    if query.tags_any is not None:
        tags = list_value(conn, distinct_storable(query.tags_any))
        has_one = f"seq IN (SELECT job_seq FROM job_tags WHERE {any_of(conn, 'tag')})"  # noqa: S608
        yield Condition(f"({has_one} OR {held})" if query.held_tag in query.tags_any else has_one, (tags,))
    if query.tags_none:
        tags = list_value(conn, distinct_storable(query.tags_none))
        has_one = f"EXISTS (SELECT 1 FROM job_tags WHERE job_seq = seq AND {any_of(conn, 'tag')})"  # noqa: S608
        yield Condition(
            f"NOT ({has_one} OR {held})" if query.held_tag in query.tags_none else f"NOT {has_one}", (tags,)
        )


def _between(query: NumberedQuery) -> Iterator[Condition]:
    for sign, seq in (("<", query.before_seq), (">", query.after_seq)):
        if seq is not None:
            yield Condition(f"seq {sign} {{}}", (min(max(seq, 0), MAX_INT),))


def _texts(query: NumberedQuery) -> Iterator[tuple[Callable[[Connection, str], Condition | None], str]]:
    """What has to be found, and how."""
    if query.text:
        yield _has_text, folded(query.text)
    if query.name_or_id:
        yield _has_name_or_id, folded(query.name_or_id)
    if query.in_name:
        yield _has_letters, query.in_name


def _has_text(conn: Connection, needle: str) -> Condition | None:
    """In its name, or in its user's or group's name; None when there is none such. Of users and groups there are few,
    so they are looked at here: databases fold letters each in their own way.
    """
    ways = [_has_name(conn, needle)]
    for column, names in (("user_name", _USERS), ("group_name", _GROUPS)):
        fitting = [name for name in conn.scalars(names) if needle in folded(name)]
        ways.append(Condition(any_of(conn, column), (list_value(conn, fitting),)) if fitting else None)
    return _any_way([way for way in ways if way])


def _has_name(conn: Connection, needle: str) -> Condition | None:
    """The name stands before the first line break of `search`. When few jobs have the text, the index knows which."""
    place, line_break = (position(conn), "char(10)" if conn.dialect.name == "sqlite" else "chr(10)")
    in_name = f"{place}(substr(search, 1, {place}(search, {line_break})), {{}}) > 0"
    hits = newest_hits(conn, needle, 0, MAX_INT, _FEW)
    if hits is None or len(hits) == _FEW:
        return Condition(f"({place}(search, {{}}) > 0 AND {in_name})", (needle, needle))
    return Condition(f"({any_of(conn, 'seq')} AND {in_name})", (list_value(conn, hits), needle)) if hits else None


def _has_name_or_id(conn: Connection, needle: str) -> Condition | None:
    """Both are in `search`, a line break between them."""
    hits = newest_hits(conn, needle, 0, MAX_INT, _FEW)
    found = f"{position(conn)}(search, {{}}) > 0"
    if hits is None or len(hits) == _FEW:
        return Condition(found, (needle,))
    return Condition(f"({any_of(conn, 'seq')} AND {found})", (list_value(conn, hits), needle)) if hits else None


def _has_letters(conn: Connection, part: str) -> Condition | None:
    """As they are; folded, they are looked up first."""
    folded_too = _has_name(conn, folded(part))
    exactly = Condition(f"{position(conn)}(name, {{}}) > 0", (part,))
    if folded_too is None:
        return None
    return Condition(f"({folded_too.sql} AND {exactly.sql})", (*folded_too.values, *exactly.values))


def _any_way(ways: Sequence[Condition]) -> Condition | None:
    if not ways:
        return None
    return Condition(" OR ".join(way.sql for way in ways), tuple(value for way in ways for value in way.values))


def _names(column: str) -> str:
    """Each once, however many jobs have it: from one to the next by index."""
    return (
        f"WITH RECURSIVE names (name) AS (SELECT min({column}) FROM jobs UNION ALL"  # noqa: S608
        f" SELECT (SELECT min({column}) FROM jobs WHERE {column} > names.name) FROM names WHERE names.name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL"
    )


_USERS, _GROUPS = text(_names("user_name")), text(_names("group_name"))


def _has_priority(conn: Connection, query: NumberedQuery) -> Condition | None:
    """One of some, or any but some; None when any will do."""
    ways: list[Condition] = []
    if query.priorities is not None:
        ways.append(Condition(any_of(conn, "priority"), (_priorities(conn, query.priorities),)))
    if query.other_priorities is not None:
        ways.append(Condition(f"NOT ({any_of(conn, 'priority')})", (_priorities(conn, query.other_priorities),)))
    return _any_way(ways)


def _priorities(conn: Connection, numbers: Sequence[int]) -> Any:
    return list_value(conn, [each for each in numbers if _MIN_PRIORITY <= each <= _MAX_PRIORITY])


# -- statements: sql with {} for each value, and the values

Statement = tuple[str, list[Any]]


def _count(conn: Connection, wanted: Wanted, ranges: Sequence[Range]) -> Statement:
    if not ranges:
        where, values = _all_of(_listed(conn, wanted))
        return f"SELECT count(*) FROM jobs WHERE {where}", values  # noqa: S608
    sql, values = _parts("count(*) AS number", ranges, wanted)
    return f"SELECT CAST(sum(number) AS bigint) FROM ({sql}) AS parts", values  # noqa: S608


def _sorted(conn: Connection, query: NumberedQuery, wanted: Wanted, offset: int, limit: int) -> Statement:
    where, values = _all_of(_listed(conn, wanted))
    order = Condition(f"seq {_direction(query)}")
    if query.order is not Order.SUBMITTED:
        by, last = _sort_key(conn, query), order.sql
        nulls = " NULLS FIRST" if query.descending else " NULLS LAST"
        order = Condition(f"{by.sql} {_direction(query)}{nulls * (query.order in _MAY_BE_NONE)}, {last}", by.values)
    sql = f"SELECT seq FROM jobs WHERE {where} ORDER BY {order.sql} LIMIT {{}} OFFSET {{}}"  # noqa: S608
    return sql, [*values, *order.values, limit, offset]


def _sort_key(conn: Connection, query: NumberedQuery) -> Condition:
    by = _SORTED_BY[query.order]
    if query.order is Order.PRIORITY and query.ordered_priorities is not None:
        known = _priorities(conn, query.ordered_priorities)
        return Condition(f"CASE WHEN {any_of(conn, 'priority')} THEN {by} END", (known,))
    if query.order in _TEXTS and conn.dialect.name != "sqlite":
        by = f'({by}) COLLATE "C"'  # the same order everywhere
    return Condition(by)


def _ranges(choices: Choices) -> list[Range]:
    """All that the choices allow; none when they allow everything, or too many."""
    if "user_name" in choices and "group_name" in choices and "state" not in choices:
        choices = {**choices, "state": [state.value for state in JobState]}  # it stands before the paging key there
    if not choices or math.prod(map(len, choices.values())) > _MAX_RANGES:
        return []
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def _union_of_ranges(ranges: Sequence[Range], wanted: Wanted, direction: str, offset: int, limit: int) -> Statement:
    """SQLite merges a union in order as it goes, and reads each part only as far as the page needs."""
    sql, values = _parts("seq", ranges, wanted)
    return f"{sql} ORDER BY seq {direction} LIMIT {{}} OFFSET {{}}", [*values, limit, offset]


def _parts(what: str, ranges: Sequence[Range], wanted: Wanted) -> Statement:
    parts = [_part(what, columns, wanted) for columns in ranges]
    return " UNION ALL ".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def _part(what: str, columns: Range, wanted: Wanted) -> Statement:
    final = JobState(columns.get("state", JobState.PENDING)).final
    where, values = _all_of([*([] if final else wanted.phase), *wanted.rest])
    equal = " AND ".join(f"{column} = {{}}" for column in columns)
    return f"SELECT {what} FROM jobs WHERE {equal} AND {where}", [*columns.values(), *values]  # noqa: S608


def _loop_over_ranges(ranges: Sequence[Range], wanted: Wanted, direction: str, offset: int, limit: int) -> Statement:
    """PostgreSQL looks up each range by itself; bounds of whole index keys make it take that index."""
    where, values = _all_of([*wanted.phase, *wanted.rest])
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


def _listed(conn: Connection, wanted: Wanted) -> list[Condition]:
    lists = [Condition(any_of(conn, column), (list_value(conn, values),)) for column, values in wanted.choices.items()]
    return [*lists, *wanted.phase, *wanted.rest]


def _all_of(conditions: Sequence[Condition]) -> Statement:
    sql = " AND ".join(f"({condition.sql})" for condition in conditions) or "seq > 0"
    return sql, [value for condition in conditions for value in condition.values]


def _direction(query: NumberedQuery) -> str:
    return "DESC" if query.descending else "ASC"


def _run(conn: Connection, statement: Statement) -> Any:
    sql, values = statement
    return conn.exec_driver_sql(marked(conn, sql), tuple(values))


def _summaries(conn: Connection, seqs: Sequence[int]) -> tuple[JobSummary, ...]:
    """In the order given."""
    found: dict[int, JobSummary] = {}
    sql = f"SELECT {SUMMARY_COLUMNS} FROM jobs WHERE {any_of(conn, 'seq')}"  # noqa: S608
    for first in range(0, len(seqs), _ROWS):
        some = list_value(conn, seqs[first : first + _ROWS])
        found |= {row.seq: summary_of(row) for row in _run(conn, (sql, [some]))}
    return tuple(found[seq] for seq in seqs)
