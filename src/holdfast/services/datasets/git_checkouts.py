"""Checkouts on disk: the one jobs are given next, the ones that running jobs still have, and the work in between.

Below a dataset's folder: NAME (the checkout), .work-X (a clone under way), .new-X (about to be exchanged with NAME;
after a crash it may be either), .old-MICROS-X (replaced at that time), .sync.json. A job that runs keeps the checkout
that it started with, so an old one is removed only when every job that runs began well after it was replaced.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.core.messages import msg

from ..files.folder_removal import remove_folder

MARGIN = timedelta(minutes=10)  # between opening a checkout and the record that a job began
_libc = ctypes.CDLL(None, use_errno=True)
_EXCHANGE = 2
_HERE = -100  # AT_FDCWD
_STATE = ".sync.json"


def new_work(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = folder / f".work-{secrets.token_hex(8)}"
    work.mkdir(mode=0o700)
    (work / "tree").mkdir()
    (work / "tree").chmod(0o755)
    return work


def put_in_place(tree: Path, folder: Path, now: datetime) -> None:
    """Whoever opens the checkout finds the old one or the new one, whole."""
    _to_disk(tree)
    target = folder / folder.name
    mark = secrets.token_hex(8)
    fresh = folder / f".new-{mark}"
    tree.rename(fresh)
    if not os.path.lexists(target):
        fresh.rename(target)
    else:
        _exchange(fresh, target)
        fresh.rename(folder / f".old-{_micros(now)}-{mark}")
    _to_disk(folder)


def read_state(folder: Path) -> dict[str, Any]:
    """Empty when there is none, or when it cannot be read: then all is fetched again."""
    try:
        found = json.loads((folder / _STATE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_state(folder: Path, state: dict[str, Any]) -> None:
    draft = folder / f"{_STATE}.{secrets.token_hex(4)}"
    try:
        draft.write_text(json.dumps(state))
        draft.replace(folder / _STATE)
    finally:
        draft.unlink(missing_ok=True)


def has_checkout(folder: Path) -> bool:
    return (folder / folder.name).is_dir()


def set_aside(folder: Path, now: datetime) -> None:
    """A dataset's whole folder, for jobs that still run with it."""
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(f".old-{_micros(now)}-{secrets.token_hex(8)}"))


def recover(root: Path, now: datetime, stop: threading.Event) -> None:
    """After a crash: what was under way is begun anew, and what may be in use is kept for a while."""
    for folder in _folders(root):
        for entry in _entries(folder):
            if entry.name.startswith(".work-"):
                remove_folder(entry, stop)
            elif entry.name.startswith(f"{_STATE}."):
                entry.unlink(missing_ok=True)
            elif entry.name.startswith(".new-"):
                entry.rename(folder / f".old-{_micros(now)}-{entry.name.removeprefix('.new-')}")


def names(root: Path) -> list[str]:
    return [folder.name for folder in _folders(root)]


def old_ones(root: Path) -> list[Path]:
    return [entry for folder in (root, *_folders(root)) for entry in _entries(folder) if entry.name.startswith(".old-")]


def sweep(olds: Iterable[Path], before: datetime, stop: threading.Event) -> None:
    """Remove those that were replaced before that time, and the margin before it."""
    for old in olds:
        since = _since(old.name)
        if since is not None and since + MARGIN < before:
            remove_folder(old, stop)


def _since(name: str) -> datetime | None:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(name.split("-")[1]))
    except (ValueError, IndexError, OverflowError):
        return None


def _folders(root: Path) -> list[Path]:
    return [entry for entry in _entries(root) if not entry.name.startswith(".") and entry.is_dir()]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _exchange(one: Path, other: Path) -> None:
    call = getattr(_libc, "renameat2", None)  # not in every C library
    if call is not None and call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return
    code = errno.ENOSYS if call is None else ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise OSError(code, os.strerror(code), str(other))
    # A file system that cannot, such as NFS: for a moment there is none, and a task that starts just then is told so.
    between = one.with_name(f"{one.name}-between")
    other.rename(between)
    one.rename(other)
    between.rename(one)


def _to_disk(folder: Path) -> None:
    """All of its file system, so that no file of a checkout is empty after a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), msg("cannot be written to disk"), str(folder))
    finally:
        os.close(fd)


def _micros(now: datetime) -> int:
    return int(now.timestamp() * 1_000_000)
