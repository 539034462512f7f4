"""The writer thread. It runs all queued writes in one transaction, so that many small writes share the cost of a
commit; when nothing is queued, a write runs at once.
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

from .error_translation import describe_database_error, is_connection_lost, translate_database_error
from .errors import StoreError

log = logging.getLogger(__name__)

MAX_BATCH_SIZE = 500  # writes in one transaction; limits how long the first one waits

WriteFunction = Callable[[Connection], Any]


@dataclass(frozen=True, slots=True)
class QueuedWrite:
    work: WriteFunction
    future: asyncio.Future[Any] | concurrent.futures.Future[Any]
    loop: asyncio.AbstractEventLoop | None  # the loop of an asyncio future


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result or error of a write."""

    result: Any = None
    error: Exception | None = None


class _CommitFailed(Exception):
    """The transaction failed as a whole, not because of one function."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Writer:
    """Runs writes in one thread. `connect` opens a connection; it is called again after an outage."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._conn: Connection | None = None
        self._queue: queue.SimpleQueue[QueuedWrite | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # nothing is queued after the end marker
        self._closed = False
        self.on_batch: Callable[[int, float], None] = _ignore_batch  # called with the number of writes and the seconds
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def enqueue(self, write: QueuedWrite) -> None:
        with self._guard:
            if self._closed:
                raise StoreError(msg("The database is closed"))
            self._queue.put(write)

    def write_sync(self, work: WriteFunction) -> Any:
        """Write and wait, outside of an event loop."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.enqueue(QueuedWrite(work, future, None))
        return future.result()

    def close(self) -> None:
        """Finish queued writes, then stop."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    # -- the thread

    def _run(self) -> None:
        running = True
        while running:
            batch, running = self._take_batch()
            if batch:
                self._process_batch(batch)
        self._close_connection()

    def _take_batch(self) -> tuple[list[QueuedWrite], bool]:
        """Return all queued writes, at least one, and whether to continue."""
        batch: list[QueuedWrite] = []
        item = self._queue.get()
        while item is not None:
            if not item.future.cancelled():
                batch.append(item)
            if len(batch) >= MAX_BATCH_SIZE:
                return batch, True
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _process_batch(self, batch: list[QueuedWrite]) -> None:
        began = time.perf_counter()
        try:
            done = self._write_batch(batch)
        except BaseException as error:  # this thread must survive, and no caller may wait forever
            log.exception("Unexpected error in the database writer")
            self._close_connection()
            done = [WriteResult(error=_build_writer_error(error)) for _ in batch]
        _deliver_results(batch, done)
        with contextlib.suppress(Exception):  # an observer must not end this thread
            self.on_batch(len(batch), time.perf_counter() - began)

    def _write_batch(self, batch: Sequence[QueuedWrite]) -> list[WriteResult]:
        try:
            return [WriteResult(result) for result in self._run_transaction(batch)]
        except _CommitFailed as failure:
            log.error("A batch of writes was not committed", extra={"reason": describe_database_error(failure.cause)})
            return [WriteResult(error=translate_database_error(failure.cause)) for _ in batch]
        except Exception as error:
            if len(batch) == 1 and not is_connection_lost(error):
                return [WriteResult(error=translate_database_error(error))]
            return [self._write_alone(write) for write in batch]

    def _write_alone(self, write: QueuedWrite) -> WriteResult:
        """Run one write of a failed batch in its own transaction, so that only the faulty one fails."""
        try:
            return WriteResult(self._run_transaction([write])[0])
        except _CommitFailed as failure:
            return WriteResult(error=translate_database_error(failure.cause))
        except Exception as error:
            return WriteResult(error=translate_database_error(error))

    def _run_transaction(self, batch: Sequence[QueuedWrite]) -> list[Any]:
        """Commit all writes or none; raise the error of the function that failed, or _CommitFailed."""
        conn = self._begin_transaction()
        try:
            results = [write.work(conn) for write in batch]
        except BaseException as error:
            self._roll_back(conn, broken=is_connection_lost(error))
            raise
        try:
            conn.commit()
        except Exception as error:
            self._close_connection()
            raise _CommitFailed(error) from error
        return results

    def _begin_transaction(self) -> Connection:
        try:
            if self._conn is None:
                self._conn = self._connect()
            self._conn.begin()
        except Exception as error:
            self._close_connection()
            raise _CommitFailed(error) from error
        return self._conn

    def _roll_back(self, conn: Connection, *, broken: bool) -> None:
        try:
            conn.rollback()
        except Exception:
            broken = True
        if broken:
            self._close_connection()

    def _close_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(Exception):
                conn.close()


def _ignore_batch(count: int, seconds: float) -> None:
    return


def _build_writer_error(error: BaseException) -> StoreError:
    return StoreError(msg("The database writer failed: {error}", error=repr(error)))


def _deliver_results(batch: Sequence[QueuedWrite], done: Sequence[WriteResult]) -> None:
    """Wake up each event loop once for all its results."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Any, WriteResult]]] = {}
    for write, how in zip(batch, done, strict=True):
        by_loop.setdefault(write.loop, []).append((write.future, how))
    for loop, answers in by_loop.items():
        if loop is None:
            _resolve_futures(answers)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(_resolve_futures, answers)


def _resolve_futures(answers: Sequence[tuple[Any, WriteResult]]) -> None:
    for future, how in answers:
        if future.done():  # cancelled
            continue
        if how.error is not None:
            future.set_exception(how.error)
        else:
            future.set_result(how.result)
