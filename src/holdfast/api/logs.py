"""Searches in logs, and when their bytes were written."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHit:
    offset: Annotated[int, "Where the match begins in the log."]
    line_offset: Annotated[int, "Where its line begins."] = 0
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHits:
    hits: tuple[LogHit, ...] = ()
    next: Annotated[int | None, "The `start` of the next search; null: the end was reached."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece:
    start: int
    end: Annotated[int, "The offset after its last byte."]
    at: Annotated[datetime, "When these bytes were seen: written then, or shortly before."]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTimes:
    pieces: tuple[LogPiece, ...] = ()
    next: Annotated[int | None, "The `start` of the next page; null: nothing more is known."] = None
