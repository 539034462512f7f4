"""Job lists: filters, sorting and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.core.records import JobOrder, OffsetPageQuery
from holdfast.store.jobs.records import JobDetail

from ..errors import PrimeHubError
from ..graphql.call import Call
from ..graphql.paging import DEFAULT_PAGE_SIZE, clamp_page_number, get_cursor_page_size, has_cursor, parse_order

JOB_ORDERS = {
    "displayName": JobOrder.NAME,
    "schedule": JobOrder.SCHEDULE,
    "createTime": JobOrder.SUBMITTED,
    "userName": JobOrder.USER,
    "groupName": JobOrder.GROUP,
    "phase": JobOrder.SHOWN_STATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    rows: Sequence[JobDetail]
    number: int = 1
    total: int | None = None  # None: around a cursor
    more_before: bool = False
    more_after: bool = False


class JobList:
    def __init__(self, call: Call, where: Mapping[str, Any] | None, order: Mapping[str, Any] | None) -> None:
        self._call = call
        self._query = _build_query(call, where or {}, order)

    async def load_rows(self, offset: int, limit: int) -> tuple[Sequence[JobDetail], int]:
        query = replace(self._query, offset=offset, limit=limit)
        rows, total = await self._call.services.jobs.get_numbered_details(self._call.actor, query, count=True)
        return rows, total or 0

    async def load_page(self, args: Mapping[str, Any]) -> JobPage:
        if has_cursor(args):
            return await self._load_cursor_page(args)
        number = clamp_page_number(args.get("page"))
        rows, total = await self.load_rows((number - 1) * DEFAULT_PAGE_SIZE, DEFAULT_PAGE_SIZE)
        return JobPage(rows=rows, number=number, total=total)

    async def _load_cursor_page(self, args: Mapping[str, Any]) -> JobPage:
        """Return rows around a cursor. Cursors follow the order of submission; other orders have numbered pages."""
        if self._query.order is not JobOrder.SUBMITTED:
            raise PrimeHubError("Cursors require the order by createTime. Use numbered pages for other orders.")
        backwards = args.get("last") is not None and args.get("first") is None
        query = self._query
        for name in ("after", "before"):
            if args.get(name) is not None:
                query = _narrow_to_side(query, await self._find_cursor_seq(str(args[name])), after=name == "after")
        count = get_cursor_page_size(args)
        query = replace(query, limit=count + 1, descending=query.descending is not backwards)
        rows, _ = await self._call.services.jobs.get_numbered_details(self._call.actor, query, count=False)
        more, shown = len(rows) > count, list(rows[:count])
        if backwards:
            return JobPage(rows=shown[::-1], more_before=more, more_after=args.get("before") is not None)
        return JobPage(rows=shown, more_before=args.get("after") is not None, more_after=more)

    async def _find_cursor_seq(self, cursor: str) -> int:
        try:
            found = await self._call.services.jobs.load_detail(self._call.actor, cursor)
        except NotFound:
            found = None
        if found is None or found.summary.id != cursor:
            raise PrimeHubError(f"Cursor {cursor[:100]!r} not found")
        return found.summary.seq


def _build_query(call: Call, where: Mapping[str, Any], order: Mapping[str, Any] | None) -> OffsetPageQuery:
    chosen = parse_order(order)
    by, descending = (JOB_ORDERS[chosen[0]], chosen[1]) if chosen else (JobOrder.SUBMITTED, True)
    return OffsetPageQuery(
        named_groups=_parse_names(where.get("groupId_in")),
        users=(call.actor.name,) if where.get("mine") else _parse_names(where.get("userId_in")),
        name_or_id=where.get("search") or None,
        in_name=where.get("displayName_contains") or None,
        order=by,
        descending=descending,
    )


def _parse_names(given: Sequence[str | None] | None) -> tuple[str, ...] | None:
    """Return names; None and an empty list both mean any."""
    return tuple(name for name in given if name is not None) if given else None


def _narrow_to_side(query: OffsetPageQuery, seq: int, *, after: bool) -> OffsetPageQuery:
    """Return the query for rows before or after a position; with the newest first, later rows are older."""
    earlier = after is query.descending
    return replace(query, before_seq=seq) if earlier else replace(query, after_seq=seq)
