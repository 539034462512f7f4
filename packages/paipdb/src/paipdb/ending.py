"""The end of the program by the debugger's wish, and what is tidied up at any end."""

import atexit
import contextlib
import os
import sys
import threading
import time
from typing import List, NoReturn

from .door import start_thread
from .port import close_port, the_port

ending: List[int] = []  # with this code
LAST_WORDS = 10.0  # seconds that a program has after `q` for its own cleaning up


def end(code: int) -> NoReturn:
    """Ends the program with this code: by its own cleaning up, but for certain."""
    port = the_port()
    port.event({"event": "end", "code": code})
    port.write(f"The program ends with exit code {code}.\n")
    port.detach()
    ending.append(code)
    if threading.current_thread() is not threading.main_thread():
        end_now(code)
    start_thread(_end_later, code)
    raise SystemExit(code)


def _end_later(code: int) -> None:
    time.sleep(LAST_WORDS)
    end_now(code)


def end_now(code: int) -> NoReturn:
    flush_output()
    close_port()
    os._exit(code)


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # also when it is just written to
            stream.flush()


@atexit.register
def _at_exit() -> None:
    close_port()
    if ending:  # a program may have caught what was to end it; that is no success
        end_now(ending[0])
