"""Messages about why a job waits while its log is followed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress
from functools import partial

from .. import output
from ..background_thread import run_in_background
from ..options import open_client

FIRST_CHECK_DELAY = 2.0  # seconds; most jobs have started by then
CHECK_INTERVAL = 30.0  # seconds


def print_blockers_in_background(ref: str) -> AbstractContextManager[None]:
    """Print on stderr why the job waits, and again when the reasons change, until it starts."""
    return run_in_background(partial(_watch_blockers, ref))


def _watch_blockers(ref: str, over: threading.Event) -> None:
    from holdfast.core.errors import HoldfastError

    printed: tuple[str, ...] = ()
    pause = FIRST_CHECK_DELAY
    while not over.wait(pause):
        pause = CHECK_INTERVAL
        try:
            with open_client() as client:
                job = client.get_job(ref)
        except HoldfastError:
            continue  # reported by the log stream
        if str(job.state) != "Pending" or over.is_set():
            return
        ref, reasons = job.id, job.waiting or ()
        if reasons and reasons != printed:
            printed = reasons
            with suppress(output.OutputClosed):
                output.print_note("\n".join(f"waiting: {output.escape(reason)}" for reason in reasons), "dim")
                output.print_hint(f"holdfast why {ref}")
