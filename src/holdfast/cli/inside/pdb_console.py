"""A prompt at a debugger that is elsewhere: its text is shown as it comes, and lines are typed with history and
completion wherever it asks for one."""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import output
from .piped_lines import PipedLines

if TYPE_CHECKING:
    from holdfast.sdk.inside import Line

HISTORY = 2000  # lines
WORDS = 5000  # that completion remembers
MAX_PARTIAL_LENGTH = 64 * 1024  # bytes without an end of line that are kept back
SETTLED = 0.3  # seconds after which text without an end of line is taken for a question
SILENCE = 0.5  # seconds without a word from a program that runs, after which nobody is waited for who types no more
INTERRUPT = b"\x03"

ENDED = (b"The program ends with exit code ", b"The program exited via sys.exit()", b"The program finished.")
PROMPT = re.compile(rb"(?:\(+(?:Pdb|com)\)+ |>>> |\.\.\. )\Z")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{2,60}")
COMMANDS = (
    "alias", "args", "break", "clear", "commands", "condition", "continue", "debug", "disable", "display", "down",
    "enable", "exceptions", "help", "ignore", "interact", "interrupt", "jump", "list", "longlist", "next", "pp",
    "quit", "return", "source", "step", "tbreak", "unalias", "undisplay", "until", "up", "whatis", "where",
)  # fmt: skip
# Commands that need not be answered soon.
RUNNING_ON = ("c", "cont", "continue", "n", "next", "r", "return", "s", "step", "unt", "until")


class Console:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._arrived: queue.Queue[bytes | BaseException | None] = queue.Queue()
        self._partial = b""  # of the last line
        self._words: dict[str, None] = {}
        self._on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._piped = None if self._on_terminal else PipedLines(lambda: self._arrived.put(b""))
        self._command = ""  # the last that was sent
        self.told_end = False  # the last that was shown says how the program ended

    def run(self) -> bool:
        """Until one of both sides leaves. True: the program did."""
        threading.Thread(target=self._listen, name="debugger", daemon=True).start()
        with self._typing():
            while True:
                try:
                    if not self._read_to_prompt():
                        return True
                    text = self._ask()
                except KeyboardInterrupt:
                    self._interrupt()
                    continue
                except EOFError:
                    output.emit()
                    return False
                self._command = command_of(text) or self._command  # an empty line is the one before again
                self._line.send(text.encode("utf-8", "replace") + b"\n")

    def _listen(self) -> None:
        try:
            for message in self._line:
                if isinstance(message, bytes):
                    self._arrived.put(message)
                elif message.get("end"):
                    break
            self._arrived.put(None)
        except BaseException as error:
            self._arrived.put(error)

    # -- what it says

    def _read_to_prompt(self) -> bool:
        """Shows all that comes before the next prompt; False at the end. EOFError where it may not come for long, and
        nothing more will be typed."""
        while not PROMPT.search(self._partial):
            leaves = self._piped is not None and self._piped.are_over and self._command in RUNNING_ON
            try:
                piece = self._arrived.get(timeout=SETTLED if self._partial else SILENCE if leaves else None)
            except queue.Empty:
                if self._partial:
                    return True  # it seems to wait for an answer
                raise EOFError from None
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                self._show(self._partial)
                return False
            self._take(piece)
        return True

    def _take(self, piece: bytes) -> None:
        lines, newline, self._partial = (self._partial + piece).rpartition(b"\n")
        self._show(lines + newline)
        if len(self._partial) > MAX_PARTIAL_LENGTH:
            self._show(self._partial)
            self._partial = b""

    def _show(self, data: bytes) -> None:
        if data:
            output.emit_bytes(data)
            self.told_end = data.rstrip(b"\n").rpartition(b"\n")[2].startswith(ENDED)
            self._remember(data.decode("utf-8", "replace"))

    def _remember(self, text: str) -> None:
        """Words that were seen can be completed; the newest are kept."""
        for word in _WORD.findall(text):
            self._words.pop(word, None)
            self._words[word] = None
        for word in list(self._words)[: max(0, len(self._words) - WORDS)]:
            del self._words[word]

    # -- what is typed

    def _ask(self) -> str:
        """EOFError when nothing more will be typed."""
        prompt, self._partial = self._partial.decode("utf-8", "replace"), b""
        if self._piped is None:
            typed = input(prompt)
        else:
            output.emit_bytes(prompt.encode("utf-8", "replace"))
            typed = self._piped.take()
        self._remember(typed)
        return typed

    def _interrupt(self) -> None:
        """At a prompt it takes back what was typed, else it stops the program."""
        output.emit()
        self._line.send(INTERRUPT)

    @contextmanager
    def _typing(self) -> Iterator[None]:
        if not self._on_terminal:
            yield
            return
        import readline

        path = history_file()
        with suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(HISTORY)
        readline.set_completer(self._complete)
        readline.set_completer_delims(" \t\n()[]{}=,:;+*/%&|<>'\"!")
        readline.parse_and_bind("tab: complete")
        try:
            yield
        finally:
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # before anything is in it
                readline.write_history_file(path)

    def _complete(self, begun: str, number: int) -> str | None:
        found = self.completions(begun)
        return found[number] if number < len(found) else None

    def completions(self, begun: str) -> list[str]:
        import readline

        first = readline.get_line_buffer()[: readline.get_begidx()].strip() == ""
        commands = [word for word in COMMANDS if word.startswith(begun)] if first else []
        words = sorted(word for word in self._words if word.startswith(begun) and word not in commands)
        return [*commands, *words] if begun else commands


def command_of(typed: str) -> str:
    """The word that says what is done last: c of `b 7 ;; c`."""
    return next(iter(typed.rpartition(";;")[2].split()), "")


def history_file() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "holdfast" / "debug_history"
