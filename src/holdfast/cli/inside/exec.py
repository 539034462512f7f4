"""The `exec` command: run a command or a shell in a task."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..command_after_dashes import get_command_after_dashes
from ..options import JobRefArgument
from .target_task import TaskNameArgument, build_exec_request, find_server_address, print_owner

if TYPE_CHECKING:
    from holdfast.sdk.inside import TaskSession, Terminal

CHUNK_SIZE = 32 * 1024  # bytes read from stdin at once
STDERR_PREFIX = 2  # prefix byte of stderr output
END_OF_TRANSMISSION = b"\x04"  # Ctrl-D
SIGINT = 2  # number on Linux, where the task runs


def run_exec(
    ctx: typer.Context,
    job: JobRefArgument,
    task: TaskNameArgument = None,
    terminal: Annotated[
        bool | None,
        typer.Option(
            "--terminal/--no-terminal",
            "-t/-T",
            help="Allocate a terminal, or use pipes. Default: a terminal if stdin and stdout are one.",
        ),
    ] = None,
) -> None:
    """Run a command or a shell in a task: `holdfast exec JOB -- COMMAND…`.

    Exits with the exit code of the command.
    """
    words = get_command_after_dashes(ctx)
    if terminal is None:
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raise typer.Exit(run_in_task(job, task, build_exec_request(words), terminal=terminal))


def run_in_task(job: str, task: str | None, what: dict[str, Any], *, terminal: bool) -> int:
    """Run a command in a task and return its exit code."""
    from holdfast.sdk.inside import open_exec

    shape = _build_terminal() if terminal else None
    with open_exec(find_server_address(), job, task, terminal=shape, **what) as line:
        print_owner(line.target)
        return _run_session(line, terminal)


def _run_session(line: TaskSession, terminal: bool) -> int:
    with InputForwarder(line, terminal) as keyboard:
        keyboard.start()
        return _print_output_until_exit(line, terminal)


def _print_output_until_exit(line: TaskSession, terminal: bool) -> int:
    for message in line:
        if isinstance(message, dict):
            if "exit" in message:
                return int(message["exit"])
        elif terminal:
            output.emit_bytes(message)
        elif message[0] == STDERR_PREFIX:
            _emit_stderr(message[1:])
        else:
            output.emit_bytes(message[1:])
    from holdfast.sdk import UnexpectedReply

    raise UnexpectedReply("The connection closed before the command ended")


def _emit_stderr(data: bytes) -> None:
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
    except BrokenPipeError:
        raise output.OutputClosed from None


def _build_terminal() -> Terminal:
    from holdfast.sdk.inside import Terminal

    columns, rows = _get_terminal_size()
    return Terminal(columns, rows, os.environ.get("TERM") or "xterm-256color")


def _get_terminal_size() -> tuple[int, int]:
    """Return the columns and rows of the terminal."""
    for stream in (sys.stdout, sys.stdin):
        try:
            columns, rows = os.get_terminal_size(stream.fileno())
        except OSError:
            continue
        if columns and rows:
            return columns, rows
    return 80, 24


class InputForwarder:
    """Forwards input, signals and terminal resizes. On a terminal, every key is forwarded unchanged.

    A signal that arrives just before the main thread waits for output does not end that wait, and its handler does
    not run. So a thread of its own gets the number of each signal, and closes the session if the command must end.
    """

    def __init__(self, line: TaskSession, terminal: bool) -> None:
        self._session = line
        self._terminal = terminal
        self._stdin = sys.stdin.fileno()
        self._raw = _set_raw_mode(self._stdin) if terminal and sys.stdin.isatty() else None
        self._handlers: dict[int, Callable[[int, FrameType | None], None]] = {}
        if self._raw is not None:
            self._handlers = {
                signal.SIGTERM: _exit_on_signal,
                signal.SIGHUP: _exit_on_signal,
                signal.SIGWINCH: lambda *_: None,
            }
        elif not terminal:
            self._handlers = {signal.SIGINT: self._handle_interrupt}
        self._interrupts = 0  # counted by the handler
        self._previous_handlers: dict[int, Any] = {}
        self._signal_reader, self._signal_writer = os.pipe()
        os.set_blocking(self._signal_writer, False)
        self._previous_wakeup_fd = -1

    def __enter__(self) -> InputForwarder:
        if self._raw is not None:
            self._raw.__enter__()
        self._previous_wakeup_fd = signal.set_wakeup_fd(self._signal_writer)
        for number, handler in self._handlers.items():
            self._previous_handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *given: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup_fd)
        if self._raw is not None:
            self._raw.__exit__(None, None, None)

    def start(self) -> None:
        threading.Thread(target=self._forward_input, name="keyboard", daemon=True).start()
        threading.Thread(target=self._forward_signals, name="signals", daemon=True).start()

    def _handle_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Leave the first Ctrl-C to the command; exit on the second."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt

    def _forward_signals(self) -> None:
        interrupted = False
        while True:
            for number in os.read(self._signal_reader, 100):
                if number == signal.SIGWINCH:
                    self._session.send_message(resize=[*_get_terminal_size()])
                elif number == signal.SIGINT and not interrupted:
                    interrupted = True
                    self._session.send_message(signal=SIGINT)
                elif number in self._handlers:
                    self._session.interrupt()

    def _forward_input(self) -> None:
        while self._forward_chunk():
            pass

    def _forward_chunk(self) -> bool:
        """Forward one chunk; return whether more can follow."""
        try:
            data = os.read(self._stdin, CHUNK_SIZE)
        except OSError:
            data = b""
        if data:
            return self._session.send(data)
        if self._terminal:
            self._session.send(END_OF_TRANSMISSION)
        else:
            self._session.send_message(end=True)
        return False


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _set_raw_mode(fd: int) -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
