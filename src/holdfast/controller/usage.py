"""Resources in use per node, group and job."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.attempt_id import parse_job_id
from holdfast.core.records import Group
from holdfast.core.scheduling.ledger import Ledger
from holdfast.core.scheduling.placement import Assignment, GroupUsage, JobUsage, NodeUsage, sum_amounts

from .live_jobs import LiveJob


def collect_usage(ledger: Ledger, groups: Mapping[str, Group]) -> tuple[list[NodeUsage], list[GroupUsage]]:
    nodes = [
        NodeUsage(node=node, free=ledger.get_free_amount(name), waiting=ledger.queued.get(name, 0))
        for name, node in ledger.nodes.items()
    ]
    users = ledger.get_usage_by_user()
    used = [
        GroupUsage(
            group=name,
            used=ledger.get_group_usage(name),
            quota=group.quota,
            user_quota=group.user_quota,
            users=users.get(name, {}),
        )
        for name, group in groups.items()
    ]
    return nodes, used


def collect_job_usage(ledger: Ledger, live: Mapping[str, LiveJob]) -> list[JobUsage]:
    held: dict[str, list[Assignment]] = {}
    for assignment in ledger.assignments.values():
        held.setdefault(parse_job_id(assignment.attempt_id), []).append(assignment)
    return [_build_job_usage(job_id, assignments, live.get(job_id)) for job_id, assignments in held.items()]


def _build_job_usage(job_id: str, held: list[Assignment], live: LiveJob | None) -> JobUsage:
    types = dict.fromkeys(role.instance_type for role in live.snapshot.job.roles) if live else {}
    return JobUsage(
        job=job_id,
        user=held[0].user,
        group=held[0].group,
        instance_types=tuple(name for name in types if name),
        used=sum_amounts(assignment.amount for assignment in held),
    )
