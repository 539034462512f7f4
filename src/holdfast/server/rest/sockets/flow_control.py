"""Bytes over a WebSocket in both directions, with flow control.

Bytes are binary messages; control messages are JSON objects in text messages. {"taken": N} acknowledges N bytes in
total. A side that gets {"taken"} has at most WINDOW_SIZE unacknowledged bytes: so both sides keep reading and answer
pings while the data is not consumed. A client that never sends it gets bytes as fast as the connection allows. One that
sends more than WINDOW_SIZE is not read until some of it is consumed. {"end": true} marks the end of the bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, TypeGuard

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ...sockets import WebSocketConnection

WINDOW_SIZE = 256 * 1024  # bytes
MAX_MESSAGE_SIZE = 64 * 1024  # bytes of one message, including its mark
ACKNOWLEDGE_SIZE = 32 * 1024  # consumed bytes without an acknowledgement

ControlMessage = dict[str, Any]


class FlowControl:
    def __init__(self, line: WebSocketConnection) -> None:
        self._socket = line
        self._inbox: deque[bytes] = deque()
        self._queued_size = 0  # bytes in the queue
        self._ended = False
        self._changed = asyncio.Event()
        self._returned_size = 0  # bytes returned to the caller, perhaps not yet passed on
        self._consumed_size = 0  # acknowledged to the other side
        self._acknowledged_size = 0
        self._sent = 0
        self._peer_acknowledged_size: int | None = None  # acknowledged by the other side; None: it does not acknowledge

    # -- receiving

    async def receive_messages(self, on_words: Callable[[ControlMessage], None]) -> None:
        """Receive until the other side disconnects, or sends an invalid message."""
        while True:
            message = await self._socket.receive()
            if isinstance(message, bytes):
                self._queue_bytes(message)
                while self._queued_size > WINDOW_SIZE:
                    await self._wait_for_change()
            else:
                self._handle_message(parse_control_message(message), on_words)

    def _queue_bytes(self, data: bytes) -> None:
        if data and not self._ended:
            self._inbox.append(data)
            self._queued_size += len(data)
            self._changed.set()

    def _handle_message(self, words: ControlMessage, on_words: Callable[[ControlMessage], None]) -> None:
        seen = words.get("taken")
        if is_integer_between(seen, 0, self._sent):
            self._peer_acknowledged_size = max(self._peer_acknowledged_size or 0, seen)
        if words.get("end") is True:
            self._ended = True
        self._changed.set()
        on_words(words)

    async def receive_bytes(self) -> bytes:
        """Return the next bytes; empty at the end. The call acknowledges the bytes of the previous one."""
        self._consumed_size, self._returned_size = self._consumed_size + self._returned_size, 0
        if self._consumed_size - self._acknowledged_size >= ACKNOWLEDGE_SIZE:
            self._acknowledged_size = self._consumed_size
            await self._socket.send({"taken": self._consumed_size})
        while not self._inbox and not self._ended:
            await self._wait_for_change()
        if not self._inbox:
            return b""
        data = self._inbox.popleft()
        self._queued_size -= len(data)
        self._returned_size = len(data)
        self._changed.set()
        return data

    # -- sending

    async def send_bytes(self, data: bytes, mark: bytes = b"") -> None:
        """Send bytes; wait while too many are unacknowledged. `mark` is put before each message."""
        most = MAX_MESSAGE_SIZE - len(mark)
        for at in range(0, len(data), most):
            while self._peer_acknowledged_size is not None and self._sent - self._peer_acknowledged_size >= WINDOW_SIZE:
                await self._wait_for_change()
            piece = data[at : at + most]
            self._sent += len(piece)
            await self._socket.send_bytes(mark + piece)

    @property
    def is_window_open(self) -> bool:
        """Whether all bytes are acknowledged."""
        return self._peer_acknowledged_size is None or self._sent - self._peer_acknowledged_size < WINDOW_SIZE

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def parse_control_message(message: str | bytes) -> ControlMessage:
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(msg("A text message must be a JSON object; send bytes as binary messages"))
    return found


def is_integer_between(value: object, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
