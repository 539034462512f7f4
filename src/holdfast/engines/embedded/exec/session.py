"""A command inside a task, as the event loop sees it: its streams, its end, and the helper that waits for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import termios
from contextlib import suppress

from holdfast.core.messages import msg

_BLOCK = 64 * 1024  # most bytes of one read
_WORD = 4096  # most bytes that the helper says at once
_QUIET = 0.5  # seconds without output after which a command that has ended has said everything
_LAST_WORDS = 5.0  # seconds after its end for which output of others to its streams is waited for
_MAX_LAST = 4 * 1024 * 1024  # bytes of it: more than lies in any pipe
_MAX_SIZE = 10_000  # columns, rows
_KILLED = 128 + signal.SIGKILL
_BY_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
_TIOCSIG = 0x40045436
_REAP_AGAIN = 0.05  # seconds


def bounded(size: int) -> int:
    """Columns or rows, as a terminal can have them."""
    return max(1, min(size, _MAX_SIZE))


class Output:
    """A stream that the command writes to, and others that it started."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._waiting: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until: float | None = None  # set when the command has ended
        self._left = _MAX_LAST

    async def read(self) -> bytes:
        """One reader at a time."""
        while self._fd >= 0 and self._left > 0:
            try:
                data = os.read(self._fd, _BLOCK)
            except BlockingIOError:
                if await self._more():
                    continue
                break
            except OSError:  # a terminal that nobody has open any more
                break
            if not data:
                break
            if self._until is not None:
                self._left -= len(data)
            return data
        self.close()
        return b""

    async def _more(self) -> bool:
        if self._waiting is not None:
            raise RuntimeError(msg("two readers of one stream"))
        waiting: asyncio.Future[bool] = self._loop.create_future()
        self._waiting = waiting
        self._loop.add_reader(self._fd, self._wake, True)
        self._set_timer()
        try:
            return await waiting
        finally:
            self._waiting = None
            if self._timer is not None:
                self._timer.cancel()
            if self._fd >= 0:
                self._loop.remove_reader(self._fd)

    def _wake(self, more: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(more)

    def _set_timer(self) -> None:
        if self._until is not None:
            self._timer = self._loop.call_at(min(self._loop.time() + _QUIET, self._until), self._wake, False)

    def command_ended(self) -> None:
        self._until = self._loop.time() + _LAST_WORDS
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
            self._wake(False)


class Input:
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
                await self._write(data)
        finally:
            self._writers -= 1
            if self._ending and not self._writers:
                self.close()

    async def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._fd >= 0:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await self._room()
            except OSError:  # nobody will read it
                self.close()

    async def _room(self) -> None:
        waiting = self._waiting = self._loop.create_future()
        self._loop.add_writer(self._fd, self._wake)
        try:
            await waiting
        finally:
            self._waiting = None
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def end(self) -> None:
        """After what is being written now."""
        self._ending = True
        if not self._writers:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wake()


class Helper:
    """The process outside the task that waits for the command. Ends when we let go of its socket."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        control.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self.pid = pid
        self._control = control
        self._first: asyncio.Future[tuple[str, int | None]] = self._loop.create_future()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(control.fileno(), self._heard)

    async def first_word(self, timeout: float) -> tuple[str, int | None]:
        """What it says first, with a terminal if it hands one over. Empty when it ended without a word."""
        return await asyncio.wait_for(self._first, timeout)

    def _heard(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _WORD, 1, socket.MSG_CMSG_CLOEXEC)
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
            self._end(int(word[5:]))
        elif not word:
            self._end(_KILLED)

    def _end(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)
        self.close()

    @property
    def is_open(self) -> bool:
        return self._control.fileno() >= 0

    def signal(self, number: int, group: int) -> None:
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
                self.ended.set_result(_KILLED)
            self._bury()

    def _bury(self) -> None:
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0 and not self._loop.is_closed():
                self._loop.call_later(_REAP_AGAIN, self._bury)
        except ChildProcessError:
            return


class EmbeddedSession:
    """With a terminal, `output` and `input` are two descriptors of it, and there are no `errors`."""

    def __init__(self, helper: Helper, output: int, input_: int, errors: int | None, terminal: int | None) -> None:
        self._helper = helper
        self._output = Output(output)
        self._input = Input(input_)
        self._errors = Output(errors) if errors is not None else None
        self._terminal = terminal  # the same descriptor as `output`
        helper.ended.add_done_callback(self._command_ended)

    def _command_ended(self, _: asyncio.Future[int]) -> None:
        self._output.command_ended()
        if self._errors is not None:
            self._errors.command_ended()
        self._input.close()

    @property
    def helper(self) -> int | None:
        """The pid of what waits for the command, while it does."""
        return self._helper.pid if self._helper.is_open else None

    async def read(self) -> bytes:
        return await self._output.read()

    async def read_errors(self) -> bytes:
        return await self._errors.read() if self._errors is not None else b""

    async def write(self, data: bytes) -> None:
        await self._input.write(data)

    def end_input(self) -> None:
        if self._terminal is None:
            self._input.end()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal is not None and self._output.is_open:
            with suppress(OSError):
                termios.tcsetwinsize(self._terminal, (bounded(rows), bounded(columns)))

    def signal(self, number: int) -> None:
        group = 0
        if self._terminal is not None and self._output.is_open:
            with suppress(OSError):
                if number in _BY_TERMINAL:
                    fcntl.ioctl(self._terminal, _TIOCSIG, number)
                    return
                group = os.tcgetpgrp(self._terminal)
        self._helper.signal(number, group)

    async def wait(self) -> int:
        return await asyncio.shield(self._helper.ended)

    def close(self) -> None:
        self._helper.close()
        self._input.close()
        self._output.close()
        if self._errors is not None:
            self._errors.close()
