"""WebSocket /jobs/{ref}/tasks/{task}/exec: a command or a shell inside a task.

The first message says what to run, {"argv": [...]} or {"script": "..."} or neither for a login shell, with
{"terminal": {"columns", "rows", "term"}} for a terminal and {"env": {...}} for variables. Then stdin goes in and output
comes out as bytes, as in `paced`: of a terminal as they are; else each message begins with one byte, 1 for stdout and 2
for stderr. {"resize": [columns, rows]}, {"signal": 2} and {"end": true} (of stdin) are heard at any time. The last word
is {"exit": status}.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocketDisconnect

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.engines.base import Command, Session, Terminal

from ...sockets import until_one_ends
from ..addresses import rest_router
from .flow_control import Paced, Words, is_number, read_words
from .task_connections import TaskLine, task_socket

QUIET = 0.3  # seconds without output after which a terminal whose command has ended is let go
TIMEOUT = 30.0  # seconds for the first message
STDOUT, STDERR = b"\x01", b"\x02"
MAX_TERMINAL_SIZE = 2000  # columns, rows
LAST_SIGNAL = 31
MAX_WORDS = 4096
MAX_VARIABLES = 64
WAY = "the API"  # as the job's events name it

_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

router = rest_router()


async def serve_exec(line: TaskLine) -> None:
    command = read_command(await _first_words(line))
    entrance = await line.find()
    session = await line.services.entering.enter(await line.actor(), line.job.id, entrance.task, command, way=WAY)
    try:
        await line.welcome(entrance)
        await _Visit(line, session, command.terminal is not None).run()
    finally:
        session.close()


async def _first_words(line: TaskLine) -> Words:
    try:
        async with asyncio.timeout(TIMEOUT):
            return read_words(await line.receive())
    except TimeoutError:
        raise UserError(
            msg("Nothing was said within {patience} s", patience=f"{TIMEOUT:g}"),
            hint=msg("The first message says what to run."),
        ) from None


class _Visit:
    """One command, while somebody is at it."""

    def __init__(self, line: TaskLine, session: Session, terminal: bool) -> None:
        self._line = line
        self._session = session
        self._terminal = terminal
        self._bytes = Paced(line)
        self._moved = 0  # bytes of output

    async def run(self) -> None:
        for ended in await until_one_ends(self._bytes.listen(self._hear), self._pass_in(), self._see_out()):
            if isinstance(ended, Exception):
                raise ended

    def _hear(self, words: Words) -> None:
        size, number = words.get("resize"), words.get("signal")
        if isinstance(size, list) and len(size) == 2 and all(is_number(each, 1, MAX_TERMINAL_SIZE) for each in size):
            self._session.resize(*size)
        if is_number(number, 1, LAST_SIGNAL):
            self._session.signal(number)

    async def _pass_in(self) -> None:
        while data := await self._bytes.take():
            await self._session.write(data)
        self._session.end_input()
        await asyncio.Event().wait()  # it may go on without

    async def _see_out(self) -> None:
        """Until it has ended and all that it wrote is sent. What a command left in the background may hold its terminal
        open; without one, as with any ssh, whatever still may write is waited for."""
        outputs = [self._pass_out(self._session.read, b"" if self._terminal else STDOUT)]
        if not self._terminal:
            outputs.append(self._pass_out(self._session.read_errors, STDERR))
        async with asyncio.TaskGroup() as group:
            showing = [group.create_task(each) for each in outputs]
            status = await self._session.wait()
            while not await self._is_shown(showing):
                pass
            for task in showing:
                task.cancel()
        await self._line.send({"exit": status})

    async def _is_shown(self, showing: list[asyncio.Task[None]]) -> bool:
        moved = self._moved
        _, left = await asyncio.wait(showing, timeout=QUIET if self._terminal else None)
        return not left or (moved == self._moved and self._bytes.clear)

    async def _pass_out(self, read: Callable[[], Awaitable[bytes]], mark: bytes) -> None:
        with suppress(WebSocketDisconnect):  # whoever listens notifications
            while data := await read():
                await self._bytes.give(data, mark)
                self._moved += len(data)


# -- the first message


def read_command(words: Words) -> Command:
    argv, script, env, terminal = (words.get(key) for key in ("argv", "script", "env", "terminal"))
    if argv and script:
        raise UserError(msg("Give argv or script, not both"), field="argv")
    return Command(
        argv=_argv(argv),
        script=_text(script, "script") if script else "",
        env=_env(env),
        terminal=_terminal(terminal) if terminal is not None else None,
    )


def _argv(given: Any) -> tuple[str, ...]:
    if not isinstance(given or [], list) or len(given or ()) > MAX_WORDS:
        raise UserError(msg("argv is a list of at most {most_words} words", most_words=MAX_WORDS), field="argv")
    return tuple(_text(word, "argv") for word in given or ())


def _text(given: Any, field: str) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise UserError(msg("{field} is text without a NUL", field=field), field=field)
    return given


def _env(given: Any) -> dict[str, str]:
    if not isinstance(given or {}, dict) or len(given or ()) > MAX_VARIABLES:
        raise UserError(
            msg("env is an object of at most {most_variables} variables", most_variables=MAX_VARIABLES), field="env"
        )
    wrong = next((name for name in given or () if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise UserError(msg("{wrong} is no name of a variable", wrong=repr(wrong[:100])), field="env")
    return {name: _text(value, "env") for name, value in (given or {}).items()}


def _terminal(given: Any) -> Terminal:
    if not isinstance(given, dict):
        raise UserError(msg("terminal is an object with columns and rows"), field="terminal")
    columns, rows, term = given.get("columns", 80), given.get("rows", 24), given.get("term", "")
    if not is_number(columns, 1, MAX_TERMINAL_SIZE) or not is_number(rows, 1, MAX_TERMINAL_SIZE):
        raise UserError(
            msg("A terminal has 1 to {largest_terminal} columns and rows", largest_terminal=MAX_TERMINAL_SIZE),
            field="terminal",
        )
    known = isinstance(term, str) and _TERM.fullmatch(term)
    return Terminal(columns=columns, rows=rows, term=term if known else "xterm-256color")


router.routes.append(task_socket("/jobs/{ref}/tasks/{task}/exec", serve_exec))
