"""Telling people that a debugger waits for somebody in a job that they look at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from .. import output
from ..background_thread import beside
from ..options import connect
from ..quantities import show_instant

if TYPE_CHECKING:
    from holdfast.sdk import Debugger

LOOK_INTERVAL = 3.0  # seconds


def free(debuggers: Iterable[Debugger]) -> list[Debugger]:
    """Those that wait, with nobody at them."""
    return [each for each in debuggers if each.waits and not each.attached]


def place_of(debugger: Debugger) -> str:
    """train.py:42 in worker-0 until 17:05"""
    until = f" until {show_instant(debugger.until)}" if debugger.until else ""
    return f"{PurePosixPath(debugger.file).name}:{debugger.line} in {debugger.task}{until}"


def telling_of_debuggers(ref: str) -> AbstractContextManager[None]:
    """While a log is followed on a terminal: once for each place where one comes to wait."""
    return beside(partial(_watch, ref)) if output.is_terminal(sys.stderr) else nullcontext()


def _watch(ref: str, over: threading.Event) -> None:
    from holdfast.core.errors import HoldfastError

    told: set[tuple[object, ...]] = set()
    with connect() as client:
        while not over.wait(LOOK_INTERVAL):
            try:
                job = client.job(ref)
            except HoldfastError:
                continue  # whoever follows the log is told
            for debugger in free(job.debuggers):
                key = (debugger.task, debugger.id, debugger.since)
                if key not in told and not over.is_set():
                    told.add(key)
                    text = f"debugger waiting at {place_of(debugger)}: holdfast debug {job.id} {debugger.task}"
                    output.note(output.safe(text), "yellow")
