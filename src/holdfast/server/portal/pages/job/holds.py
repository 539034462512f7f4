"""Held tasks of a job, and actions to extend and release them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.job import HoldScope
from holdfast.core.messages import msg
from holdfast.services.inside.holds import HeldTask
from holdfast.services.jobs.job_pages import JobHeader

from ...forms import Form
from ...routes import build_form_route
from ...visit import Visit
from .inside import build_task_access
from .view import build_job_address

MAX_EXTENSION_CHOICE = "most"  # up to the limit that the admin set
EXTENSION_DURATIONS = {"1d": timedelta(days=1), "3d": timedelta(days=3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldView:
    tasks: tuple[str, ...]
    until: datetime  # the latest end
    latest: datetime  # the latest allowed end
    whole: bool  # some tasks still hold all resources, so that they can be reduced to files
    can_act: bool
    longer: tuple[str, ...]  # possible extensions
    terminal: str = ""  # address of its terminal, if the user can connect

    @property
    def files_only(self) -> bool:
        return not self.whole


def build_hold_view(visit: Visit, job: JobHeader) -> HoldView | None:
    held = visit.services.holds.list_held_tasks(job.record.summary.id)
    if not held:
        return None
    until, latest = max(each.held.until for each in held), max(each.latest for each in held)
    allowed = tuple(name for name, length in EXTENSION_DURATIONS.items() if until + length < latest)
    return HoldView(
        tasks=tuple(each.task for each in held),
        until=until,
        latest=latest,
        whole=any(each.held.keep is HoldScope.ALL for each in held),
        can_act=job.can_act,
        longer=(*allowed, MAX_EXTENSION_CHOICE) if until < latest else (),
        terminal=_build_terminal_address(visit, job),
    )


def _build_terminal_address(visit: Visit, job: JobHeader) -> str:
    open_ones = visit.services.task_access.list_job_targets(visit.current_actor, job.record.summary)
    return next((build_task_access(visit, each).terminal for each in open_ones if each.held), "")


async def extend_hold(visit: Visit, form: Form) -> Response:
    ref, extension = visit.path_params["ref"], form.get_text("by")
    if extension not in (*EXTENSION_DURATIONS, MAX_EXTENSION_CHOICE):
        raise UserError(msg("Choose the duration of the hold extension"), field="by")
    job = await visit.services.job_pages.get(visit.current_actor, ref)
    id = job.record.summary.id
    held = visit.services.holds.list_held_tasks(id)
    if not held:  # the service raises the reason
        await visit.services.holds.extend(visit.current_actor, id)
    for each in held:
        until = _compute_hold_end(each, extension)
        await visit.services.holds.extend(visit.current_actor, id, task=each.task, until=until)
    return visit.redirect(build_job_address(id), visit.translate_text("The hold was extended."))


def _compute_hold_end(held: HeldTask, extension: str) -> datetime:
    """Return the new end, at most the limit of this task."""
    return (
        held.latest
        if extension == MAX_EXTENSION_CHOICE
        else min(held.latest, held.held.until + EXTENSION_DURATIONS[extension])
    )


async def release_hold(visit: Visit, form: Form) -> Response:
    job, _ = await visit.services.holds.release(visit.current_actor, visit.path_params["ref"])
    return visit.redirect(
        build_job_address(job.id), visit.translate_text("{name} was released and ends as Failed.", name=job.name)
    )


async def keep_files(visit: Visit, form: Form) -> Response:
    ref = visit.path_params["ref"]
    await visit.services.holds.keep_files(visit.current_actor, ref)
    message = visit.translate_text("Its processes were ended and their resources were released. Its files are kept.")
    return visit.redirect(f"/jobs/{ref}", message)


routes = [
    build_form_route("/jobs/{ref}/hold/extend", extend_hold),
    build_form_route("/jobs/{ref}/hold/release", release_hold),
    build_form_route("/jobs/{ref}/hold/files", keep_files),
]
