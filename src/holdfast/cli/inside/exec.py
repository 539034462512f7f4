"""`holdfast exec`: a command or a shell inside a task."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import JobRef
from .target_task import TaskName, as_run, command_of, find_server, tell_whose

if TYPE_CHECKING:
    from holdfast.sdk.inside import Line, Terminal

PIECE = 32 * 1024  # bytes read from stdin at once
STDERR = 2  # the byte before what a command wrote there
END_OF_TEXT = b"\x04"  # Ctrl-D
RESIZED, INTERRUPTED = b"r", b"i"
SIGINT = 2  # as the task numbers it, whatever this machine does


def run(
    ctx: typer.Context,
    job: JobRef,
    task: TaskName = None,
    terminal: Annotated[
        bool | None,
        typer.Option(
            "--terminal/--no-terminal", "-t/-T", help="With a terminal, or with pipes. Default: as this command has."
        ),
    ] = None,
) -> None:
    """Run a command inside a task, or a shell: `holdfast exec JOB -- command…`.

    Ends with the command's own exit code.
    """
    words = command_of(ctx)
    if terminal is None:
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raise typer.Exit(run_inside(job, task, as_run(words), terminal=terminal))


def run_inside(job: str, task: str | None, what: dict[str, Any], *, terminal: bool) -> int:
    """Its exit code."""
    from holdfast.sdk.inside import open_exec

    shape = _terminal() if terminal else None
    with open_exec(find_server(), job, task, terminal=shape, **what) as line:
        tell_whose(line.entered)
        return _converse(line, terminal)


def _converse(line: Line, terminal: bool) -> int:
    with Keyboard(line, terminal) as keyboard:
        keyboard.start()
        return _show(line, terminal)


def _show(line: Line, terminal: bool) -> int:
    for message in line:
        if isinstance(message, dict):
            if "exit" in message:
                return int(message["exit"])
        elif terminal:
            output.emit_bytes(message)
        elif message[0] == STDERR:
            _emit_error(message[1:])
        else:
            output.emit_bytes(message[1:])
    from holdfast.sdk import UnexpectedReply

    raise UnexpectedReply("The line ended before the command did")


def _emit_error(data: bytes) -> None:
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
    except BrokenPipeError:
        raise output.ReaderGone from None


def _terminal() -> Terminal:
    from holdfast.sdk.inside import Terminal

    columns, rows = _size()
    return Terminal(columns, rows, os.environ.get("TERM") or "xterm-256color")


def _size() -> tuple[int, int]:
    """Columns and rows, as they are now."""
    for stream in (sys.stdout, sys.stdin):
        try:
            columns, rows = os.get_terminal_size(stream.fileno())
        except OSError:
            continue
        if columns and rows:
            return columns, rows
    return 80, 24


class Keyboard:
    """Passes on what is typed, signals and the terminal's size. On a terminal every key goes through as it is."""

    def __init__(self, line: Line, terminal: bool) -> None:
        self._line = line
        self._terminal = terminal
        self._stdin = sys.stdin.fileno()
        self._woken, self._wake = os.pipe()
        self._interrupts = 0
        self._raw = _raw(self._stdin) if terminal and sys.stdin.isatty() else None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Keyboard:
        if self._raw is not None:
            self._raw.__enter__()
            self._handle(signal.SIGTERM, _leave)
            self._handle(signal.SIGHUP, _leave)
            self._handle(signal.SIGWINCH, lambda *_: self._say(RESIZED))
        elif not self._terminal:
            self._handle(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *given: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._raw is not None:
            self._raw.__exit__(None, None, None)

    def start(self) -> None:
        threading.Thread(target=self._pass_in, name="keyboard", daemon=True).start()

    def _handle(self, number: int, handler: object) -> None:
        self._before[number] = signal.signal(number, handler)  # type: ignore[arg-type]

    def _say(self, what: bytes) -> None:
        """From a signal's handler, in which nothing else may be sent."""
        os.write(self._wake, what)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """The first Ctrl-C is the command's, the second ends us."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._say(INTERRUPTED)

    def _pass_in(self) -> None:
        sources = [self._stdin, self._woken]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if self._woken in ready:
                self._tell(os.read(self._woken, 100))
            if self._stdin in ready and not self._pass_piece():
                sources.remove(self._stdin)

    def _pass_piece(self) -> bool:
        """Whether more may come."""
        try:
            data = os.read(self._stdin, PIECE)
        except OSError:
            data = b""
        if data:
            return self._line.send(data)
        if self._terminal:
            self._line.send(END_OF_TEXT)
        else:
            self._line.tell(end=True)
        return False

    def _tell(self, what: bytes) -> None:
        if RESIZED in what:
            self._line.tell(resize=[*_size()])
        if INTERRUPTED in what:
            self._line.tell(signal=SIGINT)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _raw(fd: int) -> Iterator[None]:
    """Keys are not looked at on this side; afterwards the terminal is as it was."""
    import termios
    import tty

    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
