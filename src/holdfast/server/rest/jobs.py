"""/jobs: submit, list, show and change jobs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import Header, Query, Request
from starlette.responses import Response

from holdfast.api import jobs as api
from holdfast.api.pages import ItemList, Page
from holdfast.core.access import Actor, can_exec
from holdfast.core.errors import UserError
from holdfast.core.job import Hold
from holdfast.core.messages import msg
from holdfast.core.notifications import NotifySpec
from holdfast.core.records import JobFilter, TaskRecord
from holdfast.jobspec.holds import parse_hold
from holdfast.jobspec.notify import parse_notify
from holdfast.services.jobs.service import JobWithTasks, SubmitResult

from ..access_guard import make_job_access_check, make_request_guard
from ..auth import Caller, ServicesDep, authenticate_request, get_services
from ..errors import error_to_json, get_request_id
from ..responses import respond_json, respond_text
from .inside import list_ssh_commands
from .parameters import parse_states, parse_time, split_values
from .routing import build_router
from .schemas import Body
from .views import debugger_to_json, exit_to_json, format_time, job_spec_to_json, job_summary_to_json, record_to_json

router = build_router("jobs")

MAX_INTEGER = 2**62

JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A job file in any format: Holdfast YAML, OpenPAI v2 YAML, OpenPAI v1 JSON, PrimeHub's "
        "form, an sbatch script.",
        "content": {"text/yaml": {"schema": {"type": "string"}}, "application/json": {"schema": {"type": "object"}}},
    }
}
_GROUP_DESCRIPTION = "Submit to this group; overrides the file."
GroupName = Annotated[str | None, Query(max_length=200, description=_GROUP_DESCRIPTION)]
_DIALECT_DESCRIPTION = "The file format; default: detected."
Dialect = Annotated[str | None, Query(description=_DIALECT_DESCRIPTION)]
_FILE_NAME_DESCRIPTION = "Name of the file: the name of a job whose sbatch script sets none."
FileName = Annotated[str | None, Query(max_length=255, description=_FILE_NAME_DESCRIPTION)]
_HOLD_DESCRIPTION = (
    "Hold tasks whose command fails; overrides the file: true, 7d, files or files:7d; false disables the hold, also "
    "that of the group."
)
HoldText = Annotated[str | None, Query(alias="hold", max_length=100, description=_HOLD_DESCRIPTION)]
_NOTIFY_DESCRIPTION = "Events to notify the job's user of, regardless of the user's default events: failed,held."
NotifyText = Annotated[str | None, Query(alias="notify", max_length=200, description=_NOTIFY_DESCRIPTION)]

_ENGINE_DESCRIPTION = "Run the job on this engine; overrides the file."
EngineName = Annotated[str | None, Query(alias="engine", max_length=100, description=_ENGINE_DESCRIPTION)]


async def submit_job(request: Request) -> Response:
    """Submit a job. On the hot path: parsed by hand, because FastAPI's parsing costs more than everything else."""
    services = get_services(request)
    actor = await authenticate_request(request)
    body = await request.body()
    asked = _parse_submit_query(request.scope["query_string"])
    key = request.headers.get("idempotency-key")
    done = await services.jobs.submit(actor, _decode_job_text(body), key=key, **asked)
    return _respond_submitted(done)


SUBMIT_JOB_OPENAPI: dict[str, Any] = {
    "tags": ["jobs"],
    "summary": "Submit a job",
    "description": "The response means that the job is stored and will run. A request with the same Idempotency-Key "
    "returns the same job with status 200, so that you can safely retry.",
    "operationId": "submit_job",
    "parameters": [
        {"name": name, "in": where, "schema": {"type": "string"}, "description": description}
        for name, where, description in (
            ("group", "query", _GROUP_DESCRIPTION),
            ("dialect", "query", _DIALECT_DESCRIPTION),
            ("file_name", "query", _FILE_NAME_DESCRIPTION),
            ("hold", "query", _HOLD_DESCRIPTION),
            ("notify", "query", _NOTIFY_DESCRIPTION),
            ("engine", "query", _ENGINE_DESCRIPTION),
            ("Idempotency-Key", "header", "A unique key for each job, up to 200 characters."),
        )
    ],
    **JOB_BODY,
}


