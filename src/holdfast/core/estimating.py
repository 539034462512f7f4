"""When a job that waits will start, and what that rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from .backfill import LOOKS_OF_FORECAST, NEVER, Reckoning, reserved_starts
from .blockers import Estimate
from .ledger import Ledger
from .placement import Waiting
from .queue import Queue
from .trying import MOST_EFFORT

FEWEST_LOOKS = 100  # at jobs, however many machines there are to look at for each
AT_ONCE = "There is room for it."
LATEST = (
    "By then the time limits of what runs and waits before it make room, at the latest; "
    "it is later when one of those is tried again, or when jobs of a higher priority come."
)
TOO_MANY = "It cannot be told: too many jobs wait before it."


def estimate(
    waiting: Waiting,
    queue: Queue,
    ledger: Ledger,
    reckoning: Reckoning,
    *,
    now: datetime,
    name: Callable[[str], str],
) -> Estimate:
    """All that runs and waits takes as long as its time limit allows. `name`: how a job is called, by its id."""
    most = min(LOOKS_OF_FORECAST, max(FEWEST_LOOKS, MOST_EFFORT // max(1, len(ledger.nodes))))
    start = reserved_starts(queue, ledger, reckoning, most_looks=most).get(waiting.id)
    if start is not None and start - reckoning.now < NEVER / 2:
        return Estimate(at=now + timedelta(seconds=start - reckoning.now), basis=LATEST)
    endless = _endless(waiting, queue, ledger, reckoning)
    if endless is not None:
        return Estimate(at=None, basis=f"It cannot be told: {name(endless)} has no time limit.")
    return Estimate(at=None, basis=TOO_MANY)


def _endless(waiting: Waiting, queue: Queue, ledger: Ledger, reckoning: Reckoning) -> str | None:
    """A job that runs, else one that waits before it, and may take for ever; first those of its own group."""
    running = (id.split(".", 1)[0] for id in ledger.held if reckoning.ends(id) is None)
    mine = [id.split(".", 1)[0] for id, spot in ledger.held.items() if spot.group == waiting.group]
    return _first(running, before=mine) or _first(
        other.job_id for other in queue.before(waiting, 100) if reckoning.longest(other.job_id) is None
    )


def _first(jobs: Iterable[str], before: Iterable[str] = ()) -> str | None:
    found = list(dict.fromkeys(jobs))
    return next((job for job in before if job in found), next(iter(found), None))
