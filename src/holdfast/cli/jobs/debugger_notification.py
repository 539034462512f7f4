"""Messages about waiting debuggers while a log is followed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from .. import output
from ..background_thread import run_in_background
from ..options import open_client
from ..quantities import format_local_time

if TYPE_CHECKING:
    from holdfast.sdk import Debugger

CHECK_INTERVAL = 3.0  # seconds


def list_unattached_debuggers(debuggers: Iterable[Debugger]) -> list[Debugger]:
    """Return the waiting debuggers that no user is attached to."""
    return [each for each in debuggers if each.waits and not each.attached]


def format_debugger_location(debugger: Debugger) -> str:
    """Format as train.py:42 in worker-0 until 17:05."""
    until = f" until {format_local_time(debugger.until)}" if debugger.until else ""
    return f"{PurePosixPath(debugger.file).name}:{debugger.line} in {debugger.task}{until}"


def print_debuggers_in_background(ref: str) -> AbstractContextManager[None]:
    """Print a line for each debugger that starts to wait, if stderr is a terminal."""
    return run_in_background(partial(_watch_debuggers, ref)) if output.is_terminal(sys.stderr) else nullcontext()


def _watch_debuggers(ref: str, over: threading.Event) -> None:
    from holdfast.core.errors import HoldfastError

    printed: set[tuple[object, ...]] = set()
    with open_client() as client:
        while not over.wait(CHECK_INTERVAL):
            try:
                job = client.get_job(ref)
            except HoldfastError:
                continue  # reported by the log stream
            for debugger in list_unattached_debuggers(job.debuggers):
                key = (debugger.task, debugger.id, debugger.since)
                if key not in printed and not over.is_set():
                    printed.add(key)
                    where = format_debugger_location(debugger)
                    text = f"debugger waiting at {where}: holdfast debug {job.id} {debugger.task}"
                    output.print_note(output.escape(text), "yellow")
