"""PrimeHub's pagination: numbered pages, or rows around a cursor, which is a row's ID."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import PrimeHubError

T = TypeVar("T")

DEFAULT_PAGE_SIZE = 10  # of a page
MAX_CURSOR_PAGE_SIZE = 100  # around a cursor
MAX_PAGE_NUMBER = 10**9
MAX_SEARCH_LENGTH = 5000  # characters of a search text; no searched field is longer

Node = Mapping[str, Any]


def clamp_page_number(page: int | None) -> int:
    return min(max(page or 1, 1), MAX_PAGE_NUMBER)


def has_cursor(args: Mapping[str, Any]) -> bool:
    return args.get("page") is None and any(args.get(name) is not None for name in ("first", "last", "after", "before"))


def get_cursor_page_size(args: Mapping[str, Any]) -> int:
    asked = args.get("first") if args.get("first") is not None else args.get("last")
    if asked is None:
        return DEFAULT_PAGE_SIZE
    if not 0 <= asked <= MAX_CURSOR_PAGE_SIZE:
        raise PrimeHubError(f"first and last must be between 0 and {MAX_CURSOR_PAGE_SIZE}")
    return int(asked)


def build_numbered_page(nodes: Sequence[Node], *, page: int, total: int) -> dict[str, Any]:
    """Return a page by number. After the last one it is empty: clients stop there."""
    pages = max(1, math.ceil(total / DEFAULT_PAGE_SIZE))
    info = {"currentPage": page, "totalPage": pages, "hasNextPage": page < pages, "hasPreviousPage": page > 1}
    return _build_connection(nodes, info)


def build_cursor_page(nodes: Sequence[Node], *, more_before: bool, more_after: bool) -> dict[str, Any]:
    return _build_connection(nodes, {"hasNextPage": more_after, "hasPreviousPage": more_before})


def _build_connection(nodes: Sequence[Node], info: Mapping[str, Any]) -> dict[str, Any]:
    edges = [{"cursor": node["id"], "node": node} for node in nodes]
    ends = {"startCursor": nodes[0]["id"], "endCursor": nodes[-1]["id"]} if nodes else {}
    return {"edges": edges, "pageInfo": {**info, **ends}}


def paginate_nodes(nodes: Sequence[Node], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of a complete list, by number or around a cursor."""
    if not has_cursor(args):
        page = clamp_page_number(args.get("page"))
        return build_numbered_page(
            nodes[(page - 1) * DEFAULT_PAGE_SIZE : page * DEFAULT_PAGE_SIZE], page=page, total=len(nodes)
        )
    ids = [node["id"] for node in nodes]
    low = _find_cursor_index(ids, args.get("after")) + 1 if args.get("after") is not None else 0
    high = _find_cursor_index(ids, args.get("before")) if args.get("before") is not None else len(ids)
    high, count = max(low, high), get_cursor_page_size(args)
    if args.get("last") is not None and args.get("first") is None:
        low = max(low, high - count)
    else:
        high = min(high, low + count)
    return build_cursor_page(nodes[low:high], more_before=low > 0, more_after=high < len(ids))


def _find_cursor_index(ids: Sequence[str], cursor: str | None) -> int:
    try:
        return ids.index(cursor or "")
    except ValueError:
        raise PrimeHubError(f"Cursor {str(cursor)[:100]!r} not found") from None


# -- filters and sorting of complete lists


def parse_order(order: Mapping[str, Any] | None) -> tuple[str, bool] | None:
    """Return the first key and whether it is descending; None when there is none."""
    for key, direction in (order or {}).items():
        if direction not in ("asc", "desc"):
            raise PrimeHubError(f"orderBy.{key} must be asc or desc, not {str(direction)[:50]!r}")
        return key, direction == "desc"
    return None


def sort_nodes(nodes: Sequence[Node], order: Mapping[str, Any] | None) -> list[Node]:
    """Sort by the first key; rows without a value come last."""
    chosen = parse_order(order)
    if chosen is None:
        return list(nodes)
    key, descending = chosen
    known = [node for node in nodes if node.get(key) is not None]
    return [*sorted(known, key=_build_sort_key(key), reverse=descending), *(n for n in nodes if n.get(key) is None)]


def _build_sort_key(key: str) -> Callable[[Node], Any]:
    return lambda node: node[key]


def filter_nodes(nodes: Sequence[Node], where: Mapping[str, Any] | None, *searched: str) -> list[Node]:
    """Return the rows that match every condition; `searched` are the fields that `search` matches."""
    if any(isinstance(value, str) and len(value) > MAX_SEARCH_LENGTH for value in (where or {}).values()):
        return []
    return [
        node
        for node in nodes
        if all(_matches_condition(node, name, value, searched) for name, value in (where or {}).items())
    ]


def _matches_condition(node: Node, name: str, wanted: Any, searched: Sequence[str]) -> bool:
    if wanted is None:
        return True
    if name == "search":
        needle = str(wanted).casefold()
        return any(needle in str(node.get(each) or "").casefold() for each in searched)
    if name.endswith("_contains"):
        return str(wanted) in str(node.get(name.removesuffix("_contains")) or "")
    if name.endswith("_in"):
        return not wanted or node.get(name.removesuffix("_in")) in wanted
    return bool(node.get(name) == wanted)
