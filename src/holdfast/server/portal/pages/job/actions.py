"""What is done from the job list: several jobs stopped at once, and a first job run."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.jobs.service import StopReport

from ...forms import Form
from ...jobs.filters import LIMITS, PATH
from ...jobs.first_job import first_job
from ...routes import act
from ...visit import Visit

MAX_STOPPED = LIMITS[-1]  # as many as a page shows
MAX_TOLD = 5  # reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What came of it, told above the list."""

    done: str
    failed: tuple[str, ...]  # a sentence each


async def stop_jobs(visit: Visit, form: Form) -> Response:
    ids = list(dict.fromkeys(filter(None, form.all("job"))))
    if not ids:
        raise UserError(msg("No job is selected"), hint=msg("Tick the boxes of those that shall stop."))
    if len(ids) > MAX_STOPPED:
        raise UserError(msg("At most {most_stopped} jobs are stopped at once", most_stopped=MAX_STOPPED))
    told = _tell(visit, await visit.services.jobs.stop_many(visit.who, ids))
    if visit.wants_part:
        return await visit.show("jobs/_stopped.html", told)
    return visit.go(form.text("back") or PATH, " ".join(filter(None, (told.done, *told.failed))))


def _tell(visit: Visit, report: StopReport) -> Stopped:
    count, more = len(report.stopped), len(report.failed) - MAX_TOLD
    done = visit.words.count("{number} job is stopping.", "{number} jobs are stopping.", count).format(number=count)
    failed = [
        visit.say("{job} was not stopped: {reason}.", job=ref[:100], reason=visit.tell(error.message))
        for ref, error in report.failed[:MAX_TOLD]
    ]
    if more > 0:
        failed.append(visit.words.count("And {number} more.", "And {number} more.", more).format(number=more))
    return Stopped(done=done if count else "", failed=tuple(failed))


async def run_first_job(visit: Visit, form: Form) -> Response:
    hello = first_job(visit.who)
    group = form.text("group") or next(iter(hello.groups), None)
    made = await visit.services.jobs.submit(visit.who, hello.text, group=group)
    return visit.go(f"/jobs/{made.summary.id}", visit.say("Your first job is on its way. This page follows it."))


routes = [act("/jobs/stop", stop_jobs), act("/jobs/first", run_first_job)]
