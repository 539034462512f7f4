"""Runs programs to their ends, each in a thread.

asyncio creates its subprocesses on the event loop, which stands still until the program is loaded. On a busy machine
that takes tens of milliseconds for each.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import shutil
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock, Thread

from holdfast.engines.embedded.libc import DupAction, spawn_process

_THREAD_COUNT = 32  # programs at the same time; more wait
_TERM_TIMEOUT = 3.0  # seconds from SIGTERM until it is killed
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2  # descriptors of a program


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int  # negative: the number of the signal that killed it
    out: str
    error: str


class CommandRunner:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """End the threads, once their programs have ended. A later call starts new ones. Blocking."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    async def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        text: str,
        timeout: float,
        *,
        gently: bool = False,
        max_output: int = 0,
    ) -> CommandResult:
        """Run it with `text` as its input. OSError if it cannot be started, TimeoutError if it takes too long: then it
        is ended, as it is if the caller is cancelled. `gently`: first with SIGTERM. `max_output`: bytes of each stream
        that it can write, any number if 0."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREAD_COUNT, thread_name_prefix="slurm-commands")
        process = CommandProcess(command, env, timeout, gently, max_output)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, process.run, text)
        except asyncio.CancelledError:
            process.end()
            raise


@dataclass(slots=True)
class CommandProcess:
    command: Sequence[str]
    env: Mapping[str, str]
    timeout: float  # seconds
    gently: bool  # a killed srun would leave its job behind
    max_output: int = 0  # bytes of each stream; 0: any number
    _pidfd: int | None = None  # while it runs
    _is_over: bool = False  # it is to end
    _is_denied: bool = False  # it cannot be signalled: sudo belongs to root
    _lock: Lock = field(default_factory=Lock)  # of all

    def run(self, text: str) -> CommandResult:
        """Run it to its end. Blocking."""
        with ExitStack() as stack:
            fds = [_open_memory(stack, "input")]
            fds += [_open_memory(stack, name, self.max_output) for name in ("output", "errors")]
            os.write(fds[_INPUT], text.encode())
            os.lseek(fds[_INPUT], 0, os.SEEK_SET)
            pid = self._spawn(fds)
            ended = False
            try:
                ended = self._wait_for_end(pid)
            finally:
                status = os.waitpid(pid, os.WNOHANG if self._is_denied and not ended else 0)
                if status[0] == 0:  # it ends by itself
                    Thread(target=os.waitpid, args=(pid, 0), daemon=True, name="slurm-command-end").start()
            if not ended:
                raise TimeoutError
            code = os.waitstatus_to_exitcode(status[1])
            return CommandResult(code, _read_all(fds[_OUTPUT]), _read_all(fds[_ERRORS]))

    def end(self) -> None:
        """End it, also if it is not started yet. Does not block for long."""
        self._signal(signal.SIGTERM if self.gently else signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with self._lock:
            self._is_over = True
            if self._pidfd is not None:
                try:
                    signal.pidfd_send_signal(self._pidfd, number)
                except ProcessLookupError:
                    pass
                except PermissionError:
                    self._is_denied = True

    def _spawn(self, fds: Sequence[int]) -> int:
        program = shutil.which(self.command[0], path=self.env.get("PATH", os.defpath))
        if program is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.command[0])
        return spawn_process(self.command, self.env, [DupAction(fd, target) for target, fd in enumerate(fds)], program)

    def _wait_for_end(self, pid: int) -> bool:
        """Return whether it ended in time; it is ended otherwise."""
        with self._lock:
            pidfd = self._pidfd = os.pidfd_open(pid)
            is_over = self._is_over
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            ended = not is_over and bool(poll.poll(self.timeout * 1000))
            if not ended:
                self.end()
                if self.gently and not poll.poll(_TERM_TIMEOUT * 1000):
                    self._signal(signal.SIGKILL)
            return ended
        finally:
            with self._lock:
                os.close(pidfd)
                self._pidfd = None


def _open_memory(stack: ExitStack, name: str, max_size: int = 0) -> int:
    """`max_size`: bytes that can be written; a program that writes more gets an error. 0: any number."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, fd)
    if max_size:
        os.ftruncate(fd, max_size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return fd


def _read_all(fd: int) -> str:
    """Return what was written. The program shares the position: the size may be that of the limit."""
    return os.pread(fd, os.lseek(fd, 0, os.SEEK_CUR), 0).decode(errors="replace")
