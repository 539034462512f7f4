"""Calls of the C library that Python lacks: holes in files, syncfs, inotify, spawning without blocking."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .descriptors import closing_fd

_libc = ctypes.CDLL(None, use_errno=True)

_FALLOC_FL_KEEP_SIZE = 0x01
_FALLOC_FL_PUNCH_HOLE = 0x02

_IN_MODIFY = 0x02
_IN_MOVED_TO = 0x80
_IN_DELETE = 0x200
_INOTIFY_EVENT = struct.Struct("iIII")


def punch_hole(path: str, end: int) -> bool:
    """Free the disk space of the bytes before `end`; offsets stay. False if the filesystem does not support it."""
    fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
    if fallocate is None:
        return False
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with closing_fd(fd):
        return bool(
            fallocate(fd, _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(end)) == 0
        )


def sync_filesystem(path: str) -> None:
    """Write everything on the filesystem of `path` to disk. Blocking."""
    with closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        syncfs = getattr(_libc, "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(fd) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


# --- spawning; os.posix_spawn would block every other thread until the child executes its program ---------------------

_POSIX_SPAWN_SETSIGDEF = 0x04
_POSIX_SPAWN_SETSIGMASK = 0x08
_POSIX_SPAWN_SETSID = 0x80
_STRUCT_SIZE = 1024  # bytes; more than any C library needs for one struct
_SIGNAL_SET_SIZE = 128  # bytes of a signal set


@dataclass(frozen=True, slots=True)
class DupAction:
    """The child's descriptor `target` is our `source`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class OpenAction:
    """The child's descriptor `target` is a file."""

    target: int
    path: str
    flags: int
    mode: int = 0


def spawn_process(
    argv: Sequence[str], env: Mapping[str, str], actions: Sequence[DupAction | OpenAction], program: str = ""
) -> int:
    """Run a program, by default argv[0], in its own session with default signal handlers, and return its pid."""
    files = ctypes.create_string_buffer(_STRUCT_SIZE)
    attributes = ctypes.create_string_buffer(_STRUCT_SIZE)
    _check_error(_libc.posix_spawn_file_actions_init(files))
    try:
        for action in actions:
            _check_error(_add_action(files, action))
        _check_error(_libc.posix_spawnattr_init(attributes))
        try:
            _set_attributes(attributes)
            return _call_posix_spawn(program or argv[0], argv, env, files, attributes)
        finally:
            _libc.posix_spawnattr_destroy(attributes)
    finally:
        _libc.posix_spawn_file_actions_destroy(files)


def _add_action(files: ctypes.Array[ctypes.c_char], action: DupAction | OpenAction) -> int:
    if isinstance(action, DupAction):
        answer: int = _libc.posix_spawn_file_actions_adddup2(files, action.source, action.target)
    else:
        path = os.fsencode(action.path)
        answer = _libc.posix_spawn_file_actions_addopen(
            files, action.target, path, action.flags, ctypes.c_uint(action.mode)
        )
    return answer


def _set_attributes(attributes: ctypes.Array[ctypes.c_char]) -> None:
    every = ctypes.create_string_buffer(_SIGNAL_SET_SIZE)
    none = ctypes.create_string_buffer(_SIGNAL_SET_SIZE)
    _libc.sigfillset(every)
    _libc.sigemptyset(none)
    _check_error(
        _libc.posix_spawnattr_setflags(
            attributes, ctypes.c_short(_POSIX_SPAWN_SETSIGDEF | _POSIX_SPAWN_SETSIGMASK | _POSIX_SPAWN_SETSID)
        )
    )
    _check_error(_libc.posix_spawnattr_setsigdefault(attributes, every))
    _check_error(_libc.posix_spawnattr_setsigmask(attributes, none))


def _call_posix_spawn(
    program: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    files: ctypes.Array[ctypes.c_char],
    attributes: ctypes.Array[ctypes.c_char],
) -> int:
    pid = ctypes.c_int()
    words = _make_string_array(os.fsencode(word) for word in argv)
    settings = _make_string_array(os.fsencode(f"{name}={value}") for name, value in env.items())
    path = os.fsencode(program)
    _check_error(_libc.posix_spawn(ctypes.byref(pid), path, files, attributes, words, settings))
    return pid.value


def _make_string_array(values: Iterable[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    found = [*values, None]
    return (ctypes.c_char_p * len(found))(*found)


def _check_error(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))


class Inotify:
    """Notifications of the kernel that files in watched folders grew (inotify)."""

    def __init__(self) -> None:
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "the limit of inotify instances is reached")

    def watch(self, folder: str, *, names: bool = False) -> int | None:
        """Return the watch descriptor; None if the limit of watches is reached. `names`: also report renamed and
        deleted files."""
        mask = _IN_MODIFY | (_IN_MOVED_TO | _IN_DELETE if names else 0)
        number: int = _libc.inotify_add_watch(self.fd, os.fsencode(folder), mask)
        return number if number >= 0 else None

    def unwatch(self, number: int) -> None:
        _libc.inotify_rm_watch(self.fd, number)

    def read_changed_watches(self) -> Iterator[int]:
        """Return the watch descriptors of changed folders; -1 if events were dropped."""
        try:
            data = os.read(self.fd, 64 * 1024)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            number, _mask, _cookie, length = _INOTIFY_EVENT.unpack_from(data, offset)
            offset += _INOTIFY_EVENT.size + length
            yield number

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def close(self) -> None:
        os.close(self.fd)
        self.fd = -1
