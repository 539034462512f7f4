"""Lists as PrimeHub gives them: pages by number, or rows around a cursor, which is a row's id."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import PhError

T = TypeVar("T")

ROWS = 10  # of a page
MAX_ROWS = 100  # around a cursor
LAST_PAGE = 10**9
MAX_LENGTH = 5000  # letters of what is looked for; nothing that lists look into has as many

Node = Mapping[str, Any]


def page_number(page: int | None) -> int:
    return min(max(page or 1, 1), LAST_PAGE)


def asks_cursor(args: Mapping[str, Any]) -> bool:
    return args.get("page") is None and any(args.get(name) is not None for name in ("first", "last", "after", "before"))


def rows_asked(args: Mapping[str, Any]) -> int:
    """How many rows around a cursor."""
    asked = args.get("first") if args.get("first") is not None else args.get("last")
    if asked is None:
        return ROWS
    if not 0 <= asked <= MAX_ROWS:
        raise PhError(f"first and last are between 0 and {MAX_ROWS}")
    return int(asked)


def numbered(nodes: Sequence[Node], *, page: int, total: int) -> dict[str, Any]:
    """A page by its number. Past the end it is empty: clients ask on until one is."""
    pages = max(1, math.ceil(total / ROWS))
    info = {"currentPage": page, "totalPage": pages, "hasNextPage": page < pages, "hasPreviousPage": page > 1}
    return _connection(nodes, info)


def around(nodes: Sequence[Node], *, more_before: bool, more_after: bool) -> dict[str, Any]:
    return _connection(nodes, {"hasNextPage": more_after, "hasPreviousPage": more_before})


def _connection(nodes: Sequence[Node], info: Mapping[str, Any]) -> dict[str, Any]:
    edges = [{"cursor": node["id"], "node": node} for node in nodes]
    ends = {"startCursor": nodes[0]["id"], "endCursor": nodes[-1]["id"]} if nodes else {}
    return {"edges": edges, "pageInfo": {**info, **ends}}


def connect(nodes: Sequence[Node], args: Mapping[str, Any]) -> dict[str, Any]:
    """A list that is all there, as a page by number or around a cursor."""
    if not asks_cursor(args):
        page = page_number(args.get("page"))
        return numbered(nodes[(page - 1) * ROWS : page * ROWS], page=page, total=len(nodes))
    ids = [node["id"] for node in nodes]
    low = _place(ids, args.get("after")) + 1 if args.get("after") is not None else 0
    high = _place(ids, args.get("before")) if args.get("before") is not None else len(ids)
    high, count = max(low, high), rows_asked(args)
    if args.get("last") is not None and args.get("first") is None:
        low = max(low, high - count)
    else:
        high = min(high, low + count)
    return around(nodes[low:high], more_before=low > 0, more_after=high < len(ids))


def _place(ids: Sequence[str], cursor: str | None) -> int:
    try:
        return ids.index(cursor or "")
    except ValueError:
        raise PhError(f"There is no row {str(cursor)[:100]!r} to begin at") from None


# -- conditions and orders of lists that are all there


def first_order(order: Mapping[str, Any] | None) -> tuple[str, bool] | None:
    """The first key and whether it is descending; None when there is none."""
    for key, direction in (order or {}).items():
        if direction not in ("asc", "desc"):
            raise PhError(f"orderBy.{key} is asc or desc, not {str(direction)[:50]!r}")
        return key, direction == "desc"
    return None


def arrange(nodes: Sequence[Node], order: Mapping[str, Any] | None) -> list[Node]:
    """Sorted by the first key; what has no value comes last."""
    chosen = first_order(order)
    if chosen is None:
        return list(nodes)
    key, descending = chosen
    known = [node for node in nodes if node.get(key) is not None]
    return [*sorted(known, key=_sortable(key), reverse=descending), *(n for n in nodes if n.get(key) is None)]


def _sortable(key: str) -> Callable[[Node], Any]:
    return lambda node: node[key]


def narrow(nodes: Sequence[Node], where: Mapping[str, Any] | None, *searched: str) -> list[Node]:
    """Rows that meet every condition; `searched` are the fields that `search` looks into."""
    if any(isinstance(value, str) and len(value) > MAX_LENGTH for value in (where or {}).values()):
        return []
    return [node for node in nodes if all(_meets(node, name, value, searched) for name, value in (where or {}).items())]


def _meets(node: Node, name: str, wanted: Any, searched: Sequence[str]) -> bool:
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
