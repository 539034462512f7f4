"""Lists that fit into memory: filtered by a text and shown in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from .visit import Visit

T = TypeVar("T")
ROWS_PER_PAGE = 100
MAX_PAGES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[T]):
    items: tuple[T, ...]
    text: str  # filter text
    total: int  # matching items
    previous: str | None = None  # query of the previous page
    next: str | None = None


def filter_and_paginate(
    visit: Visit, items: Sequence[T], get_text: Callable[[T], str], rows: int = ROWS_PER_PAGE
) -> ListPage[T]:
    """Filter and page a list. `get_text` returns the text to search in."""
    text = visit.query.get("text", "").strip()[:200]
    found = [item for item in items if text.lower() in get_text(item).lower()] if text else list(items)
    page = visit.get_query_integer("page", MAX_PAGES) or 1
    first = (page - 1) * rows

    def build_page_query(other: int) -> str:
        return "?" + urlencode({**({"text": text} if text else {}), "page": other})

    return ListPage(
        items=tuple(found[first : first + rows]),
        text=text,
        total=len(found),
        previous=build_page_query(page - 1) if page > 1 else None,
        next=build_page_query(page + 1) if first + rows < len(found) else None,
    )
