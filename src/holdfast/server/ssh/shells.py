"""A shell, a command or a file transfer: relays data between a client and a task."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import asyncssh

from holdfast.core.errors import UserError
from holdfast.engines.base import ExecCommand, ExecKind, ExecSession, Terminal

from .flow_control import BufferedSession, SessionChannel, WriteGate

log = logging.getLogger(__name__)

REFUSED_STATUS = 255  # exit status; ssh uses the same when it cannot connect
INTERNAL_ERROR_MESSAGE = "Internal server error; ask an admin to check the server log"
MAX_TERMINAL_SIZE = 2000  # columns, rows
MAX_VARIABLE_LENGTH = 200

_TERM_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_VARIABLE_PATTERN = re.compile(r"LANG|LANGUAGE|LC_[A-Z]{1,20}|COLORTERM|TZ")

CommandStarter = Callable[[ExecCommand], Awaitable[tuple[ExecSession, str]]]


class ShellSession(BufferedSession, asyncssh.SSHServerSession[bytes]):
    """One channel. `enter` starts its command and returns the text to show first."""

    _channel: SessionChannel

    def __init__(self, enter: CommandStarter, clear: WriteGate, ended: Callable[[], None]) -> None:
        super().__init__(clear, ended)
        self._start_command = enter
        self._terminal: Terminal | None = None
        self._command = ExecCommand()
        self._session: ExecSession | None = None

    # -- requests of the client

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        columns, rows = _clamp_terminal_size(term_size[0], term_size[1])
        term = term_type if _TERM_PATTERN.fullmatch(term_type) else "xterm"
        self._terminal = Terminal(columns=columns, rows=rows, term=term)
        return True

    def shell_requested(self) -> bool:
        self._command = ExecCommand(env=self._filter_variables(), terminal=self._terminal)
        return True

    def exec_requested(self, command: str) -> bool:
        if "\0" in command:
            return False
        self._command = ExecCommand(script=command, env=self._filter_variables(), terminal=self._terminal)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._command = ExecCommand(kind=ExecKind.SFTP, env=self._filter_variables())
        self._terminal = None
        return subsystem == "sftp"

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        columns, rows = _clamp_terminal_size(width, height)
        if self._terminal is not None:
            self._terminal = Terminal(columns=columns, rows=rows, term=self._terminal.term)
            if self._session is not None:
                self._session.resize(columns, rows)

    def signal_received(self, signal: str) -> None:
        number = _SIGNALS.get(signal)
        if self._session is not None and number is not None:
            self._session.send_signal(number)

    def break_received(self, msec: int) -> bool:
        return False

    def _filter_variables(self) -> dict[str, str]:
        """Return the variables that affect a terminal; others of the client are not passed."""
        sent = {
            key.decode("ascii", "replace"): value.decode("utf-8", "replace")
            for key, value in self._channel.get_environment_bytes().items()
        }
        return {
            key: value
            for key, value in sent.items()
            if _VARIABLE_PATTERN.fullmatch(key) and value.isprintable() and len(value) <= MAX_VARIABLE_LENGTH
        }

    # -- the command

    async def _run(self) -> None:
        try:
            self._session, first = await self._start_command(self._command)
        except UserError as error:
            self._show_error(error)
            return
        except Exception as error:
            log.exception("ssh connection failed", extra={"event": "internal-error", "error": repr(error)})
            self._show_error(UserError(INTERNAL_ERROR_MESSAGE))
            return
        try:
            with suppress(OSError):
                self._write_lines([first] if first else [])
                self._channel.exit(await self._relay_session(self._session))
        finally:
            self._session.close()

    def _show_error(self, error: UserError) -> None:
        lines = [error.message, *([error.hint] if error.hint else [])]
        with suppress(OSError):  # the channel is closed
            self._write_lines(lines)
            self._channel.exit(REFUSED_STATUS)

    def _write_lines(self, lines: Sequence[str]) -> None:
        if lines:
            self._channel.write_stderr(
                "".join(f"holdfast: {_replace_control_characters(line)}\r\n" for line in lines).encode()
            )

    async def _relay_session(self, session: ExecSession) -> int:
        """Relay until the command has ended and its output is sent; return its exit status."""
        if self._terminal is not None and self._terminal != self._command.terminal:
            session.resize(self._terminal.columns, self._terminal.rows)  # it was resized in the meantime
        typing = asyncio.create_task(self._relay_input(session))
        showing = [asyncio.create_task(self._relay_output(session.read, self._channel.write))]
        if self._terminal is None:
            showing.append(asyncio.create_task(self._relay_output(session.read_stderr, self._channel.write_stderr)))
        try:
            status = await session.wait()
            await asyncio.gather(*showing)  # the engine ends the output soon, even with background processes
            return status
        finally:
            for task in (typing, *showing):
                task.cancel()
            await asyncio.gather(typing, *showing, return_exceptions=True)

    async def _relay_input(self, session: ExecSession) -> None:
        while data := await self._inbox.read_data():
            await session.write(data)
        session.close_stdin()


def _replace_control_characters(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _clamp_terminal_size(columns: int, rows: int) -> tuple[int, int]:
    return max(1, min(columns, MAX_TERMINAL_SIZE)), max(1, min(rows, MAX_TERMINAL_SIZE))


_SIGNALS = {
    name: getattr(signal, f"SIG{name}")
    for name in ("ABRT", "ALRM", "HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2")
}
