"""One task attempt's folder: its files by name, the lock on its claim, and what is read from it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .folder_content import Claim, DiskExcess, StartNote, parse_claim, parse_excess, parse_start

# Names become file and cgroup names; nothing else may come through.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z")
_FLOCK = struct.Struct("hhqqi4x")
_WHOLE_FILE = (os.SEEK_SET, 0, 0, 0)

KEPT = frozenset({"stdout", "stderr", "timeline", "first", "claim", "start", "oom", "full"})  # what remove() leaves


def is_safe_id(attempt_id: str) -> bool:
    return _SAFE.match(attempt_id) is not None


@dataclass(frozen=True, slots=True)
class TaskFolder:
    path: str

    def __getitem__(self, name: str) -> str:
        return f"{self.path}/{name}"

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def holds(self, name: str) -> bool:
        return os.path.lexists(self[name])

    def read_start(self) -> StartNote | None:
        try:
            return parse_start(os.readlink(self["start"]))
        except OSError:
            return None

    def write_start(self, note: StartNote) -> None:
        """A link and not a file: it is there whole or not at all, also after a power cut."""
        try:
            os.symlink(note.render(), self["start"])
        except FileExistsError:
            Path(self["start"]).unlink()
            os.symlink(note.render(), self["start"])

    def read_claim(self) -> Claim:
        return parse_claim(self.read_head("claim", 16 * 1024))

    def read_head(self, name: str, count: int) -> bytes:
        """The first bytes of a file; empty when there is none. Never follows a link a task may have left."""
        try:
            fd = os.open(self[name], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(fd, count, 0)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def mark_out_of_memory(self) -> None:
        """Kept beyond the control group that could tell."""
        os.close(os.open(self["oom"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def is_marked_out_of_memory(self) -> bool:
        return os.path.lexists(self["oom"])

    def mark_full(self, excess: DiskExcess) -> None:
        """It wrote too much, and is to be stopped for it. A link, as `write_start`."""
        with suppress(FileExistsError):
            os.symlink(excess.render(), self["full"])

    def read_full(self) -> DiskExcess | None:
        """What it wrote when that was too much; None: it was not."""
        try:
            return parse_excess(os.readlink(self["full"]))
        except OSError:
            return None

    def announce(self, key: str, text: str) -> None:
        """Add to the log, unless that was done under this key before. A crash may add it twice, never not at all."""
        if not is_safe_id(key) or os.path.lexists(self[f"said.{key}"]):
            return
        fd = os.open(self["stdout"], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(fd).st_size
            begun = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            os.write(fd, (f"\n{text}" if begun else text).encode("utf-8", "replace"))
        finally:
            os.close(fd)
        with suppress(FileExistsError):
            os.symlink("said", self[f"said.{key}"])

    def write_mounts(self, mounts: Sequence[tuple[str, str]]) -> None:
        """Targets as the task sees them, with their sources: whoever reads the task's files later needs them."""
        fd = os.open(self["mounts"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(fd, "w") as file:
            json.dump(mounts, file)

    def read_mounts(self) -> list[tuple[str, str]]:
        try:
            return [(str(target), str(source)) for target, source in json.loads(self.read_head("mounts", 1 << 20))]
        except (ValueError, TypeError):
            return []

    def open_claim(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self["claim"], flags, 0o600)

    def is_alive(self) -> bool:
        """Someone holds the claim. Looks without taking it, so that two who look do not disturb each other."""
        try:
            fd = os.open(self["claim"], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return is_locked(fd)
        finally:
            os.close(fd)


# Locks of the open file and not of the process: the runner inherits ours, and the kernel drops it with the runner.


def try_lock(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
    except (BlockingIOError, PermissionError):  # both are used for "someone else has it"
        return False
    return True


def is_locked(fd: int) -> bool:
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
