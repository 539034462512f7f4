"""One task attempt's folder: its files by name, the lock on its claim, and its parsed content."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from .descriptors import closing_fd
from .folder_content import Claim, DiskExcess, StartNote, parse_claim, parse_excess, parse_start_note

# Names become file and cgroup names; nothing else is allowed.
_SAFE_ID_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z")
_FLOCK_FORMAT = struct.Struct("hhqqi4x")
_WHOLE_FILE = (os.SEEK_SET, 0, 0, 0)

OUT_OF_MEMORY_FILE, KILLED_FILE = "oom", "killed"
KEPT_FILES = frozenset(
    {"stdout", "stderr", "timeline", "first", "claim", "start", "full", OUT_OF_MEMORY_FILE, KILLED_FILE}
)  # what remove() leaves


def is_safe_id(attempt_id: str) -> bool:
    return _SAFE_ID_PATTERN.match(attempt_id) is not None


@dataclass(frozen=True, slots=True)
class TaskFolder:
    path: str

    def __getitem__(self, name: str) -> str:
        return f"{self.path}/{name}"

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def has_file(self, name: str) -> bool:
        return os.path.lexists(self[name])

    def read_start_note(self) -> StartNote | None:
        try:
            return parse_start_note(os.readlink(self["start"]))
        except OSError:
            return None

    def write_start_note(self, note: StartNote) -> None:
        """Write it as a link instead of a file: it is atomic, also after a power cut."""
        try:
            os.symlink(note.to_json(), self["start"])
        except FileExistsError:
            draft = self["start.draft"]
            with suppress(FileNotFoundError):
                os.unlink(draft)
            os.symlink(note.to_json(), draft)
            os.rename(draft, self["start"])

    def read_claim(self) -> Claim:
        return parse_claim(self.read_head("claim", 16 * 1024))

    def read_head(self, name: str, count: int) -> bytes:
        """Return the first bytes of a file; empty if it does not exist. Never follows a link of the task."""
        return read_file_range(self[name], 0, count)

    def mark_out_of_memory(self) -> None:
        """Record it, since the cgroup will be removed."""
        self._create_file(OUT_OF_MEMORY_FILE)

    def mark_killed(self) -> None:
        """Record that we stop it: a sandbox that dies of it during its start cannot report the exit."""
        self._create_file(KILLED_FILE)

    def _create_file(self, name: str) -> None:
        os.close(os.open(self[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def write_disk_excess(self, excess: DiskExcess) -> None:
        """Record that it wrote too much and is stopped for it. A link, as in `write_start_note`."""
        with suppress(FileExistsError):
            os.symlink(excess.to_text(), self["full"])

    def read_disk_excess(self) -> DiskExcess | None:
        try:
            return parse_excess(os.readlink(self["full"]))
        except OSError:
            return None

    def append_log_once(self, key: str, text: str) -> None:
        """Append to the log, unless that was done under this key before. A crash may add it twice, never skip it."""
        if not is_safe_id(key) or os.path.lexists(self[f"said.{key}"]):
            return
        begun = self._has_partial_line("stdout") or self._has_partial_line("stderr")
        with closing_fd(os.open(self["stdout"], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)) as fd:
            os.write(fd, (f"\n{text}" if begun else text).encode("utf-8", "replace"))
        with suppress(FileExistsError):
            os.symlink("said", self[f"said.{key}"])

    def _has_partial_line(self, stream: str) -> bool:
        try:
            size = os.lstat(self[stream]).st_size
        except OSError:
            return False
        return size > 0 and read_file_range(self[stream], size - 1, 1) != b"\n"

    def write_mounts(self, mounts: Sequence[tuple[str, str]]) -> None:
        """Record the targets in the task with their sources, for later readers of the task's files."""
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
        """Return whether a process holds the claim, without taking it."""
        try:
            fd = os.open(self["claim"], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        with closing_fd(fd):
            return is_locked(fd)


def read_file_range(path: str, start: int, count: int) -> bytes:
    """Return up to `count` bytes; fewer at the end of the file, none if it cannot be read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError), closing_fd(os.open(path, flags)) as fd:
        return os.pread(fd, count, start)
    return b""


# Locks of the open file and not of the process: the runner inherits ours, and the kernel releases it with the runner.


def try_lock(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK_FORMAT.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
    except (BlockingIOError, PermissionError):  # both mean that another process has it
        return False
    return True


def is_locked(fd: int) -> bool:
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK_FORMAT.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
    return bool(_FLOCK_FORMAT.unpack(answer)[0] != fcntl.F_UNLCK)
