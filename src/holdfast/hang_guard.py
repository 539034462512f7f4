"""Calls that may never return, such as a look at a folder whose file server is down.

Each runs in a thread of its own that nothing waits for at the end. What does not answer is asked by one thread at a
time, and whoever comes later is told at once: so it holds up nothing but itself.
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
    """It does not answer."""


@dataclass(frozen=True, slots=True)
class _Look:
    answer: asyncio.Future[object]
    began: float


class HangGuard:
    def __init__(self, name: str) -> None:
        self._name = name
        self._looks: dict[str, _Look] = {}
        self._running = 0

    async def look(self, path: str, call: Callable[[], object], patience: float) -> object:
        """What `call`, a look at `path`, returned, or that of whoever looks already; None when it could not tell."""
        look = self._looks.get(path)
        if look is None:
            look = self._looks[path] = _Look(asyncio.ensure_future(self._until_done(path, call)), time.monotonic())
        left = look.began + patience - time.monotonic()
        if left <= 0:
            raise NotResponding
        try:
            async with asyncio.timeout(left):  # wait_for of Python 3.11 loses a cancellation that comes with the answer
                return await asyncio.shield(look.answer)
        except TimeoutError:
            raise NotResponding from None

    async def _until_done(self, path: str, call: Callable[[], object]) -> object:
        try:
            with suppress(Exception):
                return await self.begin(call)
            return None
        finally:
            self._looks.pop(path, None)

    async def run(self, call: Callable[[], T], patience: float) -> T:
        """What `call` returns or raises."""
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(self.begin(call))
        except TimeoutError:
            raise NotResponding from None

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Will have what `call` returns or raises, if it ever does."""
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
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError as error:  # no more threads are to be had
            settle(None, error)
        return done
