"""Which jobs a list asks for, in which order, from where on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.core.records import NumberedQuery, Order
from holdfast.store.jobs.records import JobDetail

from ..errors import PhError
from ..graphql.call import Call
from ..graphql.paging import ROWS, asks_cursor, first_order, page_number, rows_asked

ORDERS = {
    "displayName": Order.NAME,
    "schedule": Order.SCHEDULE,
    "createTime": Order.SUBMITTED,
    "userName": Order.USER,
    "groupName": Order.GROUP,
    "phase": Order.SHOWN_STATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    rows: Sequence[JobDetail]
    number: int = 1
    total: int | None = None  # None: around a cursor
    more_before: bool = False
    more_after: bool = False


class JobList:
    def __init__(self, call: Call, where: Mapping[str, Any] | None, order: Mapping[str, Any] | None) -> None:
        self._call = call
        self._query = _query(call, where or {}, order)

    async def from_number(self, offset: int, limit: int) -> tuple[Sequence[JobDetail], int]:
        query = replace(self._query, offset=offset, limit=limit)
        rows, total = await self._call.services.jobs.numbered_details(self._call.actor, query, count=True)
        return rows, total or 0

    async def page(self, args: Mapping[str, Any]) -> Found:
        if asks_cursor(args):
            return await self._around(args)
        number = page_number(args.get("page"))
        rows, total = await self.from_number((number - 1) * ROWS, ROWS)
        return Found(rows=rows, number=number, total=total)

    async def _around(self, args: Mapping[str, Any]) -> Found:
        """Cursors are places in the order of submission; in other orders there are pages."""
        if self._query.order is not Order.SUBMITTED:
            raise PhError("Cursors go with the order by createTime only. Ask for a page by its number.")
        backwards = args.get("last") is not None and args.get("first") is None
        query = self._query
        for name in ("after", "before"):
            if args.get(name) is not None:
                query = _beyond(query, await self._place(str(args[name])), after=name == "after")
        count = rows_asked(args)
        query = replace(query, limit=count + 1, descending=query.descending is not backwards)
        rows, _ = await self._call.services.jobs.numbered_details(self._call.actor, query, count=False)
        more, shown = len(rows) > count, list(rows[:count])
        if backwards:
            return Found(rows=shown[::-1], more_before=more, more_after=args.get("before") is not None)
        return Found(rows=shown, more_before=args.get("after") is not None, more_after=more)

    async def _place(self, cursor: str) -> int:
        try:
            found = await self._call.services.jobs.record(self._call.actor, cursor)
        except NotFound:
            found = None
        if found is None or found.summary.id != cursor:
            raise PhError(f"There is no job {cursor[:100]!r} to begin at")
        return found.summary.seq


def _query(call: Call, where: Mapping[str, Any], order: Mapping[str, Any] | None) -> NumberedQuery:
    chosen = first_order(order)
    by, descending = (ORDERS[chosen[0]], chosen[1]) if chosen else (Order.SUBMITTED, True)
    return NumberedQuery(
        named_groups=_names(where.get("groupId_in")),
        users=(call.actor.name,) if where.get("mine") else _names(where.get("userId_in")),
        name_or_id=where.get("search") or None,
        in_name=where.get("displayName_contains") or None,
        order=by,
        descending=descending,
    )


def _names(given: Sequence[str | None] | None) -> tuple[str, ...] | None:
    """None and an empty list both mean any."""
    return tuple(name for name in given if name is not None) if given else None


def _beyond(query: NumberedQuery, seq: int, *, after: bool) -> NumberedQuery:
    """Later in the list is earlier in time, when the newest come first."""
    earlier = after is query.descending
    return replace(query, before_seq=seq) if earlier else replace(query, after_seq=seq)
