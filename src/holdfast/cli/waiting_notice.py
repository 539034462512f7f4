"""Telling people who follow a log why the job has not begun."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from . import output
from .options import connect

FIRST_LOOK = 2.0  # seconds; most jobs have begun by then
LOOK_AGAIN = 30.0


@contextmanager
def telling_why_it_waits(ref: str) -> Iterator[None]:
    """While a log is followed, until the job begins: its reasons on stderr, and again when they are others."""
    over = threading.Event()
    threading.Thread(target=_watch, args=(ref, over), name="waiting", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(ref: str, over: threading.Event) -> None:
    from holdfast.core.errors import HoldfastError

    told: tuple[str, ...] = ()
    pause = FIRST_LOOK
    while not over.wait(pause):
        pause = LOOK_AGAIN
        try:
            with connect() as client:
                job = client.job(ref)
        except HoldfastError:
            continue  # whoever follows the log is told
        if str(job.state) != "Pending" or over.is_set():
            return
        ref, reasons = job.id, job.waiting or ()
        if reasons and reasons != told:
            told = reasons
            with suppress(output.ReaderGone):
                output.note("\n".join(f"waits: {output.safe(reason)}" for reason in reasons), "dim")
