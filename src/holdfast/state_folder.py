"""The state folder: its locks, and the files that describe the server to other programs."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from holdfast.core.conditions import Condition
from holdfast.core.errors import UserError
from holdfast.disk_space import is_disk_full_error
from holdfast.engines.base import EngineHealth

log = logging.getLogger(__name__)

MAX_LOCK_TRIES = 20
LOCK_INTERVAL = 0.02  # seconds
WRITE_INTERVAL = 0.2  # seconds between tries on a full disk


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    url: str
    pid: int
    home: Path
    started_at: datetime
    first_password: str | None = None  # of user admin; only after the first start
    health: EngineHealth | None = None
    conditions: tuple[Condition, ...] = ()
    ssh_problem: str = ""  # why the SSH gateway does not run


def find_running_server(home: Path) -> RunningServer | None:
    try:
        with open(home / "server.lock") as lock:
            if _try_lock(lock):
                return None
        data = json.loads((home / "server.json").read_text())
        started_at = datetime.fromisoformat(data["started_at"])
        return RunningServer(url=data["url"], pid=int(data["pid"]), home=home, started_at=started_at)
    except (OSError, ValueError, KeyError):
        return None  # it is starting


def create_state_folder(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as error:
        raise UserError(
            f"Cannot use {home} as the state folder: {error.strerror}",
            hint="Choose another one with HOLDFAST_HOME or --home.",
        ) from None


class StateFolderLock:
    """The lock of the process that serves this state folder."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __enter__(self) -> None:
        self.lock: IO[str] = open(self.home / "server.lock", "a")  # held while the server runs
        tries = 0
        while not _try_lock(self.lock):
            tries += 1
            if tries <= MAX_LOCK_TRIES:  # a client may be checking for a running server
                time.sleep(LOCK_INTERVAL)
                continue
            known = find_running_server(self.home)
            where = f" at {known.url} (process {known.pid})" if known else ""
            raise UserError(
                f"A Holdfast server is already running on {self.home}{where}",
                hint="Use that server, stop it with `holdfast down`, or choose another folder with HOLDFAST_HOME.",
            )

    def __exit__(self, *_: object) -> None:
        self.lock.close()


@contextmanager
def lock_files_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for shared files: a second server would delete uploads, artifacts and checkouts of the first. A
    disk without write access or locks is used without."""
    try:
        lock = open(folder / "server.lock", "a")  # noqa: SIM115 - held below
    except OSError:
        yield
        return
    with lock:
        if _is_locked_by_other(lock):
            raise UserError(
                f"Another Holdfast server uses {folder} for its shared files",
                field="files.folder",
                hint="Choose another folder with the setting files.folder, or stop that server.",
            )
        yield


def _is_locked_by_other(lock: IO[str]) -> bool:
    """Whether another server holds the lock; one that is ending gets some time."""
    for _ in range(MAX_LOCK_TRIES):
        try:
            if _try_lock(lock):
                return False
        except OSError:
            return False
        time.sleep(LOCK_INTERVAL)
    return True


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def write_server_files(notes: Mapping[Path, Mapping[str, str | int]]) -> None:
    """Write the files that describe this server. On a full disk it retries until space is free."""
    for path, data in notes.items():
        text = json.dumps(data)
        while True:
            try:
                _write_private_file(path, text)
                break
            except OSError as error:
                if not is_disk_full_error(error):
                    raise
                log.warning(
                    "could not write a server file: the disk is full", extra={"event": "disk", "file": path.name}
                )
                await asyncio.sleep(WRITE_INTERVAL)


def _write_private_file(path: Path, text: str) -> None:
    """Write atomically, readable by this user only."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def get_engine_folder(home: Path, engine: str) -> Path:
    """Return the folder with an engine's tasks and logs."""
    return home if engine == "embedded" else home / "engines" / engine


def has_job_data(home: Path) -> bool:
    """Whether it contains data of jobs: an empty database would then end running tasks."""
    return any(any((home / name).iterdir()) for name in ("tasks", "logs") if (home / name).is_dir())
