"""The store: one database, one thread that writes, a few that read.

Functions of this folder take a connection first; `read` and `write` give them one:

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

from .connections import is_sqlite, make_engine, parse_url, sqlite_path
from .errors import DiskFull, StoreError
from .failures import describe, lost_connection, translated
from .locks import FileLock, drop_advisory_lock, take_advisory_lock, taken
from .schema import HEAD, current_version, migrate
from .vault import Vault, wrong_key
from .writer import Write, Writer

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4
LOCK_TIMEOUT = 2.0  # seconds in which PostgreSQL notices that the last holder of the lock died
FULL_TIMEOUT = 10.0  # seconds that a write waits for room in all: what fills the disk may take what is freed first
FULL_RETRY_INTERVAL = 0.05  # seconds at first: it doubles
MAX_FULL_RETRY_INTERVAL = 1.0  # seconds


class Store:
    def __init__(self, url: URL, vault: Vault) -> None:
        self._url = url
        self._engine = make_engine(url, vault, read_only=False)
        self._reading = make_engine(url, vault, read_only=True)
        self._file_lock: FileLock | None = None
        self._exclusive = False
        self._closed = False
        self._local = threading.local()
        self._open_readers: list[Connection] = []
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._writer = Writer(self._connect_writer)
        self._on_full: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def open(cls, url: str, *, vault: Vault) -> Store:
        """Ready for use: made or migrated when needed, and known to belong to this vault."""
        parsed = parse_url(url)
        if is_sqlite(parsed):
            _prepare_file(sqlite_path(parsed))
        store = cls(parsed, vault)
        try:
            store._prepare(vault)
        except BaseException:
            store.close_now()
            raise
        return store

    @property
    def kind(self) -> str:
        """SQLite or PostgreSQL."""
        return "SQLite" if is_sqlite(self._url) else "PostgreSQL"

    def lock_exclusive(self, patience: float = LOCK_TIMEOUT) -> None:
        """From now on until closed, no other server may do the same with this database."""
        if is_sqlite(self._url):
            self._file_lock = self._file_lock or FileLock(sqlite_path(self._url))
            return
        _wait_for_lock(lambda: bool(self._writer.do(take_advisory_lock)), patience)
        self._exclusive = True

    async def read(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn` on a read-only connection; it sees one moment of the database."""
        if self._closed:
            raise StoreError(msg("The store is closed"))
        work = functools.partial(self._read, functools.partial(_call, fn, args, kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def write(self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn` in the writing thread; when this returns, its changes are on disk.

        `fn` may share its transaction with others and may be run a second time after a rollback: it must do nothing
        but read and write through its connection. When it raises, only its own changes are undone. StoreError: the
        database failed. If the caller is cancelled, the write may still happen. On a full disk it is tried again after
        `on_full` has made room.
        """
        work = functools.partial(_call, fn, args, kwargs)
        give_up_at, pause = time.monotonic() + FULL_TIMEOUT, FULL_RETRY_INTERVAL
        while True:
            try:
                return await self._put(work)
            except DiskFull:
                left = give_up_at - time.monotonic()
                if left <= 0 or self._on_full is None:
                    raise
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._on_full(), left)
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_FULL_RETRY_INTERVAL)

    async def write_if_room(
        self, fn: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `write`, but on a full disk it fails at once: for what nobody needs to wait for."""
        return await self._put(functools.partial(_call, fn, args, kwargs))

    async def _put(self, work: Callable[[Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._writer.put(Write(work, future, loop))
        return await future

    def on_full(self, make_room: Callable[[], Awaitable[None]]) -> None:
        """Call it when a write fails because the disk is full, before the write is tried again."""
        self._on_full = make_room

    def on_batch(self, tell: Callable[[int, float], None]) -> None:
        """Call it, in the writing thread, with how many writes went to disk together and the seconds that took."""
        self._writer.on_batch = tell

    async def close(self) -> None:
        """Wait for queued writes, then let go of the database. Calling it twice is harmless."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """The same outside of an event loop."""
        self._closed = True
        if self._exclusive:
            self._exclusive = False
            with contextlib.suppress(StoreError):
                self._writer.do(drop_advisory_lock)
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

    def _prepare(self, vault: Vault) -> None:
        try:
            if self._writer.do(current_version) != HEAD:
                self._migrate()
            self._writer.do(functools.partial(_check_vault, vault=vault))
        except StoreError as error:
            shown = self._url.render_as_string(hide_password=True)
            raise UserError(msg("Cannot open the database {shown}: {error}", shown=shown, error=error)) from error

    def _migrate(self) -> None:
        """Under the server's lock, so that no running server has its tables changed."""
        try:
            with self._lock_for_migration():
                migrate(self._engine)
        except exc.DBAPIError as error:
            raise StoreError(describe(error)) from error

    @contextlib.contextmanager
    def _lock_for_migration(self) -> Iterator[None]:
        if is_sqlite(self._url):
            lock = FileLock(sqlite_path(self._url))
            try:
                yield
            finally:
                lock.release()
        else:
            with self._engine.connect() as conn:
                _wait_for_lock(lambda: take_advisory_lock(conn), LOCK_TIMEOUT)
                try:
                    yield
                finally:
                    with contextlib.suppress(exc.DBAPIError):
                        drop_advisory_lock(conn)

    def _connect_writer(self) -> Connection:
        conn = self._engine.connect()
        if self._exclusive and not take_advisory_lock(conn):
            conn.close()
            raise StoreError(msg("Another server took over this database"))
        conn.rollback()
        return conn

    # -- reading

    def _read(self, work: Callable[[Connection], T]) -> T:
        """Tried a second time on a new connection when the old one turns out to be dead."""
        try:
            return self._read_once(work)
        except exc.DBAPIError as error:
            if not lost_connection(error):
                raise translated(error) from error
        try:
            return self._read_once(work)
        except exc.DBAPIError as error:
            raise translated(error) from error

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        conn = self._reader()
        try:
            result = work(conn)
            conn.rollback()
        except BaseException as error:
            self._give_up(conn, error)
            raise
        return result

    def _reader(self) -> Connection:
        conn: Connection | None = getattr(self._local, "conn", None)
        if conn is None:
            conn = self._local.conn = self._reading.connect()
            self._open_readers.append(conn)
        return conn

    def _give_up(self, conn: Connection, error: BaseException) -> None:
        try:
            conn.rollback()
            broken = lost_connection(error)
        except Exception:
            broken = True
        if broken:
            self._local.conn = None
            self._open_readers.remove(conn)
            with contextlib.suppress(Exception):
                conn.close()


def _wait_for_lock(take: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not take():
        if time.monotonic() > deadline:
            raise taken()
        time.sleep(0.05)


def _call(fn: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object], conn: Connection) -> T:
    return fn(conn, *args, **kwargs)


def _prepare_file(path: Path) -> None:
    """The database may hold job files and names of people: nobody else's to read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise UserError(
            msg("Cannot open the database file {path}: {strerror}", path=path, strerror=error.strerror)
        ) from error


def _check_vault(conn: Connection, *, vault: Vault) -> None:
    """Refuse a key that is not the database's before anything is sealed with it."""
    known = conn.scalar(text("SELECT value FROM meta WHERE key = 'vault'"))
    if known is None:
        conn.execute(text("INSERT INTO meta (key, value) VALUES ('vault', :print)"), {"print": vault.fingerprint})
    elif known != vault.fingerprint:
        raise wrong_key(vault, msg("The secrets of this database cannot be read"))
