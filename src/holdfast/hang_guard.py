"""Runs calls that may never return, such as on a folder whose file server is down.

Each runs in its own thread, which nothing waits for at shutdown. A path that does not respond is accessed by one thread
at a time; later callers fail at once. So it blocks nothing else.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MAX_COUNT = 200  # calls that have not returned


class NotResponding(Exception):
    """The call did not return in time."""


@dataclass(frozen=True, slots=True)
class _PendingCall:
    answer: asyncio.Future[object]
    began: float


class HangGuard:
    def __init__(self, name: str) -> None:
        self._name = name
        self._looks: dict[str, _PendingCall] = {}
        self._running = 0

    async def run_once(self, path: str, call: Callable[[], object], patience: float) -> object:
        """Return the result of `call` on `path`, or of a pending call on it; None if that failed."""
        look = self._looks.get(path)
        if look is None:
            look = self._looks[path] = _PendingCall(
                asyncio.ensure_future(self._wait_for_call(path, call)), time.monotonic()
            )
        left = look.began + patience - time.monotonic()
        if left <= 0:
            raise NotResponding
        try:
            async with asyncio.timeout(left):  # wait_for of Python 3.11 loses a cancellation that comes with the result
                return await asyncio.shield(look.answer)
        except TimeoutError:
            raise NotResponding from None

    async def _wait_for_call(self, path: str, call: Callable[[], object]) -> object:
        try:
            with suppress(Exception):
                return await self.start(call)
            return None
        finally:
            self._looks.pop(path, None)

    async def run(self, call: Callable[[], T], patience: float) -> T:
        """Return or raise what `call` does."""
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(self.start(call))
        except TimeoutError:
            raise NotResponding from None

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Return a future for the result of `call`, which may never come."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._running >= MAX_COUNT:
            done.set_exception(NotResponding())
            return done
        self._running += 1

        def settle(result: T | None, error: BaseException | None) -> None:
            self._running -= 1
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as caught:
                error = caught
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, result, error)

        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError as error:  # no thread can be started
            settle(None, error)
        return done
