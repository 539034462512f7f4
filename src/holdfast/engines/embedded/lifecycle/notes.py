"""Notes of a task to the platform, as files in its notes folder: that its command failed and it is held, and which
debuggers wait in it.

The task may write anything there, at any time: reads are limited, no link is followed, and invalid notes are ignored.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from holdfast.core.attempt import Debugger

from ..descriptors import closing_fd
from ..folder_content import TaskNotes
from ..task_folder import TaskFolder

NOTES_FOLDER = "notes"
HELD_FILE = "held"
_DEBUGGER_FILE_PATTERN = re.compile(r"debugger-[A-Za-z0-9_-]{1,60}\.json\Z")
_MAX_NOTES = 256  # that are read
_MAX_DEBUGGERS = 16
_MAX_NOTE_SIZE = 4096  # bytes of one note
_MAX_PATH_LENGTH = 1024
_MAX_TOKEN_LENGTH = 128
_DEBUGGER_REASONS = ("start", "breakpoint", "crash")
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MIN_TIMESTAMP, _MAX_TIMESTAMP = 0.0, 32503680000.0  # the year 3000


def create_notes_folder(folder: TaskFolder) -> str:
    """Create the notes folder. All users of the task may write there, and delete only their own files."""
    path = folder[NOTES_FOLDER]
    with suppress(FileExistsError):
        os.mkdir(path)
    os.chmod(path, 0o1777)
    return path


def read_notes(folder: TaskFolder) -> TaskNotes:
    try:
        fd = os.open(folder[NOTES_FOLDER], _OPEN_FLAGS | os.O_DIRECTORY)
    except OSError:
        return TaskNotes()
    with closing_fd(fd):
        return TaskNotes(_read_held_exit_code(fd), tuple(islice(_iter_debuggers(fd), _MAX_DEBUGGERS)))


def _read_held_exit_code(folder: int) -> int | None:
    found = re.fullmatch(rb"held ([0-9]{1,3})\n", _read_note(folder, HELD_FILE))
    code = int(found[1]) if found else 0
    return code if 0 < code < 256 else None


def _iter_debuggers(folder: int) -> Iterator[Debugger]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _MAX_NOTES) if _DEBUGGER_FILE_PATTERN.match(entry.name))
    for name in names:
        with suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
            yield _parse_debugger(name.removesuffix(".json"), json.loads(_read_note(folder, name)))


def _parse_debugger(id: str, data: dict[str, Any]) -> Debugger:
    until = data["until"]
    return Debugger(
        id=id,
        pid=_parse_number(data["pid"], 1 << 22),
        file=_parse_text(data["file"], _MAX_PATH_LENGTH),
        line=_parse_number(data["line"], 1 << 31),
        function=_parse_text(data.get("function", ""), 200),
        why=data["why"] if data["why"] in _DEBUGGER_REASONS else "",
        port=_parse_number(data["port"], 65535),
        local=data.get("local") is True,
        token=_parse_text(data.get("token", ""), _MAX_TOKEN_LENGTH),
        since=_parse_time(data["since"]),
        until=None if until is None else _parse_time(until),
        attached=data.get("attached") is True,
        waits=data.get("waits", True) is True,
    )


def _parse_number(value: Any, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError
    return value


def _parse_text(value: Any, most: int) -> str:
    """Return printable text on one line."""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise ValueError
    return value


def _parse_time(value: Any) -> datetime:
    if not isinstance(value, int | float) or not _MIN_TIMESTAMP <= value <= _MAX_TIMESTAMP:
        raise ValueError
    return datetime.fromtimestamp(value, UTC)


def _read_note(folder: int, name: str) -> bytes:
    """Return the bytes of a regular file; empty if it is not one, or too large."""
    with suppress(OSError), closing_fd(os.open(name, _OPEN_FLAGS, dir_fd=folder)) as fd:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_NOTE_SIZE:
            return os.pread(fd, _MAX_NOTE_SIZE, 0)
    return b""
