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

MAX_PENDING_CALLS = 200  # calls that have not returned


class NotResponding(Exception):
    """The call did not return in time."""


@dataclass(frozen=True, slots=True)
class _PendingCall:
    future: asyncio.Future[object]
    began: float


class HangGuard:
    def __init__(self, name: str) -> None:
        self._name = name
        self._pending_calls: dict[str, _PendingCall] = {}
        self._running_count = 0

    async def run_once_per_path(self, path: str, call: Callable[[], object], timeout: float) -> object:
        """Return the result of `call` on `path`, or of a pending call on it; None if that failed."""
        look = self._pending_calls.get(path)
        if look is None:
            look = self._pending_calls[path] = _PendingCall(
                asyncio.ensure_future(self._wait_for_call(path, call)), time.monotonic()
            )
        left = look.began + timeout - time.monotonic()
        if left <= 0:
            raise NotResponding
        try:
            async with asyncio.timeout(left):  # wait_for of Python 3.11 loses a cancellation that comes with the result
                return await asyncio.shield(look.future)
        except TimeoutError:
            raise NotResponding from None

    async def _wait_for_call(self, path: str, call: Callable[[], object]) -> object:
        try:
            with suppress(Exception):
                return await self.start_call(call)
            return None
        finally:
            self._pending_calls.pop(path, None)

    async def run_with_timeout(self, call: Callable[[], T], timeout: float) -> T:
        """Return or raise what `call` does."""
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self.start_call(call))
        except TimeoutError:
            raise NotResponding from None

    def start_call(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Return a future for the result of `call`, which may never come."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._running_count >= MAX_PENDING_CALLS:
            done.set_exception(NotResponding())
            return done
        self._running_count += 1

        def set_outcome(result: T | None, error: BaseException | None) -> None:
            self._running_count -= 1
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run_call() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as caught:
                error = caught
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(set_outcome, result, error)

        try:
            threading.Thread(target=run_call, name=self._name, daemon=True).start()
        except RuntimeError as error:  # no thread can be started
            set_outcome(None, error)
        return done
