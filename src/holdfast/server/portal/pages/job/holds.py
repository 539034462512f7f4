"""What of a job is held, for how much longer, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.job import Keep
from holdfast.core.messages import msg
from holdfast.services.inside.holds import HeldTask
from holdfast.services.jobs.detail import Closeup

from ...forms import Form
from ...routes import act
from ...visit import Visit
from .inside import inside
from .view import job_address

MOST = "most"  # as long as the admin allows
DAYS = {"1d": timedelta(days=1), "3d": timedelta(days=3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldView:
    tasks: tuple[str, ...]
    until: datetime  # the last of them
    latest: datetime  # as long as it may be
    whole: bool  # some have all they had, so that files alone could be kept
    may_act: bool
    longer: tuple[str, ...]  # by how much it can be extended
    terminal: str = ""  # the address of one into it, for those who may enter

    @property
    def files_only(self) -> bool:
        return not self.whole


def hold_view(visit: Visit, job: Closeup) -> HoldView | None:
    held = visit.services.holds.of(job.record.summary.id)
    if not held:
        return None
    until, latest = max(each.held.until for each in held), max(each.latest for each in held)
    fitting = tuple(word for word, length in DAYS.items() if until + length < latest)
    return HoldView(
        tasks=tuple(each.task for each in held),
        until=until,
        latest=latest,
        whole=any(each.held.keep is Keep.ALL for each in held),
        may_act=job.may_act,
        longer=(*fitting, MOST) if until < latest else (),
        terminal=_terminal(visit, job),
    )


def _terminal(visit: Visit, job: Closeup) -> str:
    open_ones = visit.services.entering.tasks_of(visit.who, job.record.summary)
    return next((inside(visit, each).terminal for each in open_ones if each.held), "")


async def extend_hold(visit: Visit, form: Form) -> Response:
    ref, wanted = visit.request.path_params["ref"], form.text("by")
    if wanted not in (*DAYS, MOST):
        raise UserError(msg("Say by how much the hold shall be longer"), field="by")
    job = await visit.services.closeup.get(visit.who, ref)
    id = job.record.summary.id
    held = visit.services.holds.of(id)
    if not held:  # which says why
        await visit.services.holds.extend(visit.who, id)
    for each in held:
        await visit.services.holds.extend(visit.who, id, task=each.task, until=_end(each, wanted))
    return visit.go(job_address(id), visit.say("The hold is extended."))


def _end(held: HeldTask, wanted: str) -> datetime:
    """No longer than may be: of several tasks, each has a limit of its own."""
    return held.latest if wanted == MOST else min(held.latest, held.held.until + DAYS[wanted])


async def release_hold(visit: Visit, form: Form) -> Response:
    job, _ = await visit.services.holds.release(visit.who, visit.request.path_params["ref"])
    return visit.go(job_address(job.id), visit.say("{name} is released: it ends as failed.", name=job.name))


async def keep_files(visit: Visit, form: Form) -> Response:
    ref = visit.request.path_params["ref"]
    await visit.services.holds.keep_files(visit.who, ref)
    said = visit.say("Its programs are ended and give back what they used; the files stay.")
    return visit.go(f"/jobs/{ref}", said)


routes = [
    act("/jobs/{ref}/hold/extend", extend_hold),
    act("/jobs/{ref}/hold/release", release_hold),
    act("/jobs/{ref}/hold/files", keep_files),
]
