"""What a task tells the platform by files in its folder of notes: that its command failed and it stands still, and
which debuggers wait in it.

The task may write anything there, at any time: only so much is read, nothing is followed, and what is not as it should
be is not there.
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

from ..folder_content import Notes
from ..task_folder import TaskFolder

FOLDER = "notes"
HELD = "held"
_DEBUGGER = re.compile(r"debugger-[A-Za-z0-9_-]{1,60}\.json\Z")
_MAX_NAMES = 256  # that are looked at
_MAX_DEBUGGERS = 16
_MAX_SIZE = 4096  # bytes of one note
_MAX_PATH_LENGTH = 1024
_MAX_TOKEN_LENGTH = 128
_WHYS = ("start", "breakpoint", "crash")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OLDEST, _NEWEST = 0.0, 32503680000.0  # the year 3000


def make_notes(folder: TaskFolder) -> str:
    """Whoever the task's processes run as may write there, and remove only what is theirs."""
    path = folder[FOLDER]
    with suppress(FileExistsError):
        os.mkdir(path)
    os.chmod(path, 0o1777)
    return path


def read_notes(folder: TaskFolder) -> Notes:
    try:
        fd = os.open(folder[FOLDER], _OPEN | os.O_DIRECTORY)
    except OSError:
        return Notes()
    try:
        return Notes(_read_held(fd), tuple(islice(_debuggers(fd), _MAX_DEBUGGERS)))
    finally:
        os.close(fd)


def _read_held(folder: int) -> int | None:
    found = re.fullmatch(rb"held ([0-9]{1,3})\n", _read(folder, HELD))
    code = int(found[1]) if found else 0
    return code if 0 < code < 256 else None


def _debuggers(folder: int) -> Iterator[Debugger]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _MAX_NAMES) if _DEBUGGER.match(entry.name))
    for name in names:
        with suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
            yield _debugger(name.removesuffix(".json"), json.loads(_read(folder, name)))


def _debugger(id: str, said: dict[str, Any]) -> Debugger:
    until = said["until"]
    return Debugger(
        id=id,
        pid=_number(said["pid"], 1 << 22),
        file=_text(said["file"], _MAX_PATH_LENGTH),
        line=_number(said["line"], 1 << 31),
        function=_text(said.get("function", ""), 200),
        why=said["why"] if said["why"] in _WHYS else "",
        port=_number(said["port"], 65535),
        local=said.get("local") is True,
        token=_text(said.get("token", ""), _MAX_TOKEN_LENGTH),
        since=_instant(said["since"]),
        until=None if until is None else _instant(until),
        attached=said.get("attached") is True,
        waits=said.get("waits", True) is True,
    )


def _number(value: Any, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError
    return value


def _text(value: Any, most: int) -> str:
    """Shown to people, and passed on in lines."""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise ValueError
    return value


def _instant(value: Any) -> datetime:
    if not isinstance(value, int | float) or not _OLDEST <= value <= _NEWEST:
        raise ValueError
    return datetime.fromtimestamp(value, UTC)


def _read(folder: int, name: str) -> bytes:
    """A plain file's bytes; nothing when it is anything else, or larger than any note."""
    try:
        fd = os.open(name, _OPEN, dir_fd=folder)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        plain = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_SIZE
        return os.pread(fd, _MAX_SIZE, 0) if plain else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
