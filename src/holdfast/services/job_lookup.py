"""Finding jobs that a user can read or change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.core.access import Actor, build_action_forbidden_error, can_act_on
from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import JobNotFound, NotFound
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

MAX_REF_LENGTH = 300


async def find_job(store: Store, actor: Actor, ref: str) -> JobSummary:
    """Find a job by id, part of its id, or name. The same NotFound if the actor cannot read it."""
    groups = list_readable_groups(actor)
    found = None
    if len(ref) <= MAX_REF_LENGTH and groups != ():
        found = await store.read(job_rows.find_job, ref, groups)
    if found is None:
        raise JobNotFound(
            msg("Job {ref} not found", ref=ref[:100]),
            hint=msg("Use a job's ID, the start or end of its ID, or its name. `holdfast ls` lists jobs."),
        )
    return found


async def find_modifiable_job(store: Store, actor: Actor, ref: str) -> JobSummary:
    """Prefer a modifiable job to a read-only one of the same name; Forbidden if there are only read-only ones."""
    try:
        found = await find_job(store, replace(actor, can_read_all_jobs=False), ref)
    except NotFound:
        if not actor.can_read_all_jobs:
            raise
        found = await find_job(store, actor, ref)
    if can_act_on(actor, found.group, found.user):
        return found
    own = await _find_modifiable_by_name(store, actor, ref) if found.id != ref else None
    if own is None:
        raise build_action_forbidden_error(found.group, found.user, member=found.group in actor.groups)
    return own


async def _find_modifiable_by_name(store: Store, actor: Actor, name: str) -> JobSummary | None:
    """Find the actor's own job of a name, else the newest in a group that they are an admin of."""
    own = await store.read(job_rows.find_newest_named_job, actor.name, name, tuple(actor.groups))
    led = tuple(group for group, admin in actor.groups.items() if admin)
    if own is None and led:
        return await store.read(job_rows.find_job, name, led)
    return own


async def find_newest_live_job(store: Store, actor: Actor, name: str, live: Iterable[JobSnapshot]) -> JobSummary | None:
    """Find the actor's newest job of this name in `live`; the last of several submitted at the same time."""
    own = [snapshot for snapshot in live if snapshot.user == actor.name and snapshot.job.name == name]
    newest = max(reversed(own), key=lambda snapshot: snapshot.submitted_at, default=None)
    if newest is None or (groups := list_readable_groups(actor)) == ():
        return None
    return await store.read(job_rows.find_job, newest.id, groups)


def list_readable_groups(actor: Actor) -> tuple[str, ...] | None:
    """Return the groups whose jobs the actor can read; None: all."""
    return None if actor.admin or actor.can_read_all_jobs else tuple(actor.groups)