@router.post("/jobs/plan", response_model=api.Plan, openapi_extra=JOB_BODY)
async def plan_job(
    request: Request,
    actor: Caller,
    services: ServicesDep,
    group: GroupName = None,
    dialect: Dialect = None,
    file_name: FileName = None,
    hold: HoldText = None,
    notify: NotifyText = None,
    engine: EngineName = None,
) -> Response:
    """Show what would happen to this job if you submitted it now."""
    text = _decode_job_text(await request.body())
    planned = await services.jobs.plan(
        actor,
        text,
        group=group,
        dialect=dialect,
        file_name=file_name,
        hold=_parse_hold(hold),
        notify=_parse_notify(notify),
        engine=engine,
    )
    return respond_json(
        {
            "dialect": planned.job.dialect.value,
            "job": job_spec_to_json(planned.job, paths=actor.admin),
            "yaml": planned.yaml,
            "warnings": list(planned.warnings),
            "verdict": planned.verdict.answer,
            "reasons": list(planned.verdict.reasons),
            "slurm": [record_to_json(api.SlurmOption, option) for option in planned.slurm],
        }
    )


@router.get("/jobs", response_model=Page[api.ListedJob])
async def list_jobs(
    actor: Caller,
    services: ServicesDep,
    group: Annotated[list[str] | None, Query(description="a,b; default: all groups that you can see.")] = None,
    user: Annotated[str | None, Query(max_length=200)] = None,
    mine: Annotated[bool, Query(description="Only jobs that you submitted.")] = False,
    state: Annotated[list[str] | None, Query(description="Running,Failed")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Part of the name or the ID.")] = None,
    after: Annotated[str | None, Query(description="Submitted at this time or later.")] = None,
    before: Annotated[str | None, Query(description="Submitted before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=100, description="`next` of the previous page.")] = None,
) -> Response:
    """Newest first. A page can be short and still have a next one; only `next: null` marks the end."""
    filter = JobFilter(
        groups=split_values(group),
        user=actor.name if mine else user,
        states=parse_states(state),
        text=text,
        submitted_after=parse_time(after, "after"),
        submitted_before=parse_time(before, "before"),
    )
    page = await services.jobs.list(actor, filter, limit=limit, cursor=cursor)
    items = [
        {**job_summary_to_json(job), "debugger": services.debuggers.describe_free_debugger(job)} for job in page.items
    ]
    return respond_json({"items": items, "next": page.next})


@router.post("/jobs/stop", response_model=api.StopReport)
async def stop_jobs(
    request: Request, body: Body[api.StopJobsRequest], actor: Caller, services: ServicesDep
) -> Response:
    """Stop several jobs; if one cannot be stopped, the others are stopped anyway."""
    report = await services.jobs.stop_many(actor, body["jobs"])
    failed = [{"job": ref, "error": error_to_json(error, get_request_id(request))} for ref, error in report.failed]
    return respond_json({"stopped": list(report.stopped), "failed": failed})


@router.get("/jobs/{ref}", response_model=api.JobDetail)
async def show_job(request: Request, ref: str, actor: Caller, services: ServicesDep) -> Response:
    """By ID, a unique part of it (its start or end), or the newest job with that name."""
    detail = await services.jobs.get(actor, ref)
    job = detail.record.summary
    entrances, entering = services.task_access.list_job_targets(actor, job), can_exec(actor, job.group, job.user)
    failure = await services.insights.find_stored_diagnosis(detail.record)
    more = {
        "failure": None if failure is None else record_to_json(api.FailureSummary, failure),
        "debuggers": [
            debugger_to_json(each.task, each.debugger, entering=entering)
            for each in services.debuggers.list_job_debuggers(job.id)
        ],
        "ssh": list_ssh_commands(request, services.ssh_gateway, entrances),
    }
    return respond_json({**_detail_to_json(actor, detail), **more})


@router.post("/jobs/{ref}/stop", response_model=api.JobSummary, status_code=202)
async def stop_job(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """202 if it will stop; 200 if it had already ended."""
    summary, stopped = await services.jobs.stop(actor, ref)
    return respond_json(job_summary_to_json(summary), 202 if stopped else 200)


@router.post("/jobs/{ref}/rerun", response_model=api.SubmittedJob, status_code=201)
async def rerun_job(
    ref: str,
    actor: Caller,
    services: ServicesDep,
    hold: HoldText = None,
    notify: NotifyText = None,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Response:
    """Submit the same job again, as you."""
    done = await services.jobs.rerun(
        actor, ref, hold=_parse_hold(hold), notify=_parse_notify(notify), key=idempotency_key
    )
    return _respond_submitted(done)


@router.put("/jobs/{ref}/tags/{tag:path}", response_model=api.JobSummary)
async def tag_job(ref: str, tag: str, actor: Caller, services: ServicesDep) -> Response:
    """Add a tag to a job; no change if it already has it."""
    return respond_json(job_summary_to_json(await services.jobs.tag(actor, ref, tag)))


@router.delete("/jobs/{ref}/tags/{tag:path}", response_model=api.JobSummary)
async def untag_job(ref: str, tag: str, actor: Caller, services: ServicesDep) -> Response:
    """Remove a tag from a job."""
    return respond_json(job_summary_to_json(await services.jobs.untag(actor, ref, tag)))


@router.get("/jobs/{ref}/yaml")
async def show_job_yaml(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The job as a file to edit and resubmit, secrets masked: OpenPAI's jobs as v2 YAML, others as Holdfast YAML."""
    return respond_text(await services.jobs.export_yaml(actor, ref), "text/yaml")


@router.get("/jobs/{ref}/source")
async def show_job_source(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The job file as it was submitted, with secrets masked."""
    return respond_text(await services.jobs.load_source(actor, ref), "text/plain")


@router.get("/jobs/{ref}/wait", response_model=api.JobSummary)
async def wait_for_job(
    request: Request,
    ref: str,
    actor: Caller,
    services: ServicesDep,
    timeout: Annotated[float, Query(ge=0, le=60)] = 30,
    held: Annotated[bool, Query(description="Also respond as soon as it is on hold.")] = False,
) -> Response:
    """Responds when the job has ended, or with its current state after `timeout` seconds."""
    job = await services.jobs.find(actor, ref)
    guard = make_request_guard(services, request, make_job_access_check(job))
    return respond_json(
        job_summary_to_json(await guard.run_guarded(services.jobs.wait_for_job(job, timeout, held=held)))
    )


@router.get("/jobs/{ref}/events", response_model=api.EventPage)
async def list_job_events(
    ref: str,
    actor: Caller,
    services: ServicesDep,
    after: Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Only events with a higher seq.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """The events of a job, oldest first, with reason and user."""
    found = await services.jobs.list_events(actor, ref, after=after, limit=limit)
    following = found[-1].seq if len(found) == limit else None
    return respond_json({"items": [record_to_json(api.Event, event) for event in found], "next": following})


@router.get("/jobs/{ref}/tasks", response_model=ItemList[api.Task])
async def list_job_tasks(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """The newest try of each task of the current attempt."""
    return respond_json({"items": [task_to_json(record) for record in await services.jobs.list_tasks(actor, ref)]})


@router.get("/jobs/{ref}/attempts", response_model=ItemList[api.Attempt])
async def list_job_attempts(ref: str, actor: Caller, services: ServicesDep) -> Response:
    """Every try of every task, newest attempt first."""
    found = await services.jobs.list_attempts(actor, ref)
    items = [{"attempt": each.attempt, "tasks": [task_to_json(record) for record in each.tasks]} for each in found]
    return respond_json({"items": items})


def task_to_json(record: TaskRecord) -> dict[str, Any]:
    task = record.task
    stored = "kept" if task.started_at is not None else "none"
    return record_to_json(
        api.Task,
        task,
        attempt=record.attempt,
        attempt_id=record.attempt_id,
        exit=exit_to_json(task.exit or (task.held.exit if task.held else None)),
        logs="expired" if record.logs_removed_at is not None else stored,
        logs_expired_at=format_time(record.logs_removed_at),
    )


def _detail_to_json(actor: Actor, detail: JobWithTasks) -> dict[str, Any]:
    record = detail.record
    return {
        **job_summary_to_json(record.summary),
        "job": job_spec_to_json(record.job, paths=actor.admin),
        "description": record.job.description,
        "exit": exit_to_json(record.exit),
        "retries": {"user": record.user_retries, "platform": record.platform_retries},
        "retry_at": format_time(record.retry_at),
        "time_limit": None if detail.time_limit is None else detail.time_limit.total_seconds(),
        "stop": None if record.stop is None else record_to_json(api.StopRequest, record.stop),
        "tasks": [task_to_json(task) for task in detail.tasks],
        "decided_by": record.outcome.task if record.outcome else None,
        "waiting": list(detail.waiting) if detail.waiting is not None else None,
        "isolation": detail.isolation.value,
        "slurm": [record_to_json(api.SlurmOption, option) for option in detail.slurm],
    }


def _respond_submitted(done: SubmitResult) -> Response:
    return respond_json(
        {**job_summary_to_json(done.summary), "warnings": list(done.warnings)}, 201 if done.created else 200
    )


def _decode_job_text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            msg("The job file is not UTF-8 text (byte {start})", start=error.start),
            hint=msg("Save it as UTF-8 and try again."),
        ) from None


def _parse_submit_query(query: bytes) -> dict[str, Any]:
    if not query:
        return {}
    found = {name: values[-1] for name, values in parse_qs(query.decode("ascii", "replace")).items()}
    return {
        "group": found.get("group"),
        "dialect": found.get("dialect"),
        "file_name": found.get("file_name"),
        "hold": _parse_hold(found.get("hold")),
        "notify": _parse_notify(found.get("notify")),
        "engine": found.get("engine"),
    }


def _parse_hold(word: str | None) -> Hold | None:
    return None if word is None else parse_hold(word)


def _parse_notify(words: str | None) -> NotifySpec | None:
    return None if words is None else parse_notify(words)
