"""How many failed tasks may be held at a time, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.holds import DEFAULT, HoldPolicy, held_for
from holdfast.core.job import Job
from holdfast.core.messages import msg
from holdfast.core.states import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLimits:
    """The admin's."""

    enabled: bool = True
    duration: timedelta = DEFAULT
    longest: timedelta = DEFAULT * 4
    per_user: int = 10
    total: int = 100

    def policy(self, job: Job) -> HoldPolicy | None:
        return held_for(job.hold, self.duration, self.longest) if self.enabled else None


def held_tasks(snapshots: Iterable[JobSnapshot]) -> list[tuple[JobSnapshot, TaskAttempt]]:
    return [
        (snapshot, task)
        for snapshot in snapshots
        if snapshot.state is JobState.HELD
        for task in snapshot.tasks
        if task.state is TaskState.HELD
    ]


def with_room(
    policy: HoldPolicy, limits: HoldLimits, user: str, held: Sequence[tuple[JobSnapshot, TaskAttempt]]
) -> HoldPolicy:
    own = sum(snapshot.user == user for snapshot, _ in held)
    room, room_of_all = limits.per_user - own, limits.total - len(held)
    if room <= room_of_all:
        own = max(own, limits.per_user)  # by the time that one is refused, others may have taken the room there was
        refusal = msg(
            "{user} has {own} held tasks, and may have {per_user}. `holdfast release` lets one go.",
            user=user,
            own=own,
            per_user=limits.per_user,
        )
        return replace(policy, room=room, refusal=refusal)
    refusal = msg(
        "{held} tasks are held here, and no more than {total} may be",
        held=max(len(held), limits.total),
        total=limits.total,
    )
    return replace(policy, room=room_of_all, refusal=refusal)
