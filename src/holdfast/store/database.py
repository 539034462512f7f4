"""The store: one database, one writer thread and several reader threads.

Functions of this package take a connection as first argument; `read` and `write` pass it:

    page = await store.read(jobs.list_page, filter, limit=50)
    done = await store.write(jobs.insert_job, new=new)
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, exc, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from .connections import create_database_engine, get_sqlite_path, is_sqlite, parse_database_url
from .error_translation import describe_database_error, is_connection_lost, translate_database_error
from .errors import DiskFull, StoreError
from .locks import FileLock, acquire_advisory_lock, build_database_in_use_error, release_advisory_lock
from .schema import HEAD_REVISION, migrate_database, read_schema_version
from .vault import Vault, build_wrong_key_error
from .writer import QueuedWrite, Writer

P = ParamSpec("P")
T = TypeVar("T")

READER_THREADS = 4
LOCK_TIMEOUT = 2.0  # seconds; PostgreSQL needs some time to detect that the last holder of the lock died
DISK_FULL_TIMEOUT = 10.0  # seconds in total that a write waits for disk space: other writers may use freed space first
DISK_FULL_RETRY_INTERVAL = 0.05  # seconds at first; doubles with each retry
MAX_DISK_FULL_RETRY_INTERVAL = 1.0  # seconds


class Store:
    def __init__(self, url: URL, vault: Vault) -> None:
        self._url = url
        self._engine = create_database_engine(url, vault, read_only=False)
        self._read_engine = create_database_engine(url, vault, read_only=True)
        self._file_lock: FileLock | None = None
        self._exclusive = False
        self._closed = False
        self._local = threading.local()
        self._open_readers: list[Connection] = []
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="store-reader")
        self._writer = Writer(self._connect_writer)
        self._on_disk_full: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def open(cls, url: str, *, vault: Vault) -> Store:
        """Open the database; create or migrate it if needed, and verify that it belongs to this vault."""
        parsed = parse_database_url(url)
        if is_sqlite(parsed):
            _create_private_file(get_sqlite_path(parsed))
        store = cls(parsed, vault)
        try:
            store._prepare_database(vault)
        except BaseException:
            store.close_sync()
            raise
        return store

    @property
    def kind(self) -> str:
        """The database type: SQLite or PostgreSQL."""
        return "SQLite" if is_sqlite(self._url) else "PostgreSQL"

    def acquire_exclusive_lock(self, timeout: float = LOCK_TIMEOUT) -> None:
        """Lock the database until it is closed, so that no other server can use it."""
        if is_sqlite(self._url):
            self._file_lock = self._file_lock or FileLock(get_sqlite_path(self._url))
            return
        _wait_for_lock(lambda: bool(self._writer.write_sync(acquire_advisory_lock)), timeout)
        self._exclusive = True

    async def read(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn` on a read-only connection, in one snapshot of the database."""
        if self._closed:
            raise StoreError(msg("The database is closed"))
        work = functools.partial(self._read_with_retry, functools.partial(_call_with_connection, fn, args, kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def write(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn` in the writer thread; when this returns, its changes are on disk.

        `fn` may share its transaction with others and may be run a second time after a rollback: it must do nothing
        but read and write through its connection. When it raises, only its own changes are undone. StoreError: the
        database failed. If the caller is cancelled, the write may still happen. On a full disk it is retried after the
        disk-full handler has freed space.
        """
        work = functools.partial(_call_with_connection, fn, args, kwargs)
        return await self.retry_when_disk_full(lambda: self._enqueue_write(work))

    async def retry_when_disk_full(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Await `attempt`; while it fails because the disk is full, free space and retry it."""
        give_up_at, pause = time.monotonic() + DISK_FULL_TIMEOUT, DISK_FULL_RETRY_INTERVAL
        while True:
            try:
                return await attempt()
            except DiskFull:
                left = give_up_at - time.monotonic()
                if left <= 0 or self._on_disk_full is None:
                    raise
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._on_disk_full(), left)
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_DISK_FULL_RETRY_INTERVAL)

    async def write_without_retry(
        self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Like `write`, but fail at once on a full disk."""
        return await self._enqueue_write(functools.partial(_call_with_connection, fn, args, kwargs))

    async def _enqueue_write(self, work: Callable[[Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._writer.enqueue(QueuedWrite(work, future, loop))
        return await future

    def set_disk_full_handler(self, make_room: Callable[[], Awaitable[None]]) -> None:
        """Set the function to call when the disk is full, before a write is retried."""
        self._on_disk_full = make_room

    def set_batch_observer(self, tell: Callable[[int, float], None]) -> None:
        """Set the function that the writer thread calls after each commit, with the number of writes and seconds."""
        self._writer.on_batch = tell

    async def close(self) -> None:
        """Wait for queued writes, then close the database. Idempotent."""
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        """Like `close`, outside of an event loop."""
        self._closed = True
        if self._exclusive:
            self._exclusive = False
            with contextlib.suppress(StoreError):
                self._writer.write_sync(release_advisory_lock)
        self._writer.close()
        self._readers.shutdown(wait=True)
        for conn in self._open_readers:
            with contextlib.suppress(Exception):
                conn.close()
        self._open_readers.clear()
        if self._file_lock is not None:
            self._file_lock.release()
            self._file_lock = None

    # -- opening

    def _prepare_database(self, vault: Vault) -> None:
        try:
            if self._writer.write_sync(read_schema_version) != HEAD_REVISION:
                self._migrate_schema()
            self._writer.write_sync(functools.partial(_verify_vault_key, vault=vault))
        except StoreError as error:
            shown = self._url.render_as_string(hide_password=True)
            raise UserError(msg("Cannot open the database {shown}: {error}", shown=shown, error=error)) from error

    def _migrate_schema(self) -> None:
        """Migrate under the server lock, so that the tables of a running server are never changed."""
        try:
            with self._lock_for_migration():
                migrate_database(self._engine)
        except exc.DBAPIError as error:
            raise StoreError(describe_database_error(error)) from error

    @contextlib.contextmanager
    def _lock_for_migration(self) -> Iterator[None]:
        if is_sqlite(self._url):
            lock = FileLock(get_sqlite_path(self._url))
            try:
                yield
            finally:
                lock.release()
        else:
            with self._engine.connect() as conn:
                _wait_for_lock(lambda: acquire_advisory_lock(conn), LOCK_TIMEOUT)
                try:
                    yield
                finally:
                    with contextlib.suppress(exc.DBAPIError):
                        release_advisory_lock(conn)

    def _connect_writer(self) -> Connection:
        conn = self._engine.connect()
        if self._exclusive and not acquire_advisory_lock(conn):
            conn.close()
            raise StoreError(msg("Another server is now using this database"))
        conn.rollback()
        return conn

    # -- reading

    def _read_with_retry(self, work: Callable[[Connection], T]) -> T:
        """Read; when the connection is lost, retry once on a new one."""
        try:
            return self._read_once(work)
        except exc.DBAPIError as error:
            if not is_connection_lost(error):
                raise translate_database_error(error) from error
        try:
            return self._read_once(work)
        except exc.DBAPIError as error:
            raise translate_database_error(error) from error

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        conn = self._get_read_connection()
        try:
            result = work(conn)
            conn.rollback()
        except BaseException as error:
            self._discard_broken_connection(conn, error)
            raise
        return result

    def _get_read_connection(self) -> Connection:
        conn: Connection | None = getattr(self._local, "conn", None)
        if conn is None:
            conn = self._local.conn = self._read_engine.connect()
            self._open_readers.append(conn)
        return conn

    def _discard_broken_connection(self, conn: Connection, error: BaseException) -> None:
        try:
            conn.rollback()
            broken = is_connection_lost(error)
        except Exception:
            broken = True
        if broken:
            self._local.conn = None
            self._open_readers.remove(conn)
            with contextlib.suppress(Exception):
                conn.close()


def _wait_for_lock(take: Callable[[], bool], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not take():
        if time.monotonic() > deadline:
            raise build_database_in_use_error()
        time.sleep(0.05)


def _call_with_connection(
    fn: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object], conn: Connection
) -> T:
    return fn(conn, *args, **kwargs)


def _create_private_file(path: Path) -> None:
    """Create the file with mode 0600: the database contains job files and user names."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise UserError(
            msg("Cannot open the database file {path}: {error}", path=path, error=error.strerror)
        ) from error


def _verify_vault_key(conn: Connection, *, vault: Vault) -> None:
    """Reject a key of another database before anything is sealed with it."""
    known = conn.scalar(text("SELECT value FROM meta WHERE key = 'vault'"))
    if known is None:
        conn.execute(text("INSERT INTO meta (key, value) VALUES ('vault', :print)"), {"print": vault.fingerprint})
    elif known != vault.fingerprint:
        raise build_wrong_key_error(vault, msg("Cannot decrypt the secrets of this database"))
