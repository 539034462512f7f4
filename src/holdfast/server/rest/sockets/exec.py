"""WebSocket /jobs/{ref}/tasks/{task}/exec: a command or a shell in a task.

The first message sets the command, {"argv": [...]} or {"script": "..."} or neither for a login shell, with {"terminal":
{"columns", "rows", "term"}} for a terminal and {"env": {...}} for variables. Then stdin and output are sent as bytes,
see `flow_control`: with a terminal unchanged; else each message begins with one byte, 1 for stdout and 2 for stderr.
{"resize": [columns, rows]}, {"signal": 2} and {"end": true} (of stdin) are accepted at any time. The last message is
{"exit": status}.
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
from holdfast.engines.base import ExecCommand, ExecSession, Terminal

from ...sockets import run_until_first_ends
from ..routing import build_router
from .flow_control import ControlMessage, FlowControl, is_integer_between, parse_control_message
from .task_connections import TaskWebSocket, build_task_route

QUIET_TIMEOUT = 0.3  # seconds without output after which the terminal of an ended command is closed
FIRST_MESSAGE_TIMEOUT = 30.0  # seconds for the first message
STDOUT, STDERR = b"\x01", b"\x02"
MAX_TERMINAL_SIZE = 2000  # columns, rows
MAX_SIGNAL_NUMBER = 31
MAX_ARGUMENTS = 4096
MAX_VARIABLES = 64
SESSION_SOURCE = "the API"  # name in the job's events

_TERM_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

router = build_router()


async def serve_exec(line: TaskWebSocket) -> None:
    command = parse_command(await _receive_command(line))
    entrance = await line.find_target()
    session = await line.services.task_access.open_session(
        await line.get_actor(), line.job.id, entrance.task, command, way=SESSION_SOURCE
    )
    try:
        await line.send_welcome(entrance)
        await _ExecRelay(line, session, command.terminal is not None).run()
    finally:
        session.close()


async def _receive_command(line: TaskWebSocket) -> ControlMessage:
    try:
        async with asyncio.timeout(FIRST_MESSAGE_TIMEOUT):
            return parse_control_message(await line.receive())
    except TimeoutError:
        raise UserError(
            msg("Timed out after {timeout} s without a first message", timeout=f"{FIRST_MESSAGE_TIMEOUT:g}"),
            hint=msg("Send the command to run as the first message."),
        ) from None


class _ExecRelay:
    """One running command with its client."""

    def __init__(self, line: TaskWebSocket, session: ExecSession, terminal: bool) -> None:
        self._socket = line
        self._session = session
        self._terminal = terminal
        self._flow_control = FlowControl(line)
        self._relayed_size = 0  # bytes of output

    async def run(self) -> None:
        for ended in await run_until_first_ends(
            self._flow_control.receive_messages(self._handle_message), self._relay_input(), self._relay_output()
        ):
            if isinstance(ended, Exception):
                raise ended

    def _handle_message(self, words: ControlMessage) -> None:
        size, number = words.get("resize"), words.get("signal")
        if (
            isinstance(size, list)
            and len(size) == 2
            and all(is_integer_between(each, 1, MAX_TERMINAL_SIZE) for each in size)
        ):
            self._session.resize(*size)
        if is_integer_between(number, 1, MAX_SIGNAL_NUMBER):
            self._session.send_signal(number)

    async def _relay_input(self) -> None:
        while data := await self._flow_control.receive_bytes():
            await self._session.write(data)
        self._session.close_stdin()
        await asyncio.Event().wait()  # the command can continue without stdin

    async def _relay_output(self) -> None:
        """Wait until the command has ended and its output is sent. Background processes can keep the terminal open;
        without a terminal, as with ssh, all writers of the output are waited for."""
        outputs = [self._relay_stream(self._session.read, b"" if self._terminal else STDOUT)]
        if not self._terminal:
            outputs.append(self._relay_stream(self._session.read_stderr, STDERR))
        async with asyncio.TaskGroup() as group:
            showing = [group.create_task(each) for each in outputs]
            status = await self._session.wait()
            while not await self._is_output_sent(showing):
                pass
            for task in showing:
                task.cancel()
        await self._socket.send({"exit": status})

    async def _is_output_sent(self, showing: list[asyncio.Task[None]]) -> bool:
        moved = self._relayed_size
        _, left = await asyncio.wait(showing, timeout=QUIET_TIMEOUT if self._terminal else None)
        return not left or (moved == self._relayed_size and self._flow_control.is_window_open)

    async def _relay_stream(self, read: Callable[[], Awaitable[bytes]], mark: bytes) -> None:
        with suppress(WebSocketDisconnect):  # the code that receives messages reports it
            while data := await read():
                await self._flow_control.send_bytes(data, mark)
                self._relayed_size += len(data)


# -- the first message


def parse_command(words: ControlMessage) -> ExecCommand:
    argv, script, env, terminal = (words.get(key) for key in ("argv", "script", "env", "terminal"))
    if argv and script:
        raise UserError(msg("Set argv or script, not both"), field="argv")
    return ExecCommand(
        argv=_parse_argv(argv),
        script=_parse_text(script, "script") if script else "",
        env=_parse_env(env),
        terminal=_parse_terminal(terminal) if terminal is not None else None,
    )


def _parse_argv(given: Any) -> tuple[str, ...]:
    if not isinstance(given or [], list) or len(given or ()) > MAX_ARGUMENTS:
        raise UserError(
            msg("argv must be a list of at most {max_words} arguments", max_words=MAX_ARGUMENTS), field="argv"
        )
    return tuple(_parse_text(word, "argv") for word in given or ())


def _parse_text(given: Any, field: str) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise UserError(msg("{field} must be text without NUL characters", field=field), field=field)
    return given


def _parse_env(given: Any) -> dict[str, str]:
    if not isinstance(given or {}, dict) or len(given or ()) > MAX_VARIABLES:
        raise UserError(
            msg("env must be an object of at most {max_variables} variables", max_variables=MAX_VARIABLES), field="env"
        )
    wrong = next((name for name in given or () if not _VARIABLE_NAME_PATTERN.fullmatch(name)), None)
    if wrong is not None:
        raise UserError(msg("{name} is not a valid variable name", name=repr(wrong[:100])), field="env")
    return {name: _parse_text(value, "env") for name, value in (given or {}).items()}


def _parse_terminal(given: Any) -> Terminal:
    if not isinstance(given, dict):
        raise UserError(msg("terminal must be an object with columns and rows"), field="terminal")
    columns, rows, term = given.get("columns", 80), given.get("rows", 24), given.get("term", "")
    if not is_integer_between(columns, 1, MAX_TERMINAL_SIZE) or not is_integer_between(rows, 1, MAX_TERMINAL_SIZE):
        raise UserError(
            msg(
                "Terminal columns and rows must be between 1 and {max_terminal_size}",
                max_terminal_size=MAX_TERMINAL_SIZE,
            ),
            field="terminal",
        )
    known = isinstance(term, str) and _TERM_PATTERN.fullmatch(term)
    return Terminal(columns=columns, rows=rows, term=term if known else "xterm-256color")


router.routes.append(build_task_route("/jobs/{ref}/tasks/{task}/exec", serve_exec))
