"""Which job somebody means, among those they may see or act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.core.access import Actor, may_act, refuse_act
from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

MAX_REF_LENGTH = 300


async def find_job(store: Store, actor: Actor, ref: str) -> JobSummary:
    """By id, a part of it, or name. What one may not see is not there: the same answer as for what does not exist."""
    groups = readable_groups(actor)
    found = None
    if len(ref) <= MAX_REF_LENGTH and groups != ():
        found = await store.read(job_rows.find, ref, groups)
    if found is None:
        raise NotFound(
            msg("There is no job {ref}", ref=ref[:100]),
            hint=msg("Give its id, the beginning or end of it, or its name. `holdfast ls` lists them."),
        )
    return found


async def find_own_job(store: Store, actor: Actor, ref: str) -> JobSummary:
    """One that the actor may also act on. A job that may only be read never stands in the way of one's own of the same
    name; Forbidden when there is nothing but that.
    """
    try:
        found = await find_job(store, replace(actor, reads_all=False), ref)
    except NotFound:
        if not actor.reads_all:
            raise
        found = await find_job(store, actor, ref)
    if may_act(actor, found.group, found.user):
        return found
    own = await _own_of_that_name(store, actor, ref) if found.id != ref else None
    if own is None:
        raise refuse_act(found.group, found.user, member=found.group in actor.groups)
    return own


async def _own_of_that_name(store: Store, actor: Actor, name: str) -> JobSummary | None:
    """Where the newest job of a name is another's: the actor's own, else the newest in a group they are an admin of."""
    own = await store.read(job_rows.newest_named, actor.name, name, tuple(actor.groups))
    led = tuple(group for group, admin in actor.groups.items() if admin)
    if own is None and led:
        return await store.read(job_rows.find, name, led)
    return own


async def newest_live(store: Store, actor: Actor, name: str, live: Iterable[JobSnapshot]) -> JobSummary | None:
    """The newest of those jobs that has this name and is the actor's own; of the same instant, the last."""
    own = [snapshot for snapshot in live if snapshot.user == actor.name and snapshot.job.name == name]
    newest = max(reversed(own), key=lambda snapshot: snapshot.submitted_at, default=None)
    if newest is None or (groups := readable_groups(actor)) == ():
        return None
    return await store.read(job_rows.find, newest.id, groups)


def readable_groups(actor: Actor) -> tuple[str, ...] | None:
    """Whose jobs the actor may read; None: all."""
    return None if actor.admin or actor.reads_all else tuple(actor.groups)
