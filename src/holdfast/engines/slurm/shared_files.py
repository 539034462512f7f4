"""Writes files to the folder that all nodes share. Blocking: runs in a thread."""

from __future__ import annotations

import os

from holdfast.engines.task_program import TaskFile


def write_file(path: str, content: TaskFile) -> None:
    """Write a file at once, with its mode."""
    draft = f"{path}.{os.urandom(4).hex()}.draft"  # another server may do the same
    mode = content.mode & 0o700 if content.secret else content.mode
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content.encode())
        os.fchmod(fd, mode)
    os.rename(draft, path)
