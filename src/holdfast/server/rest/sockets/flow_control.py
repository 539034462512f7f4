"""Bytes over a socket, both ways, neither faster than the other side takes them.

Bytes are binary messages; words are JSON objects in text messages. {"taken": N} says that N bytes in all were passed
on. Whoever is sent {"taken"} has at most WINDOW bytes on their way beyond that: so both sides go on reading, and answer
pings, while nobody takes what came. A client that never says it gets bytes as fast as the connection takes them. One
that sends more than WINDOW is not read until some of it is taken. {"end": true} says that no more bytes will come.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, TypeGuard

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ...sockets import Messages

WINDOW = 256 * 1024  # bytes
MAX_SIZE = 64 * 1024  # bytes of one message, its mark included
TELL_AFTER = 32 * 1024  # bytes taken, of which the other side has not been told

Words = dict[str, Any]


class Paced:
    def __init__(self, line: Messages) -> None:
        self._line = line
        self._inbox: deque[bytes] = deque()
        self._waiting = 0  # bytes in it
        self._ended = False
        self._news = asyncio.Event()
        self._last = 0  # bytes that were given out, and may not be passed on yet
        self._taken = 0  # of what came
        self._told = 0
        self._sent = 0
        self._seen: int | None = None  # of what was sent; None: the other side does not say

    # -- what comes

    async def listen(self, on_words: Callable[[Words], None]) -> None:
        """Until the other side is gone, or talks nonsense."""
        while True:
            message = await self._line.receive()
            if isinstance(message, bytes):
                self._put(message)
                while self._waiting > WINDOW:
                    await self._changed()
            else:
                self._hear(read_words(message), on_words)

    def _put(self, data: bytes) -> None:
        if data and not self._ended:
            self._inbox.append(data)
            self._waiting += len(data)
            self._news.set()

    def _hear(self, words: Words, on_words: Callable[[Words], None]) -> None:
        seen = words.get("taken")
        if is_number(seen, 0, self._sent):
            self._seen = max(self._seen or 0, seen)
        if words.get("end") is True:
            self._ended = True
        self._news.set()
        on_words(words)

    async def take(self) -> bytes:
        """What came next; empty at the end. Whoever comes back has passed on what they took before."""
        self._taken, self._last = self._taken + self._last, 0
        if self._taken - self._told >= TELL_AFTER:
            self._told = self._taken
            await self._line.send({"taken": self._taken})
        while not self._inbox and not self._ended:
            await self._changed()
        if not self._inbox:
            return b""
        data = self._inbox.popleft()
        self._waiting -= len(data)
        self._last = len(data)
        self._news.set()
        return data

    # -- what goes

    async def give(self, data: bytes, mark: bytes = b"") -> None:
        """Waits while too much is on its way. `mark` goes before each message."""
        most = MAX_SIZE - len(mark)
        for at in range(0, len(data), most):
            while self._seen is not None and self._sent - self._seen >= WINDOW:
                await self._changed()
            piece = data[at : at + most]
            self._sent += len(piece)
            await self._line.send_bytes(mark + piece)

    @property
    def clear(self) -> bool:
        """Nobody is being waited for."""
        return self._seen is None or self._sent - self._seen < WINDOW

    async def _changed(self) -> None:
        self._news.clear()
        await self._news.wait()


def read_words(message: str | bytes) -> Words:
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(msg("A text message is a JSON object; bytes go as binary messages"))
    return found


def is_number(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
