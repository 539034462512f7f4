"""A command inside a task, on the event loop: its streams, its exit, and the helper that waits for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import termios
from contextlib import suppress

from holdfast.core.messages import msg

_READ_SIZE = 64 * 1024  # max bytes of one read
_MAX_MESSAGE_SIZE = 4096  # max bytes of one message of the helper
_QUIET_TIMEOUT = 0.5  # seconds without output after which the output of an ended command is complete
_OUTPUT_TIMEOUT = 5.0  # seconds after its exit to wait for output of its background processes
_MAX_LAST_OUTPUT_SIZE = 4 * 1024 * 1024  # bytes of that output: more than any pipe contains
_MAX_TERMINAL_SIZE = 10_000  # columns, rows
_KILLED_EXIT_CODE = 128 + signal.SIGKILL
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_TIOCSIG = 0x40045436
_REAP_INTERVAL = 0.05  # seconds


def clamp_terminal_size(size: int) -> int:
    """Clamp columns or rows to what a terminal supports."""
    return max(1, min(size, _MAX_TERMINAL_SIZE))


class OutputStream:
    """A stream that the command, and processes it started, write to."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._waiting: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until: float | None = None  # set when the command has exited
        self._left = _MAX_LAST_OUTPUT_SIZE

    async def read(self) -> bytes:
        """Return the next bytes. Only one reader at a time."""
        while self._fd >= 0 and self._left > 0:
            try:
                data = os.read(self._fd, _READ_SIZE)
            except BlockingIOError:
                if await self._wait_for_data():
                    continue
                break
            except OSError:  # a terminal that no process has open any more
                break
            if not data:
                break
            if self._until is not None:
                self._left -= len(data)
            return data
        self.close()
        return b""

    async def _wait_for_data(self) -> bool:
        if self._waiting is not None:
            raise RuntimeError(msg("the stream already has a reader"))
        waiting: asyncio.Future[bool] = self._loop.create_future()
        self._waiting = waiting
        self._loop.add_reader(self._fd, self._wake_reader, True)
        self._set_timer()
        try:
            return await waiting
        finally:
            self._waiting = None
            if self._timer is not None:
                self._timer.cancel()
            if self._fd >= 0:
                self._loop.remove_reader(self._fd)

    def _wake_reader(self, more: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(more)

    def _set_timer(self) -> None:
        if self._until is not None:
            self._timer = self._loop.call_at(
                min(self._loop.time() + _QUIET_TIMEOUT, self._until), self._wake_reader, False
            )

    def mark_command_ended(self) -> None:
        self._until = self._loop.time() + _OUTPUT_TIMEOUT
        if self._waiting is not None:
            self._set_timer()

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wake_reader(False)


class InputStream:
    """A stream that the command reads from."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._turn = asyncio.Lock()
        self._waiting: asyncio.Future[None] | None = None
        self._writers = 0
        self._ending = False

    async def write(self, data: bytes) -> None:
        self._writers += 1
        try:
            async with self._turn:
                await self._write_all(data)
        finally:
            self._writers -= 1
            if self._ending and not self._writers:
                self.close()

    async def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._fd >= 0:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await self._wait_for_space()
            except OSError:  # no process will read it
                self.close()

    async def _wait_for_space(self) -> None:
        waiting = self._waiting = self._loop.create_future()
        self._loop.add_writer(self._fd, self._wake_writer)
        try:
            await waiting
        finally:
            self._waiting = None
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    def _wake_writer(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close_after_write(self) -> None:
        self._ending = True
        if not self._writers:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wake_writer()


class HelperProcess:
    """The process outside the task that waits for the command. It exits when its socket is closed."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self.pid = pid
        self._control = control
        self._first: asyncio.Future[tuple[str, int | None]] = self._loop.create_future()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(control.fileno(), self._read_messages)

    async def read_first_message(self, timeout: float) -> tuple[str, int | None]:
        """Return its first message, with a terminal if it sends one. Empty when it exited without a message."""
        return await asyncio.wait_for(self._first, timeout)

    def _read_messages(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _MAX_MESSAGE_SIZE, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        word = data.decode("utf-8", "replace")
        if not self._first.done():
            self._first.set_result((word, fds[0] if fds else None))
        else:
            for fd in fds:
                os.close(fd)
        if word.startswith("exit "):
            self._set_exit_code(int(word[5:]))
        elif not word:
            self._set_exit_code(_KILLED_EXIT_CODE)

    def _set_exit_code(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)
        self.close()

    @property
    def is_open(self) -> bool:
        return self._control.fileno() >= 0

    def send_signal(self, number: int, group: int) -> None:
        with suppress(OSError, ValueError):
            self._control.send(b"signal %d %d" % (number, group))

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        if self.is_open:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            if not self.ended.done():
                self.ended.set_result(_KILLED_EXIT_CODE)
            self._reap()

    def _reap(self) -> None:
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0 and not self._loop.is_closed():
                self._loop.call_later(_REAP_INTERVAL, self._reap)
        except ChildProcessError:
            return


class EmbeddedSession:
    """With a terminal, `output` and `input` are two descriptors of it, and `errors` is None."""

    def __init__(
        self, helper: HelperProcess, output: int, input_: int, errors: int | None, terminal: int | None
    ) -> None:
        self._helper = helper
        self._output = OutputStream(output)
        self._input = InputStream(input_)
        self._errors = OutputStream(errors) if errors is not None else None
        self._terminal = terminal  # the same descriptor as `output`
        helper.ended.add_done_callback(self._handle_exit)

    def _handle_exit(self, _: asyncio.Future[int]) -> None:
        self._output.mark_command_ended()
        if self._errors is not None:
            self._errors.mark_command_ended()
        self._input.close()

    @property
    def helper_pid(self) -> int | None:
        """The pid of the helper while the command runs."""
        return self._helper.pid if self._helper.is_open else None

    async def read(self) -> bytes:
        return await self._output.read()

    async def read_stderr(self) -> bytes:
        return await self._errors.read() if self._errors is not None else b""

    async def write(self, data: bytes) -> None:
        await self._input.write(data)

    def close_stdin(self) -> None:
        if self._terminal is None:
            self._input.close_after_write()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None and self._output.is_open:
            with suppress(OSError):
                termios.tcsetwinsize(self._terminal, (clamp_terminal_size(rows), clamp_terminal_size(columns)))

    def send_signal(self, number: int) -> None:
        group = 0
        if self._terminal is not None and self._output.is_open:
            with suppress(OSError):
                if number in _TERMINAL_SIGNALS:
                    fcntl.ioctl(self._terminal, _TIOCSIG, number)
                    return
                group = os.tcgetpgrp(self._terminal)
        self._helper.send_signal(number, group)

    async def wait(self) -> int:
        return await asyncio.shield(self._helper.ended)

    def close(self) -> None:
        self._helper.close()
        self._input.close()
        self._output.close()
        if self._errors is not None:
            self._errors.close()
