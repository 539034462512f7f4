"""The one thread that writes. Whatever waits is done in one transaction and committed once, so that many small writes
share the price of reaching the disk; when nothing waits, a write goes through at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from holdfast.core.messages import msg

from .errors import StoreError
from .failures import describe, lost_connection, translated

log = logging.getLogger(__name__)

MAX_BATCH = 500  # writes in one transaction; bounds how long the first of them waits

Work = Callable[[Connection], Any]


@dataclass(frozen=True, slots=True)
class Write:
    work: Work
    future: asyncio.Future[Any] | concurrent.futures.Future[Any]
    loop: asyncio.AbstractEventLoop | None  # where an asyncio future lives


@dataclass(frozen=True, slots=True)
class Done:
    """How one write went: a result, or an error."""

    result: Any = None
    error: Exception | None = None


class _NotCommitted(Exception):
    """The transaction as a whole failed; no function is to blame."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Writer:
    """`connect` gives a new connection; it is asked again after an outage."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # nothing is queued after the closing mark
        self._closed = False
        self.on_batch: Callable[[int, float], None] = _ignore  # told how many writes took how many seconds
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> None:
        with self._guard:
            if self._closed:
                raise StoreError(msg("The store is closed"))
            self._queue.put(write)

    def do(self, work: Work) -> Any:
        """Write and wait, outside of any event loop."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.put(Write(work, future, None))
        return future.result()

    def close(self) -> None:
        """Finish what was queued, then stop."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        running = True
        while running:
            batch, running = self._take()
            if batch:
                self._handle(batch)
        self._drop_connection()

    def _take(self) -> tuple[list[Write], bool]:
        """All that waits; at least one, unless this is the end."""
        batch: list[Write] = []
        item = self._queue.get()
        while item is not None:
            if not item.future.cancelled():
                batch.append(item)
            if len(batch) >= MAX_BATCH:
                return batch, True
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _handle(self, batch: list[Write]) -> None:
        began = time.perf_counter()
        try:
            done = self._write(batch)
        except BaseException as error:  # whatever it is, this thread must live on and nobody may wait for ever
            log.exception("The store's writer met an unexpected error")
            self._drop_connection()
            done = [Done(error=_as_store_error(error)) for _ in batch]
        _deliver(batch, done)
        with contextlib.suppress(Exception):  # who counts them must not end this thread
            self.on_batch(len(batch), time.perf_counter() - began)

    def _write(self, batch: Sequence[Write]) -> list[Done]:
        try:
            return [Done(result) for result in self._transact(batch)]
        except _NotCommitted as failure:
            log.error("A batch of writes was not committed", extra={"reason": describe(failure.cause)})
            return [Done(error=translated(failure.cause)) for _ in batch]
        except Exception as error:
            if len(batch) == 1 and not lost_connection(error):
                return [Done(error=translated(error))]
            return [self._write_alone(write) for write in batch]

    def _write_alone(self, write: Write) -> Done:
        """One function of a failed batch gets a transaction of its own, so that only the guilty fail."""
        try:
            return Done(self._transact([write])[0])
        except _NotCommitted as failure:
            return Done(error=translated(failure.cause))
        except Exception as error:
            return Done(error=translated(error))

    def _transact(self, batch: Sequence[Write]) -> list[Any]:
        """All of it committed, or nothing: then the error of the function that failed, or _NotCommitted."""
        conn = self._begin()
        try:
            results = [write.work(conn) for write in batch]
        except BaseException as error:
            self._roll_back(conn, broken=lost_connection(error))
            raise
        try:
            conn.commit()
        except Exception as error:
            self._drop_connection()
            raise _NotCommitted(error) from error
        return results

    def _begin(self) -> Connection:
        try:
            if self._conn is None:
                self._conn = self._connect()
            self._conn.begin()
        except Exception as error:
            self._drop_connection()
            raise _NotCommitted(error) from error
        return self._conn

    def _roll_back(self, conn: Connection, *, broken: bool) -> None:
        try:
            conn.rollback()
        except Exception:
            broken = True
        if broken:
            self._drop_connection()

    def _drop_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(Exception):
                conn.close()


def _ignore(count: int, seconds: float) -> None:
    return


def _as_store_error(error: BaseException) -> StoreError:
    return StoreError(msg("The store's writer failed: {error}", error=repr(error)))


def _deliver(batch: Sequence[Write], done: Sequence[Done]) -> None:
    """One wake-up for each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, Done]]] = {}
    for write, how in zip(batch, done, strict=True):
        by_loop.setdefault(write.loop, []).append((write.future, how))
    for loop, answers in by_loop.items():
        if loop is None:
            _resolve(answers)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, answers)


def _resolve(answers: Sequence[tuple[Any, Done]]) -> None:
    for future, how in answers:
        if future.done():  # cancelled meanwhile
            continue
        if how.error is not None:
            future.set_exception(how.error)
        else:
            future.set_result(how.result)
