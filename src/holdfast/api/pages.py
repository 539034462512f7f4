"""Lists and pages."""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList(Generic[T]):
    items: tuple[T, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: Annotated[str | None, "`cursor` of the next page; null: last page."] = None
