"""What pdb reads from and writes to."""

import code
import contextlib
import sys
import threading
from typing import Any, Dict, Iterator, List

from .port import the_port
from .prompt import Prompt


class Console:
    """The debugger's stdin and stdout. What other threads print while a command runs goes where it always goes."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, debugger: Prompt) -> None:
        self._debugger = debugger
        self._thread = threading.get_ident()
        self._early: List[str] = []
        self._elsewhere = (sys.stdin, sys.stdout)
        self.timed_out = False

    def write(self, text: str) -> int:
        port = the_port()
        if threading.get_ident() != self._thread:
            self._elsewhere[1].write(text)
        elif port.holder != self._thread:
            self._early.append(text)  # pdb says why it stops before it asks for the prompt
        else:
            if text == self._debugger.prompt:
                self._debugger.tell_place()
            port.write(text)
        return len(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._elsewhere[1].flush()

    def readline(self, size: int = -1) -> str:
        if threading.get_ident() != self._thread:
            return self._elsewhere[0].readline(size)
        line = the_port().read_line(self._debugger)
        self.timed_out = line is None
        return "" if line is None else line + "\n"

    def isatty(self) -> bool:
        return False

    def begin(self) -> None:
        self.timed_out = False
        early, self._early = self._early, []
        for text in early:
            self.write(text)

    @contextlib.contextmanager
    def as_standard(self) -> Iterator[None]:
        """For a command: what it prints and asks is the client's."""
        if isinstance(sys.stdout, Console):
            yield
            return
        self._elsewhere = sys.stdin, sys.stdout
        sys.stdin = sys.stdout = self
        try:
            yield
        finally:
            sys.stdin, sys.stdout = self._elsewhere


class Interpreter(code.InteractiveConsole):
    """pdb's `interact`, by the port."""

    def __init__(self, names: Dict[str, Any], console: Console) -> None:
        super().__init__(dict(names, exit=self._leave, quit=self._leave))
        self._console = console

    @staticmethod
    def _leave(*_: object) -> None:
        raise SystemExit

    def raw_input(self, prompt: str = "") -> str:
        self._console.write(prompt)
        line = self._console.readline()
        if not line or line.strip() in ("\x04", "exit()", "quit()", "exit", "quit"):
            raise EOFError
        return line.rstrip("\n")

    def write(self, data: str) -> None:
        self._console.write(data)
