"""A shell, a command or a file transfer: what a client sends goes into the task, what the task writes comes back."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import asyncssh

from holdfast.core.errors import UserError
from holdfast.engines.base import Command, Inside, Session, Terminal

from .flow import Gate, Inbox, SessionChannel

log = logging.getLogger(__name__)

REFUSED = 255  # exit status, as ssh's own when it cannot connect
WENT_WRONG = "Something went wrong here; the server's log tells more"
MAX_TERMINAL_SIZE = 2000  # columns, rows
MAX_VALUE_LENGTH = 200

_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_VARIABLE = re.compile(r"LANG|LANGUAGE|LC_[A-Z]{1,20}|COLORTERM|TZ")

Enter = Callable[[Command], Awaitable[tuple[Session, str]]]


class Shell(asyncssh.SSHServerSession[bytes]):
    """One channel. `enter` starts its command and knows what to say first, `clear` is open while the client takes what
    it is sent."""

    def __init__(self, enter: Enter, clear: Gate, ended: Callable[[], None]) -> None:
        self._enter = enter
        self._clear = clear
        self._ended = ended
        self._room = Gate()  # in the channel
        self._inbox = Inbox()
        self._channel: SessionChannel
        self._terminal: Terminal | None = None
        self._command = Command()
        self._session: Session | None = None
        self._work: asyncio.Task[None] | None = None

    # -- what the client asks for

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        columns, rows = _fitting(term_size[0], term_size[1])
        term = term_type if _TERM.fullmatch(term_type) else "xterm"
        self._terminal = Terminal(columns=columns, rows=rows, term=term)
        return True

    def shell_requested(self) -> bool:
        self._command = Command(env=self._variables(), terminal=self._terminal)
        return True

    def exec_requested(self, command: str) -> bool:
        if "\0" in command:
            return False
        self._command = Command(script=command, env=self._variables(), terminal=self._terminal)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._command = Command(kind=Inside.SFTP, env=self._variables())
        self._terminal = None
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._work = asyncio.create_task(self._run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._inbox.put(data, self._channel)

    def eof_received(self) -> bool:
        self._inbox.end()
        return True  # what the task writes still goes out

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        columns, rows = _fitting(width, height)
        if self._terminal is not None:
            self._terminal = Terminal(columns=columns, rows=rows, term=self._terminal.term)
            if self._session is not None:
                self._session.resize(columns, rows)

    def signal_received(self, signal: str) -> None:
        number = _SIGNALS.get(signal)
        if self._session is not None and number is not None:
            self._session.signal(number)

    def break_received(self, msec: int) -> bool:
        return False

    def pause_writing(self) -> None:
        self._room.shut()

    def resume_writing(self) -> None:
        self._room.open()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.end()
        if self._work is not None:
            self._work.cancel()
        self._ended()

    def _variables(self) -> dict[str, str]:
        """The few that tell how a terminal writes; the rest of a client's world is its own."""
        sent = {
            key.decode("ascii", "replace"): value.decode("utf-8", "replace")
            for key, value in self._channel.get_environment_bytes().items()
        }
        return {
            key: value
            for key, value in sent.items()
            if _VARIABLE.fullmatch(key) and value.isprintable() and len(value) <= MAX_VALUE_LENGTH
        }

    # -- what becomes of it

    async def _run(self) -> None:
        try:
            self._session, first = await self._enter(self._command)
        except UserError as error:
            self._refuse(error)
            return
        except Exception as error:
            log.exception("could not let somebody in by ssh", extra={"event": "internal-error", "error": repr(error)})
            self._refuse(UserError(WENT_WRONG))
            return
        try:
            with suppress(OSError):
                self._say([first] if first else [])
                self._channel.exit(await self._converse(self._session))
        finally:
            self._session.close()

    def _refuse(self, error: UserError) -> None:
        lines = [error.message, *([error.hint] if error.hint else [])]
        with suppress(OSError):  # the channel is closed
            self._say(lines)
            self._channel.exit(REFUSED)

    def _say(self, lines: Sequence[str]) -> None:
        if lines:
            self._channel.write_stderr("".join(f"holdfast: {_plain(line)}\r\n" for line in lines).encode())

    async def _converse(self, session: Session) -> int:
        """Until its command has ended and all that it wrote is on its way; its exit status."""
        if self._terminal is not None and self._terminal != self._command.terminal:
            session.resize(self._terminal.columns, self._terminal.rows)  # it was changed meanwhile
        typing = asyncio.create_task(self._pass_in(session))
        showing = [asyncio.create_task(self._pass_out(session.read, self._channel.write))]
        if self._terminal is None:
            showing.append(asyncio.create_task(self._pass_out(session.read_errors, self._channel.write_stderr)))
        try:
            status = await session.wait()
            await asyncio.gather(*showing)  # an engine ends them soon, whatever was left in the background
            return status
        finally:
            for task in (typing, *showing):
                task.cancel()
            await asyncio.gather(typing, *showing, return_exceptions=True)

    async def _pass_in(self, session: Session) -> None:
        while data := await self._inbox.take():
            await session.write(data)
        session.end_input()

    async def _pass_out(self, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], None]) -> None:
        while data := await read():
            write(data)
            await self._room.passed()
            await self._clear.passed()


def _plain(text: str) -> str:
    """For a terminal: nothing that it would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _fitting(columns: int, rows: int) -> tuple[int, int]:
    return max(1, min(columns, MAX_TERMINAL_SIZE)), max(1, min(rows, MAX_TERMINAL_SIZE))


_SIGNALS = {
    name: getattr(signal, f"SIG{name}")
    for name in ("ABRT", "ALRM", "HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2")
}
