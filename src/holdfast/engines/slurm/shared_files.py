"""Writes files to the folder that all nodes share. Blocking: runs in a thread."""

from __future__ import annotations

import os

from holdfast.engines.task_program import TaskFile

from .users.file_access import READ, give_open_file
from .users.unix_user import UnixUser


def write_file(path: str, content: TaskFile, owner: UnixUser | None = None) -> None:
    """Write a file at once, with its mode. `owner`: who gets it."""
    draft = f"{path}.{os.urandom(4).hex()}.draft"  # another server may do the same
    create_file(draft, content, owner)
    os.rename(draft, path)


def create_file(path: str, content: TaskFile, owner: UnixUser | None = None) -> None:
    """Create a file that no other program reads yet."""
    mode = content.mode & 0o700 if content.secret else content.mode
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, mode)
        data = content.encode()
        while data:
            data = data[os.write(fd, data) :]
        if owner is not None:
            give_open_file(fd, owner, READ)
    finally:
        os.close(fd)
