"""Log search results and timestamps."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHit:
    offset: Annotated[int, "Offset of the match in the log."]
    line_offset: Annotated[int, "Offset of its line."] = 0
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHits:
    hits: tuple[LogHit, ...] = ()
    next: Annotated[int | None, "`start` of the next search; null: end of the log."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    start: int
    end: Annotated[int, "The offset after its last byte."]
    at: Annotated[datetime, "When these bytes were read: at or shortly after writing."]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTimes:
    pieces: tuple[LogChunk, ...] = ()
    next: Annotated[int | None, "`start` of the next page; null: no more data."] = None
