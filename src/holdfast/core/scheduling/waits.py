"""All that keeps a job waiting, put together: from its own wishes, the queue, what is in use and time limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..attempt_id import job_id_of
from ..messages import msg
from .backfill import TimeEstimates
from .blockers import About, Ahead, Blocker, BlockerKind, Estimate, Holder, Wait, show_instant
from .estimates import ROOM_NOW, estimate
from .explanations import beyond, held_up, impossible, own_blockers, stands_behind
from .ledger import Ledger
from .placement import Amount, Assignment, Quota, Waiting
from .queue import Queue
from .suggestions import helps
from .what_if import Effort, starts_if, stuck_before

MAX_HOLDERS = 5  # named
MAX_AHEAD = 5
MAX_ENTRIES = 5  # of a job whose tasks wait one by one: the first of each size
MAX_STUCK = 5  # before it, of which it is looked at what they lack
_AHEAD_LOOKED_AT = 200
_NOTHING = Amount()
HIDDEN = msg("a job of another group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How things stand, and for whom it is told."""

    queue: Queue
    ledger: Ledger
    reckoning: TimeEstimates
    now: datetime
    about: About
    sees: Callable[[str], bool]  # whether whoever asks sees the jobs of a group
    backfill: bool = False
    usual: Mapping[str, float] = field(default_factory=dict)  # job -> seconds that such jobs took before

    def called(self, job_id: str) -> str:
        known = self.about(job_id)
        if known is None:
            return job_id
        return (
            msg("job {name} ({job_id}) of user {user}", name=known.name, job_id=job_id, user=known.user)
            if self.sees(known.group)
            else HIDDEN
        )

    def shows(self, job_id: str) -> bool:
        known = self.about(job_id)
        return known is None or self.sees(known.group)


def wait_of(entries: Sequence[Waiting], scene: Scene) -> Wait:
    """Why these entries of one job wait; its first one stands for all where it helps to be exact."""
    different = {entry.requests[0].amount: entry for entry in reversed(entries)}
    chosen = sorted(different.values(), key=lambda entry: (entry.key, entry.id))[:MAX_ENTRIES]
    blockers = {blocker.text: blocker for entry in chosen for blocker in _blockers(entry, scene)}
    first = chosen[0]
    ahead, count = _ahead(first, scene)
    wait = Wait(blockers=tuple(blockers.values()), ahead=ahead, ahead_count=count)
    if any(blocker.kind is BlockerKind.IMPOSSIBLE for blocker in wait.blockers):
        return wait
    if not wait.blockers:
        return replace(wait, estimate=Estimate(at=scene.now, basis=ROOM_NOW))
    return replace(
        wait,
        helps=_helps(first, scene),
        estimate=_estimate(first, scene),
    )


def _helps(waiting: Waiting, scene: Scene) -> tuple[str, ...]:
    stuck = stuck_before(waiting, scene.queue, scene.ledger)
    lacking = (waiting, *stuck[:MAX_STUCK])
    holders = dict.fromkeys(job_id for each in lacking for job_id in _holders(each, scene.ledger))
    before = list(dict.fromkeys(other.job_id for other in stuck))
    return helps(waiting, list(holders), before, scene.queue, scene.ledger, scene)


def in_the_way(waiting: Waiting, queue: Queue, ledger: Ledger, most: int) -> list[str]:
    """Jobs that have what it lacks, or go before it: so many of each."""
    ahead = dict.fromkeys(other.job_id for other in queue.before(waiting, most))
    return [*_holders(waiting, ledger)[:most], *ahead]


def _estimate(waiting: Waiting, scene: Scene) -> Estimate:
    return estimate(
        waiting,
        scene.queue,
        scene.ledger,
        scene.reckoning,
        now=scene.now,
        name=scene.called,
        about=scene.about,
        usual=scene.usual,
    )


def wait_for_try(at: datetime, last: str = "") -> Wait:
    """A job that failed and is tried again. `last`: what came of the try before."""
    after = msg(" The try before: {last}", last=last) if last else ""
    blocker = Blocker(
        kind=BlockerKind.RETRY, text=msg("Its next try begins at {at}.{after}", at=show_instant(at), after=after)
    )
    return Wait(
        blockers=(blocker,),
        estimate=Estimate(at=at, basis=msg("Then its next try begins, if there is room for it.")),
    )


