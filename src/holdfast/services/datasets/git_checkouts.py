"""Git checkouts on disk: the current one of each dataset, older ones that running jobs use, and clones in progress.

Below a dataset's folder: NAME (the checkout), .work-X (a clone in progress), .new-X (about to be exchanged with NAME;
after a crash it may be either), .old-MICROS-X (replaced at that time), .sync.json. A running job keeps the checkout
that it started with, so an old one is removed only when every running job started well after it was replaced.
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

START_MARGIN = timedelta(minutes=10)  # between opening a checkout and recording the start of the job
_libc = ctypes.CDLL(None, use_errno=True)
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_STATE_FILE = ".sync.json"


def create_work_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = folder / f".work-{secrets.token_hex(8)}"
    work.mkdir(mode=0o700)
    (work / "tree").mkdir()
    (work / "tree").chmod(0o755)
    return work


def replace_checkout(tree: Path, folder: Path, now: datetime) -> None:
    """Replace the checkout atomically: readers see either the old one or the new one, complete."""
    _sync_to_disk(tree)
    target = folder / folder.name
    mark = secrets.token_hex(8)
    fresh = folder / f".new-{mark}"
    tree.rename(fresh)
    if not os.path.lexists(target):
        fresh.rename(target)
    else:
        _exchange_folders(fresh, target)
        fresh.rename(folder / f".old-{_to_microseconds(now)}-{mark}")
    _sync_to_disk(folder)


def read_sync_state(folder: Path) -> dict[str, Any]:
    """Return the stored state; empty if it is missing or unreadable, which causes a new fetch."""
    try:
        found = json.loads((folder / _STATE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_sync_state(folder: Path, state: dict[str, Any]) -> None:
    draft = folder / f"{_STATE_FILE}.{secrets.token_hex(4)}"
    try:
        draft.write_text(json.dumps(state))
        draft.replace(folder / _STATE_FILE)
    finally:
        draft.unlink(missing_ok=True)


def has_checkout(folder: Path) -> bool:
    return (folder / folder.name).is_dir()


def retire_folder(folder: Path, now: datetime) -> None:
    """Rename a dataset's folder to an old one, which running jobs may still use."""
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(f".old-{_to_microseconds(now)}-{secrets.token_hex(8)}"))


def recover_folders(root: Path, now: datetime, stop: threading.Event) -> None:
    """Clean up after a crash: remove unfinished clones and keep checkouts that may be in use."""
    for folder in _list_folders(root):
        for entry in _list_entries(folder):
            if entry.name.startswith(".work-"):
                remove_folder(entry, stop)
            elif entry.name.startswith(f"{_STATE_FILE}."):
                entry.unlink(missing_ok=True)
            elif entry.name.startswith(".new-"):
                entry.rename(folder / f".old-{_to_microseconds(now)}-{entry.name.removeprefix('.new-')}")


def list_checkout_names(root: Path) -> list[str]:
    return [folder.name for folder in _list_folders(root)]


def list_old_checkouts(root: Path) -> list[Path]:
    return [
        entry
        for folder in (root, *_list_folders(root))
        for entry in _list_entries(folder)
        if entry.name.startswith(".old-")
    ]


def remove_old_checkouts(olds: Iterable[Path], before: datetime, stop: threading.Event) -> None:
    """Remove the checkouts that were replaced more than the margin before `before`."""
    for old in olds:
        since = _parse_replaced_at(old.name)
        if since is not None and since + START_MARGIN < before:
            remove_folder(old, stop)


def _parse_replaced_at(name: str) -> datetime | None:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(name.split("-")[1]))
    except (ValueError, IndexError, OverflowError):
        return None


def _list_folders(root: Path) -> list[Path]:
    return [entry for entry in _list_entries(root) if not entry.name.startswith(".") and entry.is_dir()]


def _list_entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _exchange_folders(one: Path, other: Path) -> None:
    call = getattr(_libc, "renameat2", None)  # not in every C library
    if call is not None and call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return
    code = errno.ENOSYS if call is None else ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise OSError(code, os.strerror(code), str(other))
    # Not supported by this file system (such as NFS): for a moment there is no checkout, and a starting task fails.
    between = one.with_name(f"{one.name}-between")
    other.rename(between)
    one.rename(other)
    between.rename(one)


def _sync_to_disk(folder: Path) -> None:
    """Flush the whole file system, so that no file of a checkout is empty after a power failure."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), msg("cannot be written to disk"), str(folder))
    finally:
        os.close(fd)


def _to_microseconds(now: datetime) -> int:
    return int(now.timestamp() * 1_000_000)
