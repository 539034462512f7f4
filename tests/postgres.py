"""A private PostgreSQL for tests: a real server in a temporary folder, reached through a socket, gone when they end.

    from tests.postgres import postgres  # noqa: F401 - a fixture

`postgres` is skipped aloud where no server is installed (Debian: apt-get install postgresql).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from itertools import count
from pathlib import Path

import pytest

_START_LIMIT = 60.0  # seconds
_ROOM = 1024**3  # bytes
_PR_SET_PDEATHSIG = 1


class Postgres:
    """A running server. Each test takes a database of its own from it."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._owner = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=_roomy_memory()))
        self._names = count()
        self._process: subprocess.Popen[bytes] | None = None
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)

    def create(self) -> None:
        command = [self._programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust"]
        done = subprocess.run(
            [*command, "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._as_owner(),
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}")

    def start(self) -> None:
        options = ("listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=50", "min_wal_size=2MB")
        command = [self._programs / "postgres", "-D", self._data, "-k", self.folder]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(word for option in options for word in ("-c", option))],
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
                **self._as_owner(),
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """At once: nothing in it is worth keeping."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=30)
            self._process = None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self, template: str = "template0") -> str:
        """Its name."""
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
        return name

    def empty(self, database: str, tables: Iterable[str]) -> None:
        """Quicker than a new database."""
        self.execute("; ".join(f"DELETE FROM {table}" for table in tables), database)

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _as_owner(self) -> dict[str, object]:
        """The server refuses to run as root."""
        if self._owner is None:
            return {"cwd": self.folder}
        who = {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
        return {"cwd": self.folder, **who}

    def _wait_until_ready(self) -> None:
        import psycopg

        assert self._process is not None
        deadline = time.monotonic() + _START_LIMIT
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}") from None
                time.sleep(0.02)


@cache
def missing() -> str | None:
    """Why there can be no PostgreSQL here; None when there can."""
    if _programs() is None:
        return "no PostgreSQL server is installed (apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"the PostgreSQL driver cannot be loaded ({error})"
    if os.geteuid() == 0 and _owner() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres or nobody"
    return None


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("postgres")
    folders = [*reversed(found), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in folders if (path / "initdb").exists() and (path / "postgres").exists()), None)


def _roomy_memory() -> str | None:
    """A folder in memory where there is room: thousands of small files are slow to make and remove on disk."""
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM:
        return memory
    return None


def _owner() -> pwd.struct_passwd | None:
    """Whom to run it as; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names.get("nobody")


def _die_with_parent() -> None:
    """Even killed tests leave no server behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


@cache
def _running() -> Postgres:
    """One for all that ask, whichever module they imported the fixture into."""
    programs = _programs()
    assert programs is not None
    server = Postgres(programs)
    atexit.register(server.remove)
    atexit.register(server.stop)  # runs first
    server.create()
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    reason = missing()
    if reason is not None:
        pytest.skip(f"PostgreSQL: {reason}")
    return _running()
