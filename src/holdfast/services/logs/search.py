"""Searching a log of any size: bounded time per call, and an offset to continue from.

One search of a user runs at a time, and slots are granted round-robin over users. Plain text has separate slots, so
slow patterns do not delay it. Pieces are searched in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource

from ..disk_work import run_to_end
from ..errors import TooManyRequests
from ..fair_limiter import FairLimiter
from .first_error import ERROR_LITERALS, FIRST_ERROR_PATTERN
from .matching import Hit, LineMatcher, compile_text_matcher, compile_trusted_matcher, iter_line_hits, trim_to_lines
from .patterns import LogPattern

PIECE_SIZE = 256 * 1024  # bytes searched at a time; a longer line is searched in pieces
SEARCH_TIMEOUT = 2.0  # seconds per call
MAX_QUERY_LENGTH = 1000  # characters
MAX_PATTERN_SEARCHES = 2  # concurrent searches; each can use a full core
MAX_TEXT_SEARCHES = 4
MAX_WAITING_SEARCHES = 5  # queued searches of one user, of each kind
WAIT_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class SearchResult:
    hits: tuple[Hit, ...]
    next: int | None  # where to continue; None: at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    query: str
    regex: bool = False
    ignore_case: bool = False
    start: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class HitFinder:
    iter_hits: Callable[[bytes, int], Iterator[Hit]]  # in a piece that starts at this offset of the log
    piece_size: int

    async def list_first_hits(self, piece: bytes, offset: int, limit: int) -> list[Hit]:
        return await run_to_end(lambda: list(islice(self.iter_hits(piece, offset), limit)))


class LogSearcher:
    def __init__(self, budget: float = SEARCH_TIMEOUT) -> None:
        self._pattern_limiter = FairLimiter(
            MAX_PATTERN_SEARCHES, max_waiting=MAX_WAITING_SEARCHES, timeout=WAIT_TIMEOUT, refuse=_build_limit_error
        )
        self._text_limiter = FairLimiter(
            MAX_TEXT_SEARCHES, max_waiting=MAX_WAITING_SEARCHES, timeout=WAIT_TIMEOUT, refuse=_build_limit_error
        )
        self._timeout = budget

    async def search_log(self, source: LogSource, question: SearchQuery, *, user: str) -> SearchResult:
        """Search a log. TooManyRequests if too many searches of `user` are queued or this one times out."""
        _validate_query(question)
        limiter = self._pattern_limiter if question.regex else self._text_limiter
        async with limiter.use_slot(user):
            return await self._run_search(source, question)

    async def _run_search(self, source: LogSource, question: SearchQuery) -> SearchResult:
        walk = _SearchScan(source, question)
        try:
            async with asyncio.timeout(self._timeout):
                await walk.run(await run_to_end(lambda: _build_finder(question)))
        except TimeoutError:
            if walk.position <= question.start and not walk.hits:
                raise _build_too_slow_error() from None
        return SearchResult(tuple(walk.hits), walk.next)


class _SearchScan:
    """A running search; keeps its hits if it times out."""

    def __init__(self, source: LogSource, question: SearchQuery) -> None:
        self._source = source
        self._limit = question.limit
        self.position = question.start
        self.hits: list[Hit] = []
        self.next: int | None = question.start

    async def run(self, finder: HitFinder) -> None:
        size = await self._source.get_size()
        self.position = max(self.position, await self._source.find_first_offset())
        while self.position < size:
            self.next = self.position
            data = await self._source.read(self.position, finder.piece_size)
            if not data:
                break
            piece = trim_to_lines(data, last=self.position + len(data) >= size)
            self.hits += await finder.list_first_hits(piece, self.position, self._limit - len(self.hits))
            self.position += len(piece)
            if len(self.hits) >= self._limit:
                after = self.hits[-1].next_offset
                self.next = after if after < size else None
                return
        self.next = None


def _validate_query(question: SearchQuery) -> None:
    if not question.query:
        raise UserError(msg("The search text is empty"), field="q")
    if len(question.query) > MAX_QUERY_LENGTH:
        raise UserError(msg("A search can have at most {max_query} characters", max_query=MAX_QUERY_LENGTH), field="q")
    if "\n" in question.query:
        raise UserError(msg("A search matches single lines, so it cannot contain a line break"), field="q")


def _build_limit_error(_by_key: bool) -> TooManyRequests:
    return TooManyRequests(
        msg("Too many log searches are running"),
        retry_after=WAIT_TIMEOUT,
        hint=msg("Wait for your other searches to finish, then try again."),
    )


def _build_too_slow_error() -> UserError:
    return UserError(
        msg("This pattern takes too long on this log"),
        field="q",
        hint=msg("Use smaller repeat counts, or search for plain text."),
    )


def _build_finder(question: SearchQuery) -> HitFinder:
    if not question.regex:
        return HitFinder(_PlainTextFinder(question).iter_hits, PIECE_SIZE)
    if question.query == FIRST_ERROR_PATTERN and not question.ignore_case:
        return HitFinder(_FirstErrorFinder().iter_hits, PIECE_SIZE)
    pattern = LogPattern(question.query, ignore_case=question.ignore_case)
    return HitFinder(pattern.iter_hits, min(PIECE_SIZE, pattern.max_piece_size))


class _PlainTextFinder:
    """Finds plain text in linear time. Pieces without a hit are skipped without splitting them into lines."""

    def __init__(self, question: SearchQuery) -> None:
        self._match = compile_text_matcher(question.query, ignore_case=question.ignore_case)
        self._query_bytes = question.query.encode("utf-8", "surrogatepass")
        self._ignore_case = question.ignore_case

    def iter_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        return iter_line_hits(piece, offset, self._match) if self._can_match(piece) else iter(())

    def _can_match(self, piece: bytes) -> bool:
        if not self._ignore_case:
            return self._query_bytes in piece
        if not piece.isascii():
            return True  # case of non-ASCII letters cannot be compared by bytes
        return self._query_bytes.lower() in piece.lower() if self._query_bytes.isascii() else True


class _FirstErrorFinder:
    """Finds the first error with a built-in pattern. It needs look-around, which RE2 lacks; it takes linear time."""

    def __init__(self) -> None:
        self._match: LineMatcher = compile_trusted_matcher(FIRST_ERROR_PATTERN)

    def iter_hits(self, piece: bytes, offset: int) -> Iterator[Hit]:
        return iter_line_hits(piece, offset, self._match) if any(sign in piece for sign in ERROR_LITERALS) else iter(())
