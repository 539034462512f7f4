"""Lists of what admins look after: narrowed, in order, whole or by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .call import Call
from .paging import Node, arrange, connect, narrow

Shape = dict[str, Any]


def show_all(
    call: Call, nodes: Sequence[Node], where: Mapping[str, Any] | None, order: Mapping[str, Any] | None, *searched: str
) -> list[Node]:
    """`searched`: the fields that `search` looks into."""
    found = arrange(narrow(nodes, where, *searched), order)
    call.spend(len(found))
    return found


def show_page(
    call: Call,
    nodes: Sequence[Node],
    where: Mapping[str, Any] | None,
    order: Mapping[str, Any] | None,
    paging: Mapping[str, Any],
    *searched: str,
) -> Shape:
    page = connect(arrange(narrow(nodes, where, *searched), order), paging)
    call.spend(len(page["edges"]))
    return page
