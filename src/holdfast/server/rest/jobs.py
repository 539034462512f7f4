"""/jobs: submit, look, act."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Header, Query, Request
from starlette.responses import Response

from holdfast.api import jobs as api
from holdfast.api.pages import Items, Page
from holdfast.core.access import Actor, may_enter
from holdfast.core.errors import UserError
from holdfast.core.job import Hold
from holdfast.core.messages import msg
from holdfast.core.notifications import Notify
from holdfast.core.records import JobFilter, TaskRecord
from holdfast.jobspec.holds import parse_hold
from holdfast.jobspec.notifying import parse_notify
from holdfast.services.jobs.service import Detail, Submitted

from ..access_guard import guard_request, require_job
from ..answers import answer, answer_text
from ..auth import Ask, Caller, actor_of, services_of
from ..errors import error_body, request_id_of
from .addresses import rest_router
from .inside import show_lines
from .parameters import parse_states, parse_time, split
from .schemas import Body
from .views import (
    show_debugger,
    show_event,
    show_exit,
    show_held,
    show_kept,
    show_ports,
    show_seconds,
    show_spec,
    show_summary,
    show_time,
)

router = rest_router("jobs")

BIG = 2**62

JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A job file in any dialect: Holdfast YAML, OpenPAI v2 YAML, OpenPAI v1 JSON, PrimeHub's form.",
        "content": {
            "text/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}
Group = Annotated[str | None, Query(max_length=200, description="Submit to this group, whatever the file says.")]
Dialect = Annotated[str | None, Query(description="Read it as this dialect; left out: it is recognised.")]
_HOLD = (
    "Keep a task whose command fails, whatever the file says: true, 7d, files or files:7d; false: not even where the "
    "group's jobs are held."
)
HoldWord = Annotated[str | None, Query(alias="hold", max_length=100, description=_HOLD)]
_NOTIFY = "Events to tell the job's user of, whatever they chose for others: failed,held."
NotifyWords = Annotated[str | None, Query(alias="notify", max_length=200, description=_NOTIFY)]


async def submit_job(request: Request) -> Response:
    """The hot path: read by hand, for what the framework would do here costs more than the whole rest."""
    services = services_of(request)
    actor = await actor_of(request)
    body = await request.body()
    asked = _submit_query(request.scope["query_string"])
    key = request.headers.get("idempotency-key")
    done = await services.jobs.submit(actor, _text(body), key=key, **asked)
    return _show_submitted(done)


SUBMIT_DOCS: dict[str, Any] = {
    "tags": ["jobs"],
    "summary": "Submit a job",
    "description": "When this answers, the job is on disk and will be run. With the same Idempotency-Key again the "
    "same job is answered with status 200, so that a request may be repeated safely.",
    "operationId": "submit_job",
    "parameters": [
        {
            "name": "group",
            "in": "query",
            "schema": {"type": "string"},
            "description": "Submit to this group, whatever the file says.",
        },
        {
            "name": "dialect",
            "in": "query",
            "schema": {"type": "string"},
            "description": "Read it as this dialect; left out: it is recognised.",
        },
        {
            "name": "hold",
            "in": "query",
            "schema": {"type": "string"},
            "description": _HOLD,
        },
        {
            "name": "notify",
            "in": "query",
            "schema": {"type": "string"},
            "description": _NOTIFY,
        },
        {
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string"},
            "description": "Up to 200 characters of one's own making, one for each job.",
        },
    ],
    **JOB_BODY,
}


@router.post("/jobs/plan", response_model=api.Plan, openapi_extra=JOB_BODY)
async def plan_job(
    request: Request,
    actor: Caller,
    services: Ask,
    group: Group = None,
    dialect: Dialect = None,
    hold: HoldWord = None,
    notify: NotifyWords = None,
) -> Response:
    """What would happen to this job if it were submitted now."""
    text = _text(await request.body())
    planned = await services.jobs.plan(
        actor, text, group=group, dialect=dialect, hold=_hold(hold), notify=_notify(notify)
    )
    return answer(
        {
            "dialect": planned.job.dialect.value,
            "job": show_spec(planned.job, paths=actor.admin),
            "yaml": planned.yaml,
            "warnings": list(planned.warnings),
            "verdict": planned.verdict.answer,
            "reasons": list(planned.verdict.reasons),
        }
    )


@router.get("/jobs", response_model=Page[api.ListedJob])
async def list_jobs(
    actor: Caller,
    services: Ask,
    group: Annotated[list[str] | None, Query(description="a,b; left out: all one may see.")] = None,
    user: Annotated[str | None, Query(max_length=200)] = None,
    mine: Annotated[bool, Query(description="Those one submitted oneself.")] = False,
    state: Annotated[list[str] | None, Query(description="Running,Failed")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Part of the name or the id.")] = None,
    after: Annotated[str | None, Query(description="Submitted then or later.")] = None,
    before: Annotated[str | None, Query(description="Submitted earlier.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=100, description="`next` of the page before.")] = None,
) -> Response:
    """Newest first. A page may be short and still have a next one; only `next: null` means the end."""
    filter = JobFilter(
        groups=split(group),
        user=actor.name if mine else user,
        states=parse_states(state),
        text=text,
        submitted_after=parse_time(after, "after"),
        submitted_before=parse_time(before, "before"),
    )
    page = await services.jobs.list(actor, filter, limit=limit, cursor=cursor)
    items = [{**show_summary(job), "debugger": services.debuggers.waits_at(job)} for job in page.items]
    return answer({"items": items, "next": page.next})


@router.post("/jobs/stop", response_model=api.StopReport)
async def stop_jobs(request: Request, body: Body[api.StopMany], actor: Caller, services: Ask) -> Response:
    """Stop several jobs; one that cannot be stopped does not keep the others running."""
    report = await services.jobs.stop_many(actor, body["jobs"])
    failed = [{"job": ref, "error": error_body(error, request_id_of(request))} for ref, error in report.failed]
    return answer({"stopped": list(report.stopped), "failed": failed})


@router.get("/jobs/{ref}", response_model=api.JobDetail)
async def show_job(request: Request, ref: str, actor: Caller, services: Ask) -> Response:
    """By id, a unique part of it (its beginning or end), or the newest job of that name."""
    detail = await services.jobs.get(actor, ref)
    job = detail.record.summary
    entrances, entering = services.entering.tasks_of(actor, job), may_enter(actor, job.group, job.user)
    more = {
        "failure": show_kept(await services.insights.kept_diagnosis(detail.record)),
        "debuggers": [
            show_debugger(each.task, each.debugger, entering=entering) for each in services.debuggers.of(job.id)
        ],
        "ssh": show_lines(request, services.ssh_gate, entrances),
    }
    return answer({**_show_detail(actor, detail), **more})


@router.post("/jobs/{ref}/stop", response_model=api.JobSummary, status_code=202)
async def stop_job(ref: str, actor: Caller, services: Ask) -> Response:
    """202 when it will stop; 200 when it had ended before and nothing changes."""
    summary, stopped = await services.jobs.stop(actor, ref)
    return answer(show_summary(summary), 202 if stopped else 200)


@router.post("/jobs/{ref}/rerun", response_model=api.SubmittedJob, status_code=201)
async def rerun_job(
    ref: str,
    actor: Caller,
    services: Ask,
    hold: HoldWord = None,
    notify: NotifyWords = None,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Response:
    """The same job anew, as whoever asks."""
    done = await services.jobs.rerun(actor, ref, hold=_hold(hold), notify=_notify(notify), key=idempotency_key)
    return _show_submitted(done)


@router.put("/jobs/{ref}/tags/{tag:path}", response_model=api.JobSummary)
async def tag_job(ref: str, tag: str, actor: Caller, services: Ask) -> Response:
    """Mark a job with a word; no change when it has it."""
    return answer(show_summary(await services.jobs.tag(actor, ref, tag)))


@router.delete("/jobs/{ref}/tags/{tag:path}", response_model=api.JobSummary)
async def untag_job(ref: str, tag: str, actor: Caller, services: Ask) -> Response:
    """Take such a word away again."""
    return answer(show_summary(await services.jobs.untag(actor, ref, tag)))


@router.get("/jobs/{ref}/yaml")
async def job_yaml(ref: str, actor: Caller, services: Ask) -> Response:
    """As a file to change and submit again, secrets masked: OpenPAI's jobs as v2 YAML, all others in Holdfast's own."""
    return answer_text(await services.jobs.yaml(actor, ref), "text/yaml")


@router.get("/jobs/{ref}/source")
async def job_source(ref: str, actor: Caller, services: Ask) -> Response:
    """As it was submitted, secrets masked."""
    return answer_text(await services.jobs.source(actor, ref), "text/plain")


@router.get("/jobs/{ref}/wait", response_model=api.JobSummary)
async def wait_for_job(
    request: Request,
    ref: str,
    actor: Caller,
    services: Ask,
    timeout: Annotated[float, Query(ge=0, le=60)] = 30,
    held: Annotated[bool, Query(description="Answer also as soon as it is held.")] = False,
) -> Response:
    """Answers as soon as the job has ended, or with the job as it is after `timeout` seconds."""
    job = await services.jobs.find(actor, ref)
    guard = guard_request(services, request, require_job(job))
    return answer(show_summary(await guard.run(services.jobs.wait_for(job, timeout, held=held))))


@router.get("/jobs/{ref}/events", response_model=api.EventPage)
async def job_events(
    ref: str,
    actor: Caller,
    services: Ask,
    after: Annotated[int, Query(ge=0, le=BIG, description="Only those with a higher seq.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """What happened, oldest first, with its reason and who caused it."""
    found = await services.jobs.events(actor, ref, after=after, limit=limit)
    following = found[-1].seq if len(found) == limit else None
    return answer({"items": [show_event(event) for event in found], "next": following})


@router.get("/jobs/{ref}/tasks", response_model=Items[api.Task])
async def job_tasks(ref: str, actor: Caller, services: Ask) -> Response:
    """The newest try of each task of the current attempt."""
    return answer({"items": [show_task(record) for record in await services.jobs.tasks(actor, ref)]})


@router.get("/jobs/{ref}/attempts", response_model=Items[api.Attempt])
async def job_attempts(ref: str, actor: Caller, services: Ask) -> Response:
    """Every try of every task, newest attempt first."""
    found = await services.jobs.attempts(actor, ref)
    items = [{"attempt": each.attempt, "tasks": [show_task(record) for record in each.tasks]} for each in found]
    return answer({"items": items})


def show_task(record: TaskRecord) -> dict[str, Any]:
    task = record.task
    kept = "kept" if task.started_at is not None else "none"
    return {
        "task": task.task,
        "role": task.role,
        "index": task.index,
        "attempt": record.attempt,
        "number": task.number,
        "attempt_id": record.attempt_id,
        "state": task.state.value,
        "node": task.node,
        "gpus": list(task.gpus),
        "ports": show_ports(task.ports),
        "placed_at": show_time(task.placed_at),
        "started_at": show_time(task.started_at),
        "finished_at": show_time(task.finished_at),
        "exit": show_exit(task.exit or (task.held.exit if task.held else None)),
        "held": show_held(task.held),
        "logs": "expired" if record.logs_removed_at is not None else kept,
        "logs_expired_at": show_time(record.logs_removed_at),
    }


def _show_detail(actor: Actor, detail: Detail) -> dict[str, Any]:
    record = detail.record
    stop = record.stop
    return {
        **show_summary(record.summary),
        "job": show_spec(record.job, paths=actor.admin),
        "description": record.job.description,
        "exit": show_exit(record.exit),
        "retries": {"user": record.user_retries, "platform": record.platform_retries},
        "retry_at": show_time(record.retry_at),
        "time_limit": show_seconds(detail.time_limit),
        "stop": {"actor": stop.actor, "at": show_time(stop.at), "why": stop.why} if stop is not None else None,
        "tasks": [show_task(task) for task in detail.tasks],
        "decided_by": record.outcome.task if record.outcome else None,
        "waiting": list(detail.waiting) if detail.waiting is not None else None,
        "isolation": detail.isolation.value,
    }


def _show_submitted(done: Submitted) -> Response:
    return answer({**show_summary(done.summary), "warnings": list(done.warnings)}, 201 if done.created else 200)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            msg("The job file is not UTF-8 text (byte {start})", start=error.start),
            hint=msg("Save it as UTF-8 and try again."),
        ) from None


def _submit_query(query: bytes) -> dict[str, Any]:
    """What `submit` is to be given of it."""
    if not query:
        return {}
    found = {name: values[-1] for name, values in parse_qs(query.decode("ascii", "replace")).items()}
    return {
        "group": found.get("group"),
        "dialect": found.get("dialect"),
        "hold": _hold(found.get("hold")),
        "notify": _notify(found.get("notify")),
    }


def _hold(word: str | None) -> Hold | None:
    return None if word is None else parse_hold(word)


def _notify(words: str | None) -> Notify | None:
    return None if words is None else parse_notify(words)