def _blockers(waiting: Waiting, scene: Scene) -> list[Blocker]:
    """None where the next pass of placing starts it."""
    queue, ledger = scene.queue, scene.ledger
    never = impossible(waiting, ledger)
    if never:
        return [
            Blocker(kind=BlockerKind.IMPOSSIBLE, text=msg("It can never run here: {reason}.", reason=reason))
            for reason in never
        ]
    if starts_if(waiting, queue, ledger, lambda _: None, Effort()):
        return []
    own = [_with_holders(blocker, waiting, scene) for blocker in own_blockers(waiting, ledger)]
    behind = held_up(waiting, queue, ledger, backfill=scene.backfill and not own)
    ahead = queue.ahead(waiting)
    if ahead:
        behind.append(Blocker(kind=BlockerKind.QUEUE, text=stands_behind(ahead, waiting.group)))
    return own + behind or [Blocker(kind=BlockerKind.QUEUE, text=msg("Jobs of other groups go before it."))]


# -- who has it


def _holders(waiting: Waiting, ledger: Ledger) -> list[str]:
    """Every job that has something it lacks."""
    lacking = own_blockers(waiting, ledger)
    return list(dict.fromkeys(job_id for blocker in lacking for job_id in _having(blocker, waiting, ledger)))


def _with_holders(blocker: Blocker, waiting: Waiting, scene: Scene) -> Blocker:
    has = _having(blocker, waiting, scene.ledger)
    most_first = sorted(has, key=lambda job_id: _weight(has[job_id], blocker.lacks), reverse=True)
    holders = tuple(_holder(job_id, has[job_id], scene) for job_id in most_first[:MAX_HOLDERS])
    return replace(blocker, holders=holders, more_holders=len(has) - len(holders))


def _having(blocker: Blocker, waiting: Waiting, ledger: Ledger) -> dict[str, Amount]:
    """Job -> what it has of that which is missing."""
    has: dict[str, Amount] = {}
    missing = beyond(Quota(cpu=0, memory=0, gpu=0), Amount(), blocker.lacks or Amount())
    for id, spot in ledger.held.items():
        part = _part(blocker.kind, spot, waiting, ledger).least(missing)
        if part != _NOTHING or (blocker.kind is BlockerKind.PORTS and spot.ports and spot.node in ledger.nodes):
            job_id = job_id_of(id)
            has[job_id] = has[job_id].plus(part) if job_id in has else part
    return has


def _part(kind: BlockerKind, spot: Assignment, waiting: Waiting, ledger: Ledger) -> Amount:
    """What it has of the same pot."""
    if kind is BlockerKind.GROUP_QUOTA:
        return spot.amount if spot.group == waiting.group else _NOTHING
    if kind is BlockerKind.USER_QUOTA:
        return spot.amount if spot.group == waiting.group and spot.user == waiting.user else _NOTHING
    return spot.needs if spot.node in ledger.nodes else _NOTHING


def _weight(has: Amount, lacks: Amount | None) -> float:
    """How much of what is missing it would give."""
    wanted = lacks or Amount()
    parts = ((has.cpu, wanted.cpu), (has.memory, wanted.memory), (has.gpu, wanted.gpu))
    return sum(part / whole for part, whole in parts if whole)


def _holder(job_id: str, has: Amount, scene: Scene) -> Holder:
    known = scene.about(job_id)
    if known is None:
        return Holder(job_id=job_id, name="", user="", group="", has=has)
    seen = scene.sees(known.group)
    return Holder(
        job_id=job_id if seen else "",
        name=known.name if seen else "",
        user=known.user if seen else "",
        group=known.group if seen else "",
        has=has,
        since=known.since,
        until=known.until,
        held=known.held,
    )


# -- who goes first


def _ahead(waiting: Waiting, scene: Scene) -> tuple[tuple[Ahead, ...], int]:
    """The first that go before it, of all groups, and how many there are."""
    asks: dict[str, Amount] = {}
    looked_at = scene.queue.before(waiting, _AHEAD_LOOKED_AT)
    for other in looked_at:
        if other.job_id != waiting.job_id:
            asks[other.job_id] = asks.get(other.job_id, Amount()).plus(other.needs)
    count = len(asks) + scene.queue.count_before(waiting) - len(looked_at)
    return tuple(_goes_first(job_id, asks[job_id], scene) for job_id in list(asks)[:MAX_AHEAD]), count


def _goes_first(job_id: str, asks: Amount, scene: Scene) -> Ahead:
    known = scene.about(job_id)
    if known is None or not scene.sees(known.group):
        return Ahead(job_id="", name="", user="", group="", asks=asks)
    return Ahead(job_id=job_id, name=known.name, user=known.user, group=known.group, asks=asks)
