"""Exit of the program on the debugger's request, and cleanup at every exit."""

import atexit
import contextlib
import os
import sys
import threading
import time
from typing import List, NoReturn

from .debug_server import close_server, get_or_create_server
from .listener import start_thread

requested_exit_codes: List[int] = []  # empty until the debugger ends the program; the first one counts
CLEANUP_TIMEOUT = 10.0  # seconds for the program's own cleanup after `q`


def exit_program(exit_code: int) -> NoReturn:
    """End the program with this exit code: its own cleanup runs, but only for a limited time."""
    server = get_or_create_server()
    server.send_event({"event": "end", "code": exit_code})
    server.write(f"The program ends with exit code {exit_code}.\n")
    server.detach_client()
    requested_exit_codes.append(exit_code)
    if threading.current_thread() is not threading.main_thread():
        exit_immediately(exit_code)
    start_thread(_exit_after_timeout, exit_code)
    raise SystemExit(exit_code)


def _exit_after_timeout(exit_code: int) -> None:
    time.sleep(CLEANUP_TIMEOUT)
    exit_immediately(exit_code)


def exit_immediately(exit_code: int) -> NoReturn:
    """End the process without its cleanup."""
    flush_output()
    close_server()
    os._exit(exit_code)


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        # RuntimeError: another call is writing to the stream.
        with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
            stream.flush()


@atexit.register
def _handle_interpreter_exit() -> None:
    close_server()
    if requested_exit_codes:  # a program that catches SystemExit must not end as a success
        exit_immediately(requested_exit_codes[0])
