"""What is in use, per machine, group and job."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.attempt_id import job_id_of
from holdfast.core.records import Group
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Assignment, GroupUse, JobUse, NodeUse, sum_of

from .live import Live


def use_of(ledger: Ledger, groups: Mapping[str, Group]) -> tuple[list[NodeUse], list[GroupUse]]:
    nodes = [NodeUse(node=node, free=ledger.free[name]) for name, node in ledger.nodes.items()]
    users = ledger.use_by_user()
    used = [
        GroupUse(
            group=name,
            used=ledger.used_by(name),
            quota=group.quota,
            user_quota=group.user_quota,
            users=users.get(name, {}),
        )
        for name, group in groups.items()
    ]
    return nodes, used


def use_by_jobs(ledger: Ledger, live: Mapping[str, Live]) -> list[JobUse]:
    held: dict[str, list[Assignment]] = {}
    for assignment in ledger.held.values():
        held.setdefault(job_id_of(assignment.attempt_id), []).append(assignment)
    return [_job_use(job_id, assignments, live.get(job_id)) for job_id, assignments in held.items()]


def _job_use(job_id: str, held: list[Assignment], live: Live | None) -> JobUse:
    types = dict.fromkeys(role.instance_type for role in live.snapshot.job.roles) if live else {}
    return JobUse(
        job=job_id,
        user=held[0].user,
        group=held[0].group,
        instance_types=tuple(name for name in types if name),
        used=sum_of(assignment.amount for assignment in held),
    )
