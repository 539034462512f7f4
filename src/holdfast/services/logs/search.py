"""Searching a log of any size: a bounded time per call, and an offset to go on from.

Users take turns: one search of a user runs at a time, and the next slot goes to another user. Plain text has slots of
its own, so that patterns, which may use all of their time, do not delay it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.engines.base import LogSource

from ..fair_limiter import FairLimiter
from ..refusals import TooManyRequests
from . import matching as log_matching
from .first_error import ERROR_SIGNS, FIRST_ERROR
from .matching import HEADER, Hit, compile_match, hits_in, whole_lines

PIECE = 256 * 1024  # bytes searched at one time; a longer line is searched in pieces
BUDGET = 2.0  # seconds a call may take
MOST_QUERY = 1000  # characters
MAX_PATTERNS = 2  # searches at a time; each can keep a core busy
MAX_PLAIN = 4
MAX_WAITING = 5  # searches of one user, of each kind
WAIT_TIMEOUT = 10.0  # seconds
ANSWER_LIMIT = 64 * 1024 * 1024  # bytes of one answer of the search program


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


class Finder(Protocol):
    async def find(self, piece: bytes, offset: int, limit: int) -> list[Hit]: ...


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
            async with asyncio.timeout(self._budget), _finder(question) as finder:
                await walk.run(finder)
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
            data = await self._source.read(self.position, PIECE)
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
    if len(question.query) > MOST_QUERY:
        raise UserError(msg("A search may have at most {most_query} characters", most_query=MOST_QUERY), field="q")
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
        hint=msg("Nested repeats such as (a+)+ are slow; write the pattern without them, or search for plain text."),
    )


@asynccontextmanager
async def _finder(question: Question) -> AsyncIterator[Finder]:
    if not question.regex:
        yield _InThread(question)
        return
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-B", log_matching.__file__,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        limit=ANSWER_LIMIT, env={}, cwd="/",
    )  # fmt: skip
    try:
        yield await _InProgram.ask(program, question)
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


class _InThread:
    """Plain text: the time it takes grows with the piece alone. Most pieces of a long log hold no hit, and that is seen
    at a glance, without taking them apart into lines."""

    def __init__(self, question: Question) -> None:
        self._match = compile_match(question.query, regex=False, ignore_case=question.ignore_case)
        self._bytes = question.query.encode("utf-8", "surrogatepass")
        self._any_case = question.ignore_case

    async def find(self, piece: bytes, offset: int, limit: int) -> list[Hit]:
        return await asyncio.to_thread(self._find, piece, offset, limit)

    def _find(self, piece: bytes, offset: int, limit: int) -> list[Hit]:
        return list(islice(hits_in(piece, offset, self._match), limit)) if self._may_hold(piece) else []

    def _may_hold(self, piece: bytes) -> bool:
        if not self._any_case:
            return self._bytes in piece
        if not piece.isascii():
            return True  # letters of other scripts have cases that bytes do not tell
        return self._bytes.lower() in piece.lower() if self._bytes.isascii() else True


class _InProgram:
    """Patterns: in a process of their own, that is ended when the time is over. Where it is known what every hit holds,
    pieces without that are not even sent there."""

    def __init__(self, program: asyncio.subprocess.Process, signs: tuple[bytes, ...]) -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        self._stdin, self._stdout = program.stdin, program.stdout
        self._signs = signs

    @classmethod
    async def ask(cls, program: asyncio.subprocess.Process, question: Question) -> _InProgram:
        known = question.query == FIRST_ERROR and not question.ignore_case
        self = cls(program, ERROR_SIGNS if known else ())
        line = json.dumps({"query": question.query, "ignore_case": question.ignore_case})
        answer = await self._exchange(line.encode() + b"\n")
        if answer["error"] is not None:
            raise UserError(msg("This is not a pattern: {error}", error=answer["error"]), field="q")
        return self

    async def find(self, piece: bytes, offset: int, limit: int) -> list[Hit]:
        if self._signs and not await asyncio.to_thread(_holds_one, piece, self._signs):
            return []
        answer = await self._exchange(HEADER.pack(offset, len(piece), limit) + piece)
        return [Hit(*values) for values in answer]

    async def _exchange(self, message: bytes) -> Any:
        try:
            self._stdin.write(message)
            await self._stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _too_large() from None
        line = await self._stdout.readline()
        if not line:  # it ran into its memory limit
            raise _too_large()
        return json.loads(line)


def _holds_one(piece: bytes, signs: tuple[bytes, ...]) -> bool:
    return any(sign in piece for sign in signs)


def _too_large() -> UserError:
    return UserError(msg("This pattern needs too much memory"), field="q", hint=msg("Write it with smaller repeats."))
