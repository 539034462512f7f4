"""The command of a session: its environment, its terminal, and its execution."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import termios
from time import monotonic, sleep

from .system import RETRY_INTERVAL, ExecError, is_stack_dump_request, libc, read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROGRAM_FD = 5
NOT_FOUND_EXIT_CODE = 127
NOT_RUNNABLE_EXIT_CODE = 126

_ENV_TIMEOUT = 0.5  # seconds after which a command without our variable in its environment has removed it on purpose
_MAX_ENV_SIZE = 2 * 1024 * 1024  # bytes
_MAX_FD = 4096  # we begin with five descriptors and open a few more
_SIGNAL_NUMBERS = range(1, 65)
_PTMX_DEVICE = os.makedev(5, 2)
_TIOCGPTPEER = 0x5441
_TIOCSPTLCK = 0x40045431
_IUTF8 = 0o40000
_SYS_CLOSE_RANGE = 436


def build_environment(first: int, request: dict[str, Any]) -> dict[bytes, bytes]:
    """Return the environment of the task's command, where readable, with the variables of this session."""
    env: dict[bytes, bytes] = dict(request["plain_env"])
    end = monotonic() + _ENV_TIMEOUT
    found = _read_marked_environ(first, request["mark"])
    while not found and monotonic() < end:  # the command may not have been executed yet
        sleep(RETRY_INTERVAL)
        found = _read_marked_environ(first, request["mark"])
    if found:
        env.update(found)
        for name in (b"PWD", b"OLDPWD", b"SHLVL", b"_"):
            env.pop(name, None)
    env.update(request["env"])
    return env


def _read_marked_environ(first: int, mark: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the environment of the first process, or of its oldest child: the runner of an image's user has none of
    the task's variables. Empty if our variable is in neither."""
    for pid in (first, *_find_oldest_child(first)):
        found = _parse_environ(_read_environ(pid))
        if mark in found.items():
            return found
    return {}


def _find_oldest_child(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read(64).split()[:1]]
    except OSError:
        return []


def _read_environ(pid: int) -> bytes:
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return read_all(fd, _MAX_ENV_SIZE)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _parse_environ(data: bytes) -> dict[bytes, bytes]:
    """Parse /proc/PID/environ, without a truncated last variable."""
    found = {}
    for line in data.split(b"\0")[:-1]:
        name, equals, value = line.partition(b"=")
        if name and equals:
            found[name] = value
    return found


def read_working_folder(first: int) -> bytes:
    try:
        return os.readlink(b"/proc/%d/cwd" % first)
    except OSError:
        return b""


def load_server(request: dict[str, Any]) -> Callable[[int, int, bytes], None] | None:
    """Return the server to run instead of a command."""
    return __import__("sftp").serve if request["kind"] == "sftp" else None


def open_terminal(request: dict[str, Any]) -> int:
    """Open a terminal in the task as stdin, stdout and stderr, and return its master side."""
    columns, rows = request["terminal"]
    path = "/dev/pts/ptmx" if request["init"] else "/dev/ptmx"
    master = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | (os.O_NOFOLLOW if request["init"] else 0))
    found = os.fstat(master)
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != _PTMX_DEVICE:
        raise ExecError("The task cannot open a terminal: its /dev/pts was replaced.")
    fcntl.ioctl(master, _TIOCSPTLCK, b"\0\0\0\0")
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    termios.tcsetwinsize(slave, (rows, columns))
    modes = termios.tcgetattr(slave)
    modes[0] |= _IUTF8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    return master


def execute_command(
    request: dict[str, Any], env: dict[bytes, bytes], folder: bytes, serve: Callable[[int, int, bytes], None] | None
) -> None:
    code = NOT_RUNNABLE_EXIT_CODE
    try:
        for number in _SIGNAL_NUMBERS:
            libc.signal(number, None)
        os.umask(0o022)
        _close_other_fds(is_stack_dump_request(request))
        _change_folder(folder, env)
        if serve is not None:
            serve(0, 1, env.get(b"HOME", b"/"))
            code = 0
        else:
            code = _run_command(request, env)
    except BaseException as error:
        _write_error(f"holdfast: {error}\n")
    os._exit(code)


def _close_other_fds(keep_program: bool) -> None:
    first = 3
    if keep_program:
        os.set_inheritable(PROGRAM_FD, False)
        os.closerange(3, PROGRAM_FD)
        first = PROGRAM_FD + 1
    if libc.syscall(_SYS_CLOSE_RANGE, first, ctypes.c_uint(0xFFFFFFFF), 0) != 0:
        os.closerange(first, _MAX_FD)


def _change_folder(folder: bytes, env: dict[bytes, bytes]) -> None:
    for path in (folder, env.get(b"HOME", b""), b"/"):
        try:
            os.chdir(path)
        except OSError:
            continue
        return


def _run_command(request: dict[str, Any], env: dict[bytes, bytes]) -> int:
    """Execute the command; return an exit code only if that fails."""
    if is_stack_dump_request(request):
        os.execve(PROGRAM_FD, request["argv"], env)
    if request["argv"]:
        return _exec_argv(request["argv"], env)
    wanted = env.get(b"SHELL", b"")
    shells = [wanted] if wanted.startswith(b"/") else []
    shells = [path for path in (*shells, b"/bin/bash", b"/bin/sh") if os.access(path, os.X_OK)]
    if not shells:
        _write_error("holdfast: no shell found: the task has neither bash nor sh\n")
        return NOT_FOUND_EXIT_CODE
    shell = shells[0]
    if request["script"]:
        return _exec_argv([shell, b"-c", request["script"]], env)
    return _exec_argv([b"-" + os.path.basename(shell)], env, shell)


def _exec_argv(argv: list[bytes], env: dict[bytes, bytes], program: bytes = b"") -> int:
    name = program or argv[0]
    folders = [b""] if b"/" in name else [path + b"/" for path in env.get(b"PATH", b"/usr/bin:/bin").split(b":")]
    worst = errno.ENOENT
    for folder in folders if name else ():
        try:
            os.execve(folder + name, argv, env)
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script that does not name its shell
                os.execve(b"/bin/sh", [b"sh", folder + name, *argv[1:]], env)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                worst = error.errno or worst
    shown = name.decode("utf-8", "replace")
    if worst == errno.ENOENT:
        _write_error(f"holdfast: {shown}: not found\n")
        return NOT_FOUND_EXIT_CODE
    _write_error(f"holdfast: {shown}: {os.strerror(worst)}\n")
    return NOT_RUNNABLE_EXIT_CODE


def _write_error(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        return
