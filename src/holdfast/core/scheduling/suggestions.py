"""What would let a job start that waits, each as a sentence that was tried and holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from ..attempt_id import job_id_of
from ..messages import join_messages, msg
from .blockers import About, show_instant
from .ledger import Ledger
from .placement import EPSILON, Amount, Quota, Waiting, show_parts
from .queue import Queue
from .what_if import Effort, ask_for_less, starts_if, with_quotas, without_jobs

MAX_TRIED = 8  # jobs whose end is tried
MIB = 1 << 20


class Names(Protocol):
    @property
    def about(self) -> About: ...

    def called(self, job_id: str) -> str:
        """As whoever asks may know it."""
        ...

    def shows(self, job_id: str) -> bool: ...


def helps(
    waiting: Waiting, holders: Sequence[str], stuck: Sequence[str], queue: Queue, ledger: Ledger, names: Names
) -> tuple[str, ...]:
    """First what one can do oneself. `holders`: jobs that have what it lacks, or what those lack that go before it.
    `stuck`: jobs that go before it and wait too."""
    trial = _Trial(waiting, holders or _all(ledger), queue, ledger, names, Effort())
    less = [less.text for less in ask_for_less(waiting, queue, ledger, Effort())]
    others = [*trial.releases(), *trial.ends()]
    return (*less, *others, *(trial.turns(stuck) if stuck else ()), *trial.quotas())


def _all(ledger: Ledger) -> list[str]:
    return list(dict.fromkeys(job_id_of(id) for id in ledger.held))


class _Trial:
    def __init__(
        self, waiting: Waiting, holders: Sequence[str], queue: Queue, ledger: Ledger, names: Names, effort: Effort
    ) -> None:
        self._waiting = waiting
        self._queue = queue
        self._ledger = ledger
        self._names = names
        self._effort = effort
        self._jobs = [job_id for job_id in holders if job_id != waiting.job_id]
        self._known = {job_id: names.about(job_id) for job_id in self._jobs}

    def _without(self, jobs: Iterable[str], turns: Collection[str] = ()) -> bool:
        """`turns`: jobs that have had their turn."""
        change = without_jobs(self._ledger, jobs)
        return starts_if(self._waiting, self._queue, self._ledger, change, self._effort, without=turns)

    # -- failed tasks that are kept

    def releases(self) -> Iterator[str]:
        held = [job_id for job_id in self._jobs if self._is_held(job_id)][:MAX_TRIED]
        alone = [job_id for job_id in held if self._without([job_id])]
        for job_id in alone:
            yield self._release(job_id)
        if not alone and len(held) > 1 and self._without(held):
            yield msg(
                "It would start now if these {held} held jobs were let go: {held2}.",
                held=len(held),
                held2=self._list(held),
            )

    def _is_held(self, job_id: str) -> bool:
        known = self._known[job_id]
        return known is not None and known.held

    def _release(self, job_id: str) -> str:
        called, until = self._names.called(job_id), self._until(job_id)
        kept = msg("is held until {until}", until=show_instant(until)) if until else msg("is held")
        if not self._names.shows(job_id):
            return msg(
                "It would start now if {called}, which failed and {kept}, were let go.", called=called, kept=kept
            )
        return msg(
            "It would start now if {called}, which failed and {kept}, were let go: `holdfast release {job_id}`.",
            called=called,
            kept=kept,
            job_id=job_id,
        )

    # -- jobs that run

    def ends(self) -> Iterator[str]:
        found = self._fewest()
        if found:
            yield self._once(found)

    def _fewest(self, turns: Collection[str] = ()) -> Sequence[str]:
        """Jobs whose end would be enough: one, else the first few that end."""
        running = sorted((job_id for job_id in self._jobs if not self._is_held(job_id)), key=self._soonest)
        tried = running[:MAX_TRIED]
        one = next((job_id for job_id in tried if self._without([job_id], turns)), None)
        if one is not None:
            return [one]
        counts = range(2, len(tried) + 1)
        return next((tried[:count] for count in counts if self._without(tried[:count], turns)), [])

    # -- jobs that go before it and wait too

    def turns(self, stuck: Sequence[str]) -> Iterator[str]:
        if len(stuck) > MAX_TRIED:
            yield from self._many_turns(stuck)
            return
        alone = [job_id for job_id in stuck if self._without([], [job_id])]
        for job_id in alone:
            yield self._steps_back(job_id)
        if alone:
            return
        if self._without([], stuck):
            yield msg(
                "It would start now if these {stuck} jobs did not go before it: {stuck2}.",
                stuck=len(stuck),
                stuck2=self._list(stuck),
            )
            return
        ended = self._fewest(stuck)
        if ended and not self._without(ended):
            before, running = self._list(stuck), self._list(ended)
            yield msg(
                "It would start once these, which go before it, have run: {before}; and these have ended: {running}.",
                before=before,
                running=running,
            )

    def _many_turns(self, stuck: Sequence[str]) -> Iterator[str]:
        """The same of so many that they are not named."""
        count = len(stuck)
        if self._without([], stuck):
            yield msg("It would start now if the {count} jobs that wait before it did not go before it.", count=count)
            return
        ended = self._fewest(stuck)
        if ended and not self._without(ended):
            running = self._list(ended)
            yield msg(
                "It would start once the {count} jobs that wait before it have run, and these have ended: {running}.",
                count=count,
                running=running,
            )

    def _steps_back(self, job_id: str) -> str:
        called = self._names.called(job_id)
        if not self._names.shows(job_id):
            return msg("It would start now if {called} did not go before it.", called=called)
        return msg(
            "It would start now if {called} did not go before it: `holdfast stop {job_id}`, and "
            "submit that one anew, behind it.",
            called=called,
            job_id=job_id,
        )

    def _until(self, job_id: str) -> datetime | None:
        known = self._known[job_id]
        return known.until if known else None

    def _soonest(self, job_id: str) -> tuple[bool, float]:
        until = self._until(job_id)
        return until is None, until.timestamp() if until else 0.0

    def _once(self, jobs: Sequence[str]) -> str:
        ends = [self._until(job_id) for job_id in jobs]
        latest = None if None in ends else max(end for end in ends if end is not None)
        if len(jobs) == 1:
            called = self._names.called(jobs[0])
            if latest is None:
                return msg("It would start once {called} has ended, which has no time limit.", called=called)
            return msg(
                "It would start once {called} has ended, by {latest} at the latest.",
                called=called,
                latest=show_instant(latest),
            )
        listed = self._list(jobs)
        if latest is None:
            return msg(
                "It would start once these have ended, not all of which have a time limit: {listed}.", listed=listed
            )
        return msg(
            "It would start once these have ended, by {latest} at the latest: {listed}.",
            latest=show_instant(latest),
            listed=listed,
        )

    def _list(self, jobs: Sequence[str]) -> str:
        return join_messages(", ", (self._names.called(job_id) for job_id in jobs))

    # -- quotas

    def quotas(self) -> Iterator[str]:
        """Only where more of them would be enough."""
        group, user, total = self._waiting.group, self._waiting.user, self._waiting.total
        of_group, of_user = self._ledger.quota_of(group)
        more = _raised(of_group, self._ledger.used_by(group).plus(total))
        each = _raised(of_user, self._ledger.used_by_user(group, user).plus(total))
        for new_group, new_user in ((more, of_user), (of_group, each), (more, each)):
            if (new_group, new_user) != (of_group, of_user) and self._with_quotas(new_group, new_user):
                yield _raise_quotas(group, _grown(of_group, new_group), _grown(of_user, new_user))
                return

    def _with_quotas(self, of_group: Quota, of_user: Quota) -> bool:
        change = with_quotas(self._waiting.group, of_group, of_user)
        return starts_if(self._waiting, self._queue, self._ledger, change, self._effort)


def _raised(quota: Quota, needed: Amount) -> Quota:
    return Quota(
        cpu=None if quota.cpu is None else max(quota.cpu, round(needed.cpu, 3)),
        memory=None if quota.memory is None else max(quota.memory, _whole(needed.memory)),
        gpu=None if quota.gpu is None else max(quota.gpu, needed.gpu),
    )


def _whole(memory: int) -> int:
    return -(-memory // MIB) * MIB


def _grown(before: Quota, after: Quota) -> Amount:
    """The new bounds of those that were raised."""
    grown = after.cpu is not None and before.cpu is not None and after.cpu > before.cpu + EPSILON
    return Amount(
        cpu=after.cpu if grown and after.cpu is not None else 0.0,
        memory=after.memory if after.memory is not None and after.memory != before.memory else 0,
        gpu=after.gpu if after.gpu is not None and after.gpu != before.gpu else 0,
    )


def _raise_quotas(group: str, of_group: Amount, of_user: Amount) -> str:
    command = " ".join(("holdfast group set", group, *_options("--", of_group), *_options("--user-", of_user)))
    if of_user == Amount():
        return msg(
            "It would start now if an admin raised the quota of group {group} to {of_group}: `{command}`.",
            group=group,
            of_group=show_parts(of_group),
            command=command,
        )
    if of_group == Amount():
        return msg(
            "It would start now if an admin raised each user's quota in {group} to {of_user}: `{command}`.",
            group=group,
            of_user=show_parts(of_user),
            command=command,
        )
    return msg(
        "It would start now if an admin raised the quota of group {group} to {of_group}, and "
        "each user's to {of_user}: `{command}`.",
        group=group,
        of_group=show_parts(of_group),
        of_user=show_parts(of_user),
        command=command,
    )


def _options(prefix: str, amount: Amount) -> Iterator[str]:
    """Each, then its value."""
    if amount.cpu > EPSILON:
        yield from (f"{prefix}cpu", f"{amount.cpu:g}")
    if amount.memory:
        whole = amount.memory % (1024 * MIB) == 0
        yield from (f"{prefix}memory", f"{amount.memory // (1024 * MIB)}Gi" if whole else f"{amount.memory // MIB}Mi")
    if amount.gpu:
        yield from (f"{prefix}gpu", f"{amount.gpu}")
