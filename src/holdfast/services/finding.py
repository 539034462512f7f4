"""Which job somebody means, among those they may see."""

from __future__ import annotations

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound
from holdfast.core.records import JobSummary
from holdfast.store import jobs as job_rows
from holdfast.store.database import Store

LONGEST_REF = 300


async def find_job(store: Store, actor: Actor, ref: str) -> JobSummary:
    """By id, a part of it, or name. What one may not see is not there: the same answer as for what does not exist."""
    groups = None if actor.admin else tuple(actor.groups)
    found = None
    if len(ref) <= LONGEST_REF and groups != ():
        found = await store.read(job_rows.find, ref, groups)
    if found is None:
        raise NotFound(
            f"There is no job {ref[:100]}",
            hint="Give its id, the beginning or end of it, or its name. `holdfast ls` lists them.",
        )
    return found
