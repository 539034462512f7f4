"""Searching a log of any size: a bounded time per call, and an offset to go on from.

Users take turns: one search of a user runs at a time, and the next slot goes to another user. Plain text has slots of
its own, so that patterns, which may use all of their time, do not delay it. Pieces are searched in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource

from ..fair_limiter import FairLimiter
from ..refusals import TooManyRequests
from .first_error import ERROR_SIGNS, FIRST_ERROR
from .matching import Hit, Match, compile_own, compile_text, hits_in, whole_lines
from .patterns import LogPattern

T = TypeVar("T")

PIECE = 256 * 1024  # bytes searched at one time; a longer line is searched in pieces
BUDGET = 2.0  # seconds a call may take
MAX_QUERY = 1000  # characters
MAX_PATTERNS = 2  # searches at a time; each can keep a core busy
MAX_PLAIN = 4
MAX_WAITING = 5  # searches of one user, of each kind
WAIT_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Found:
    hits: tuple[Hit, ...]
    next: int | None  # where to go on; None: the end was reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    query: str
    regex: bool = False
    ignore_case: bool = False
    start: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Finder:
    find_hits: Callable[[bytes, int], Iterator[Hit]]  # in a piece, which begins at that offset of the log
    piece_size: int

    async def find(self, piece: bytes, offset: int, limit: int) -> list[Hit]:
        return await _finish_in_thread(lambda: list(islice(self.find_hits(piece, offset), limit)))


class Searches:
    def __init__(self, budget: float = BUDGET) -> None:
        self._patterns = FairLimiter(MAX_PATTERNS, max_waiting=MAX_WAITING, timeout=WAIT_TIMEOUT, refuse=_refuse)
        self._plain = FairLimiter(MAX_PLAIN, max_waiting=MAX_WAITING, timeout=WAIT_TIMEOUT, refuse=_refuse)
        self._budget = budget

    async def search(self, source: LogSource, question: Question, *, user: str) -> Found:
        """TooManyRequests when too many searches of `user` are waiting, or this one has waited for too long."""
        _check(question)
        limiter = self._patterns if question.regex else self._plain
        async with limiter.slot(user):
            return await self._run(source, question)

    async def _run(self, source: LogSource, question: Question) -> Found:
        walk = _Walk(source, question)
        try:
            async with asyncio.timeout(self._budget):
                await walk.run(await _finish_in_thread(lambda: _make_finder(question)))
        except TimeoutError:
            if walk.position <= question.start and not walk.hits:
                raise _too_slow() from None
        return Found(tuple(walk.hits), walk.next)


class _Walk:
    """One search on its way; keeps what was found when its time is over."""

    def __init__(self, source: LogSource, question: Question) -> None:
        self._source = source
        self._limit = question.limit
        self.position = question.start
        self.hits: list[Hit] = []
        self.next: int | None = question.start

    async def run(self, finder: Finder) -> None:
        size = await self._source.size()
        self.position = max(self.position, await self._source.first())
        while self.position < size:
            self.next = self.position
            data = await self._source.read(self.position, finder.piece_size)
            if not data:
                break
            piece = whole_lines(data, last=self.position + len(data) >= size)
            self.hits += await finder.find(piece, self.position, self._limit - len(self.hits))
            self.position += len(piece)
            if len(self.hits) >= self._limit:
                after = self.hits[-1].next_offset
                self.next = after if after < size else None
                return
        self.next = None


def _check(question: Question) -> None:
    if not question.query:
        raise UserError(msg("Say what to search for"), field="q")
    if len(question.query) > MAX_QUERY:
        raise UserError(msg("A search may have at most {most_query} characters", most_query=MAX_QUERY), field="q")
    if "\n" in question.query:
        raise UserError(msg("A search looks at one line at a time, so it cannot hold a line break"), field="q")


def _refuse(_by_key: bool) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many log searches are running"),
        retry_after=WAIT_TIMEOUT,
        hint=msg("Wait until your other searches have ended, and try again."),
    )


def _too_slow() -> UserError:
    return UserError(
        msg("This pattern takes too long on this log"),
        field="q",
        hint=msg("Write it with smaller repeats, or search for plain text."),
    )


async def _finish_in_thread(call: Callable[[], T]) -> T:
    """A search whose time is over keeps its slot until its thread, which cannot be ended, is done with the piece."""
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise


def _make_finder(question: Question) -> Finder:
    if not question.regex:
        return Finder(_PlainText(question).find_hits, PIECE)
    if question.query == FIRST_ERROR and not question.ignore_case:
        return Finder(_FirstError().find_hits, PIECE)
    pattern = LogPattern(question.query, ignore_case=question.ignore_case)
    return Finder(pattern.find_hits, min(PIECE, pattern.max_piece_size))


class _PlainText:
    """The time it takes grows with the piece alone. Most pieces of a long log hold no hit, and that is seen at a
    glance, without taking them apart into lines."""

    def __init__(self, question: Question) -> None:
        self._match = compile_text(question.query, ignore_case=question.ignore_case)
        self._bytes = question.query.encode("utf-8", "surrogatepass")
        self._any_case = question.ignore_case

    def find_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        return hits_in(piece, offset, self._match) if self._may_hold(piece) else iter(())

    def _may_hold(self, piece: bytes) -> bool:
        if not self._any_case:
            return self._bytes in piece
        if not piece.isascii():
            return True  # letters of other scripts have cases that bytes do not tell
        return self._bytes.lower() in piece.lower() if self._bytes.isascii() else True


class _FirstError:
    """A pattern of our own. It needs look-around, which RE2 does not have, and takes linear time."""

    def __init__(self) -> None:
        self._match: Match = compile_own(FIRST_ERROR)

    def find_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        return hits_in(piece, offset, self._match) if any(sign in piece for sign in ERROR_SIGNS) else iter(())
