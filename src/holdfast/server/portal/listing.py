"""Lists that are short enough to be had at once: narrowed by a text, and shown a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from .visit import Visit

T = TypeVar("T")
ROWS = 100
MAX_PAGES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    items: tuple[T, ...]
    text: str  # what it is narrowed by
    total: int  # that fit
    previous: str | None = None  # query of the page before
    next: str | None = None


def listed(visit: Visit, items: Sequence[T], words: Callable[[T], str], rows: int = ROWS) -> Listed[T]:
    """`words`: where the text is looked for."""
    asked = visit.request.query_params
    text = asked.get("text", "").strip()[:200]
    found = [item for item in items if text.lower() in words(item).lower()] if text else list(items)
    page = visit.number("page", MAX_PAGES) or 1
    first = (page - 1) * rows

    def query(other: int) -> str:
        return "?" + urlencode({**({"text": text} if text else {}), "page": other})

    return Listed(
        items=tuple(found[first : first + rows]),
        text=text,
        total=len(found),
        previous=query(page - 1) if page > 1 else None,
        next=query(page + 1) if first + rows < len(found) else None,
    )
