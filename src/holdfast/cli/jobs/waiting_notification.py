"""Telling people who follow a log why the job has not begun."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress
from functools import partial

from .. import output
from ..background_thread import beside
from ..options import connect

FIRST_LOOK = 2.0  # seconds; most jobs have begun by then
LOOK_AGAIN = 30.0


def telling_why_it_waits(ref: str) -> AbstractContextManager[None]:
    """While a log is followed, until the job begins: its reasons on stderr, and again when they are others."""
    return beside(partial(_watch, ref))


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
                output.hint(f"holdfast why {ref}")
