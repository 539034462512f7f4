"""Lists for admins: filtered, sorted, complete or by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ariadne import QueryType

from ..json_object import JsonObject
from .call import Call, Info, get_call
from .paging import Node, filter_nodes, paginate_nodes, sort_nodes

NodeLoader = Callable[[Call, JsonObject], Awaitable[Sequence[Node]]]  # with further arguments of the query


def bind_list_queries(query: QueryType, name: str, load: NodeLoader, *searched: str) -> None:
    """Add the queries `name` for all rows and `nameConnection` for a page. `searched`: fields that `search` matches."""

    async def list_all(
        _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None, **args: Any
    ) -> list[Node]:
        call = get_call(info)
        return list_nodes(call, await load(call, args), where, orderBy, *searched)

    async def list_page(
        _: Any, info: Info, where: JsonObject | None = None, orderBy: JsonObject | None = None, **args: Any
    ) -> JsonObject:
        call = get_call(info)
        return paginate_filtered_nodes(call, await load(call, args), where, orderBy, args, *searched)

    query.set_field(name, list_all)
    query.set_field(f"{name}Connection", list_page)


def list_nodes(
    call: Call, nodes: Sequence[Node], where: Mapping[str, Any] | None, order: Mapping[str, Any] | None, *searched: str
) -> list[Node]:
    """`searched`: the fields that `search` matches."""
    found = sort_nodes(filter_nodes(nodes, where, *searched), order)
    call.spend_rows(len(found))
    return found


def paginate_filtered_nodes(
    call: Call,
    nodes: Sequence[Node],
    where: Mapping[str, Any] | None,
    order: Mapping[str, Any] | None,
    paging: Mapping[str, Any],
    *searched: str,
) -> JsonObject:
    page = paginate_nodes(sort_nodes(filter_nodes(nodes, where, *searched), order), paging)
    call.spend_rows(len(page["edges"]))
    return page
