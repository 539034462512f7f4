"""A console for a remote debugger: prints its output, and reads input at each prompt with history and completion."""

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
from .piped_lines import PipedLineReader

if TYPE_CHECKING:
    from holdfast.sdk.inside import TaskSession

MAX_HISTORY = 2000  # lines
MAX_WORDS = 5000  # words kept for completion
MAX_PARTIAL_LENGTH = 64 * 1024  # bytes buffered without a newline
PROMPT_TIMEOUT = 0.3  # seconds after which text without a newline is treated as a prompt
DETACH_TIMEOUT = 0.5  # seconds without output after which the console detaches if piped input has ended
INTERRUPT = b"\x03"

EXIT_MESSAGES = (b"The program ends with exit code ", b"The program exited via sys.exit()", b"The program finished.")
PROMPT_PATTERN = re.compile(rb"(?:\(+(?:Pdb|com)\)+ |>>> |\.\.\. )\Z")
_WORD_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{2,60}")
COMMANDS = (
    "alias", "args", "break", "clear", "commands", "condition", "continue", "debug", "disable", "display", "down",
    "enable", "exceptions", "help", "ignore", "interact", "interrupt", "jump", "list", "longlist", "next", "pp",
    "quit", "return", "source", "step", "tbreak", "unalias", "undisplay", "until", "up", "whatis", "where",
)  # fmt: skip
RESUME_COMMANDS = ("c", "cont", "continue", "n", "next", "r", "return", "s", "step", "unt", "until")


class DebuggerConsole:
    def __init__(self, line: TaskSession) -> None:
        self._session = line
        self._messages: queue.Queue[bytes | BaseException | None] = queue.Queue()
        self._partial = b""  # incomplete last line
        self._words: dict[str, None] = {}
        self._on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._piped = None if self._on_terminal else PipedLineReader(lambda: self._messages.put(b""))
        self._command = ""  # last command sent
        self.printed_exit_message = False  # the last line shown tells how the program ended

    def run(self) -> bool:
        """Run until either side ends the session. True: the program ended it."""
        threading.Thread(target=self._read_messages, name="debugger", daemon=True).start()
        with self._open_readline_session():
            while True:
                try:
                    if not self._print_until_prompt():
                        return True
                    text = self._read_input()
                except KeyboardInterrupt:
                    self._send_interrupt()
                    continue
                except EOFError:
                    output.emit_line()
                    return False
                self._command = parse_last_command(text) or self._command  # an empty line repeats the last command
                self._session.send(text.encode("utf-8", "replace") + b"\n")

    def _read_messages(self) -> None:
        try:
            for message in self._session:
                if isinstance(message, bytes):
                    self._messages.put(message)
                elif message.get("end"):
                    break
            self._messages.put(None)
        except BaseException as error:
            self._messages.put(error)

    # -- output of the debugger

    def _print_until_prompt(self) -> bool:
        """Return False at the end. EOFError if the program runs and piped input has ended."""
        while not PROMPT_PATTERN.search(self._partial):
            leaves = self._piped is not None and self._piped.is_exhausted and self._command in RESUME_COMMANDS
            try:
                piece = self._messages.get(
                    timeout=PROMPT_TIMEOUT if self._partial else DETACH_TIMEOUT if leaves else None
                )
            except queue.Empty:
                if self._partial:
                    return True  # it seems to wait for input
                raise EOFError from None
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                self._print_output(self._partial)
                return False
            self._print_complete_lines(piece)
        return True

    def _print_complete_lines(self, piece: bytes) -> None:
        lines, newline, self._partial = (self._partial + piece).rpartition(b"\n")
        self._print_output(lines + newline)
        if len(self._partial) > MAX_PARTIAL_LENGTH:
            self._print_output(self._partial)
            self._partial = b""

    def _print_output(self, data: bytes) -> None:
        if data:
            output.emit_bytes(data)
            self.printed_exit_message = data.rstrip(b"\n").rpartition(b"\n")[2].startswith(EXIT_MESSAGES)
            self._add_completions(data.decode("utf-8", "replace"))

    def _add_completions(self, text: str) -> None:
        """Add words to the completion; keep the newest."""
        for word in _WORD_PATTERN.findall(text):
            self._words.pop(word, None)
            self._words[word] = None
        for word in list(self._words)[: max(0, len(self._words) - MAX_WORDS)]:
            del self._words[word]

    # -- input of the user

    def _read_input(self) -> str:
        """Read a line of input; EOFError at its end."""
        prompt, self._partial = self._partial.decode("utf-8", "replace"), b""
        if self._piped is None:
            typed = input(prompt)
        else:
            output.emit_bytes(prompt.encode("utf-8", "replace"))
            typed = self._piped.read_line()
        self._add_completions(typed)
        return typed

    def _send_interrupt(self) -> None:
        """Send Ctrl-C: it clears the input at a prompt, else interrupts the program."""
        output.emit_line()
        self._session.send(INTERRUPT)

    @contextmanager
    def _open_readline_session(self) -> Iterator[None]:
        if not self._on_terminal:
            yield
            return
        import readline

        path = get_history_path()
        with suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(MAX_HISTORY)
        readline.set_completer(self._complete_word)
        readline.set_completer_delims(" \t\n()[]{}=,:;+*/%&|<>'\"!")
        readline.parse_and_bind("tab: complete")
        try:
            yield
        finally:
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # before anything is written
                readline.write_history_file(path)

    def _complete_word(self, begun: str, number: int) -> str | None:
        found = self.list_completions(begun)
        return found[number] if number < len(found) else None

    def list_completions(self, begun: str) -> list[str]:
        import readline

        first = readline.get_line_buffer()[: readline.get_begidx()].strip() == ""
        commands = [word for word in COMMANDS if word.startswith(begun)] if first else []
        words = sorted(word for word in self._words if word.startswith(begun) and word not in commands)
        return [*commands, *words] if begun else commands


def parse_last_command(typed: str) -> str:
    """Return the last command of a line: c of `b 7 ;; c`."""
    return next(iter(typed.rpartition(";;")[2].split()), "")


def get_history_path() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "holdfast" / "debug_history"
