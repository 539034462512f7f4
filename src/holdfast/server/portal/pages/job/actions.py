"""Actions of the job list: stop several jobs, and run an example job."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.jobs.service import StopReport

from ...forms import Form
from ...jobs.filters import JOBS_PATH, PAGE_SIZES
from ...jobs.first_job import build_first_job
from ...routes import build_form_route
from ...visit import Visit

MAX_STOPPED_JOBS = PAGE_SIZES[-1]  # the largest page size
MAX_SHOWN_REASONS = 5  # reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class StopResult:
    """The result, shown above the list."""

    done: str
    failed: tuple[str, ...]  # one sentence each


async def stop_jobs(visit: Visit, form: Form) -> Response:
    ids = list(dict.fromkeys(filter(None, form.get_all("job"))))
    if not ids:
        raise UserError(msg("No job is selected"), hint=msg("Select the jobs to stop."))
    if len(ids) > MAX_STOPPED_JOBS:
        raise UserError(msg("At most {max_stopped} jobs can be stopped at once", max_stopped=MAX_STOPPED_JOBS))
    result = _build_stop_result(visit, await visit.services.jobs.stop_many(visit.current_actor, ids))
    if visit.wants_part:
        return await visit.render_response("jobs/_stopped.html", result)
    return visit.redirect(form.get_text("back") or JOBS_PATH, " ".join(filter(None, (result.done, *result.failed))))


def _build_stop_result(visit: Visit, report: StopReport) -> StopResult:
    count, more = len(report.stopped), len(report.failed) - MAX_SHOWN_REASONS
    done = visit.translate_plural("{number} job is stopping.", "{number} jobs are stopping.", count, number=count)
    failed = [
        visit.translate_text(
            "{job} was not stopped: {reason}.", job=ref[:100], reason=visit.translate_message(error.message)
        )
        for ref, error in report.failed[:MAX_SHOWN_REASONS]
    ]
    if more > 0:
        failed.append(visit.translate_plural("And {number} more.", "And {number} more.", more, number=more))
    return StopResult(done=done if count else "", failed=tuple(failed))


async def run_first_job(visit: Visit, form: Form) -> Response:
    hello = build_first_job(visit.current_actor)
    group = form.get_text("group") or next(iter(hello.groups), None)
    made = await visit.services.jobs.submit(visit.current_actor, hello.text, group=group)
    message = visit.translate_text("Your first job is submitted. This page shows its progress.")
    return visit.redirect(f"/jobs/{made.summary.id}", message)


routes = [build_form_route("/jobs/stop", stop_jobs), build_form_route("/jobs/first", run_first_job)]
