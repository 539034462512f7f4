"""Removes a folder that a hostile program has filled: any depth, any permissions, links that lead elsewhere."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from .descriptors import closing_fd


def remove_tree(path: str) -> bool:
    """Remove a folder and all below it, following no link. False if something remains.

    Folders found inside are moved up beside each other first, so that depth costs neither stack nor open files.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return _remove_non_folder(path)
    with closing_fd(top):
        _empty_folder(top)
    with suppress(OSError):
        os.rmdir(path)
    return not os.path.lexists(path)


def _remove_non_folder(path: str) -> bool:
    """Remove a file or a link instead of a folder, or a folder without permissions."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            os.chmod(path, 0o700)
            return remove_tree(path)
        os.unlink(path)
    return not os.path.lexists(path)


def _empty_folder(top: int) -> None:
    serial = 0
    stuck: set[str] = set()
    while True:
        with suppress(OSError):
            os.fchmod(top, 0o700)
        entries = [entry for entry in _list_entries(top) if entry.name not in stuck]
        if not entries:
            return
        for entry in entries:
            if _try_unlink(top, entry):
                continue
            serial = _move_nested_folders_up(top, entry.name, serial)
            try:
                os.rmdir(entry.name, dir_fd=top)
            except OSError:
                stuck.add(entry.name)


def _list_entries(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _try_unlink(parent: int, entry: os.DirEntry[str]) -> bool:
    """Return True unless it is a folder that is not empty."""
    try:
        if entry.is_dir(follow_symlinks=False):
            os.rmdir(entry.name, dir_fd=parent)
        else:
            os.unlink(entry.name, dir_fd=parent)
    except OSError:
        return False
    return True


def _make_accessible(parent: int, name: str) -> None:
    """By a descriptor: a process of another user may replace the folder by a link at any moment."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError), closing_fd(os.open(name, flags, dir_fd=parent)) as fd:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)


def _move_nested_folders_up(top: int, name: str, serial: int) -> int:
    """Empty one folder of `top`; the folders in it become folders of `top`."""
    _make_accessible(top, name)
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    except OSError:
        return serial
    with closing_fd(folder):
        for inner in _list_entries(folder):
            if not _try_unlink(folder, inner):
                serial = _move_nested_folder_up(top, folder, inner.name, serial)
    return serial


def _move_nested_folder_up(top: int, folder: int, inner: str, serial: int) -> int:
    _make_accessible(folder, inner)
    while True:
        serial += 1
        target = f".lifted-{serial}"
        with suppress(FileNotFoundError):
            os.stat(target, dir_fd=top, follow_symlinks=False)
            continue  # the task created something of that name
        with suppress(OSError):
            os.rename(inner, target, src_dir_fd=folder, dst_dir_fd=top)
        return serial
