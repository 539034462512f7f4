"""The streams that pdb reads from and writes to."""

import code
import contextlib
import sys
import threading
from typing import Any, Dict, Iterator, List

from .debug_server import get_or_create_server
from .prompt import SupportsPrompt


class Console:
    """The debugger's stdin and stdout. While a command runs, other threads still use the program's own streams."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, debugger: SupportsPrompt) -> None:
        self._debugger = debugger
        self._thread_id = threading.get_ident()
        self._buffered_output: List[str] = []
        self._program_streams = (sys.stdin, sys.stdout)
        self.has_timed_out = False

    def write(self, text: str) -> int:
        server = get_or_create_server()
        if threading.get_ident() != self._thread_id:
            self._program_streams[1].write(text)
        elif server.prompt_thread_id != self._thread_id:
            self._buffered_output.append(text)  # pdb writes why it stops before it has the prompt
        else:
            if text == self._debugger.prompt:
                self._debugger.send_location_event()
            server.write(text)
        return len(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread_id:
            self._program_streams[1].flush()

    def readline(self, size: int = -1) -> str:
        if threading.get_ident() != self._thread_id:
            return self._program_streams[0].readline(size)
        line = get_or_create_server().read_line(self._debugger)
        self.has_timed_out = line is None
        return "" if line is None else line + "\n"

    def isatty(self) -> bool:
        return False

    def begin_prompt(self) -> None:
        """Reset the timeout, and write the output that was buffered before this thread had the prompt."""
        self.has_timed_out = False
        buffered, self._buffered_output = self._buffered_output, []
        for text in buffered:
            self.write(text)

    @contextlib.contextmanager
    def redirect_standard_streams(self) -> Iterator[None]:
        """Connect stdin and stdout to the client while a command runs."""
        if isinstance(sys.stdout, Console):
            yield
            return
        self._program_streams = sys.stdin, sys.stdout
        sys.stdin = sys.stdout = self
        try:
            yield
        finally:
            sys.stdin, sys.stdout = self._program_streams


class Interpreter(code.InteractiveConsole):
    """The interpreter of pdb's `interact` command, connected to the client."""

    def __init__(self, namespace: Dict[str, Any], console: Console) -> None:
        super().__init__(dict(namespace, exit=self._raise_exit, quit=self._raise_exit))
        self._console = console

    @staticmethod
    def _raise_exit(*_: object) -> None:
        raise SystemExit

    def raw_input(self, prompt: str = "") -> str:
        self._console.write(prompt)
        line = self._console.readline()
        if not line or line.strip() in ("\x04", "exit()", "quit()", "exit", "quit"):
            raise EOFError
        return line.rstrip("\n")

    def write(self, data: str) -> None:
        self._console.write(data)
