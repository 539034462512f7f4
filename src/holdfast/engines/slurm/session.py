"""A command in a task on a node, on the event loop: a process of srun, its streams, its exit."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused
from holdfast.engines.embedded.exec.session import InputStream, OutputStream, clamp_terminal_size

from .session_request import MAX_WELCOME_SIZE, parse_welcome

_KILLED_EXIT_CODE = 128 + signal.SIGKILL
_HANGUP_TIMEOUT = 10.0  # seconds from SIGHUP until the command is killed
_KILL_TIMEOUT = 5.0  # seconds for srun to kill its step

SignalSender = Callable[[str, int, tuple[int, ...]], Awaitable[None]]  # session id, pid on the node, signals


class SlurmSession:
    """With a terminal, `output` and `input_` are two descriptors of it, and `errors` is None."""

    def __init__(
        self,
        session_id: str,
        process: asyncio.subprocess.Process,
        streams: tuple[int, int, int | None],
        terminal: int | None,
        send_signals: SignalSender,
        is_task_over: Callable[[], Awaitable[bool]],
        signal_srun: Callable[[int], Awaitable[None]],
        start_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        output, input_, errors = streams
        self.id = session_id
        self._process = process
        self._output = OutputStream(output)
        self._input = InputStream(input_)
        self._errors = OutputStream(errors) if errors is not None else None
        self._terminal = terminal  # the same descriptor as `output`
        self._send_signals = send_signals
        self._is_task_over = is_task_over
        self._signal_process = signal_srun
        self._start_background = start_background
        self._pid = 0  # on the node
        self._first_output = b""
        self._is_closed = False
        self.ended = asyncio.get_running_loop().create_task(self._wait_for_exit())

    async def _wait_for_exit(self) -> int:
        code = await self._process.wait()
        self._output.mark_command_ended()
        if self._errors is not None:
            self._errors.mark_command_ended()
        self._input.close()
        # Of a step that ends with its job, srun reports different codes, 0 among them.
        return _KILLED_EXIT_CODE if code < 0 or await self._is_task_over() else code

    async def read_welcome(self) -> None:
        """Wait until the command starts. ExecRefused if the node refuses it, or the step does not start."""
        data = b""
        while (welcome := parse_welcome(data, self.id)) is None:
            block = await self._output.read()
            if not block or len(data) > MAX_WELCOME_SIZE:
                raise ExecRefused(msg("Slurm did not start the session. Check that the task still runs."))
            data += block
        if welcome.refusal:
            raise ExecRefused(welcome.refusal)
        self._pid, self._first_output = welcome.pid, welcome.rest

    async def read(self) -> bytes:
        if self._first_output and not self._is_closed:
            data, self._first_output = self._first_output, b""
            return data
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
                self._start_background(self._signal_srun(signal.SIGWINCH))

    def send_signal(self, number: int) -> None:
        if self._pid and not self.ended.done():
            self._start_background(self._send(number))

    async def _send(self, *numbers: int) -> None:
        with suppress(EngineError):  # Slurm does not respond: the caller tries again, or closes the session
            await self._send_signals(self.id, self._pid, numbers)

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._input.close()
        self._output.close()
        if self._errors is not None:
            self._errors.close()
        if not self.ended.done():
            self._start_background(self._hang_up())

    async def _hang_up(self) -> None:
        """A command that ignores SIGHUP is killed: without srun it would stay until the task ends."""
        try:
            async with asyncio.timeout(_HANGUP_TIMEOUT):
                if self._pid:
                    await self._send(signal.SIGHUP, signal.SIGCONT)
                await asyncio.shield(self.ended)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Kill the command and all processes that it started. Returns once srun has exited."""
        await self._signal_srun(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), _KILL_TIMEOUT)
        except TimeoutError:
            await self._signal_srun(signal.SIGKILL)
            await asyncio.shield(self.ended)

    async def _signal_srun(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(EngineError):
                await self._signal_process(number)


def open_raw_terminal(columns: int, rows: int) -> tuple[int, int]:
    """Return both sides of a terminal for srun, which passes every byte on: the command has its own on the node."""
    ours, theirs = os.openpty()
    try:
        modes = termios.tcgetattr(theirs)
        modes[0] = modes[1] = modes[3] = 0
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        termios.tcsetwinsize(theirs, (clamp_terminal_size(rows), clamp_terminal_size(columns)))
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    return ours, theirs
