"""The `show` command: the details of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import output
from ..quantities import format_count, format_duration, format_local_time, format_size, format_span, utc_now
from ..slurm_options import iter_task_option_lines
from .artifact_messages import shorten_lines
from .debugger_notification import format_debugger_location, list_unattached_debuggers
from .holds import build_rerun_command, format_hold
from .why import iter_usage_lines

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.api.why import JobExplanation
    from holdfast.sdk import Attempt, Debugger, JobDetail, Task

MAX_COMMAND_LINES = 5  # of a role's command; `holdfast clone` prints all
MAX_WARNINGS = 5
MAX_DEBUGGERS = 10
MAX_HELD_TASKS = 20  # tasks whose remaining time is shown
TASK_COLUMNS = ("TASK", "STATE", "TRY", "NODE", "STARTED", "RAN", "EXIT", "LOGS")


def show_job(
    job: JobDetail,
    attempts: Sequence[Attempt],
    warnings: Sequence[str] = (),
    artifacts: Sequence[str] = (),
    not_held: str = "",
    why: JobExplanation | None = None,
) -> None:
    """Print a job. `not_held`: why a failed task is not held. `why`: the verdict on an ended or held job."""
    output.emit_line(output.render_to_string(_build_heading(job)))
    for label, value in _iter_job_fields(job, why):
        output.emit_line(f"  {label:<11} {output.escape(value)}")
    if not_held:
        output.emit_line(f"  not held    {output.escape(not_held)}")
    for at, line in enumerate(shorten_lines(artifacts, job.id)):
        output.emit_line(f"  {'' if at else 'artifacts':<11} {output.escape(line)}")
    for reason in job.waiting or ():
        output.emit_line(f"  waiting     {output.escape(reason)}")
    for warning in warnings[:MAX_WARNINGS]:
        output.emit_line(f"  warning     {output.escape(warning)}")
    if len(warnings) > MAX_WARNINGS:
        output.emit_line(f"              and {len(warnings) - MAX_WARNINGS} more: holdfast events {job.id}")
    for attempt in attempts:
        output.emit_line(f"\nAttempt {attempt.attempt}")
        _show_tasks(attempt.tasks)
    if not attempts and job.tasks:
        output.emit_line()
        _show_tasks(job.tasks)
    _print_next_commands(job)


def _build_heading(job: JobDetail) -> Text:
    text = output.to_cell(job.name)
    text.stylize("bold")
    text.append(f"  {job.id}  ", style="not bold")
    text.append_text(output.build_state_cell(job.state, job.stopping))
    return text


def _choose_reason(job: JobDetail, why: JobExplanation | None) -> str:
    """Return the verdict, if there is one, else the message of the job if it says more than the state."""
    failure = why.failure if why else None
    if failure is None or failure.fault == "unknown" or str(job.state) not in ("Failed", "Held"):
        return "" if job.message == str(job.state) else job.message
    return f"{failure.task}: {failure.title}" if failure.task else failure.title


def _iter_job_fields(job: JobDetail, why: JobExplanation | None) -> Iterator[tuple[str, object]]:
    now = utc_now()
    if reason := _choose_reason(job, why):
        yield "reason", reason
    if job.exit and job.exit.hint:
        yield "hint", job.exit.hint
    if job.description:
        yield "description", job.description
    yield "owner", f"{job.user}, group {job.group}"
    yield "submitted", f"{format_local_time(job.submitted_at)} ({format_span(job.submitted_at, None, now)} ago)"
    if job.started_at:
        yield "started", f"{format_local_time(job.started_at)}, ran {format_span(job.started_at, job.finished_at, now)}"
    if job.finished_at:
        yield "finished", format_local_time(job.finished_at)
    if job.exit_code is not None:
        yield "exit code", job.exit_code
    for task in [task for task in job.tasks if task.held and task.state == "Held"][:MAX_HELD_TASKS]:
        assert task.held is not None
        yield "held", f"{task.task} {format_hold(task.held, now)}"
    for debugger in job.debuggers[:MAX_DEBUGGERS]:
        yield "debugger", f"{_describe_debugger(debugger)} {format_debugger_location(debugger)}"
    yield from _iter_role_fields(job)
    yield "requests", _format_requests(job)
    if engine := _find_engine(job):
        yield "engine", engine
    for at, line in enumerate(iter_task_option_lines(job.slurm)):
        yield "" if at else "slurm", line
    if why and why.efficiency and job.state.final:
        for at, usage_lines in enumerate(iter_usage_lines(why.efficiency)):
            yield "" if at else "used", usage_lines
    yield "time limit", format_duration(job.time_limit) if job.time_limit else "none"
    if (kept := _describe_hold(job)) and not job.state.final:
        yield "on failure", kept
    if job.attempt or job.retries.user or job.retries.platform:
        yield "attempt", f"{job.attempt}{_describe_retries(job)}"
    if job.retry_at:
        yield "next retry", format_local_time(job.retry_at)
    if job.stop:
        because = f": {job.stop.why}" if job.stop.why else ""
        yield "stopped by", f"{job.stop.actor} at {format_local_time(job.stop.at)}{because}"
    if job.rerun_of:
        yield "rerun of", job.rerun_of
    if job.schedule:
        yield "schedule", job.schedule
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if job.isolation == "none":
        yield "isolation", "none: this job is not isolated from other jobs on the node"


def _find_engine(job: JobDetail) -> str:
    """Return the engine of its tasks; before they are placed, the one that the job chooses. Empty: not known yet."""
    names = sorted({task.engine for task in job.tasks if task.engine})
    return ", ".join(names) or str(job.job.get("engine") or "")


def _describe_debugger(debugger: Debugger) -> str:
    if debugger.attached:
        return "attached,"
    return "waiting at" if debugger.waits else "running, last at"


def _describe_hold(job: JobDetail) -> str:
    """Describe what is held if the job fails; empty: nothing."""
    hold = job.job.get("hold") or {}
    if hold.get("keep", "nothing") == "nothing" or str(job.state) == "Held":
        return ""
    length = hold.get("duration")
    what = "hold files" if hold["keep"] == "files" else "hold"
    return f"{what} for {format_duration(length)}" if length else what


def _describe_retries(job: JobDetail) -> str:
    """Format as , after 2 retries and 1 platform retry."""
    own, platform = job.retries.user, job.retries.platform
    if not own and not platform:
        return ""
    if not own:
        return f", after {_format_retry_count(platform, 'platform ')}"
    return f", after {_format_retry_count(own)}" + (
        f" and {_format_retry_count(platform, 'platform ')}" if platform else ""
    )


def _format_retry_count(count: int, kind: str = "") -> str:
    return f"{count} {kind}{'retry' if count == 1 else 'retries'}"


def _iter_role_fields(job: JobDetail) -> Iterator[tuple[str, object]]:
    """Yield command, image and mounts of each role, with its name if there are several."""
    roles = job.job.get("roles") or ()
    for role in roles:
        if len(roles) > 1:
            yield "role", f"{role.get('name', '')}, {format_count(role.get('instances', 1), 'task')}"
        if role.get("image"):
            stands_for = role.get("image_url")
            yield "image", f"{role['image']} ({stands_for})" if stands_for else role["image"]
        if role.get("instance_type"):
            yield "type", role["instance_type"]
        lines = [line for text in role.get("commands") or () for line in str(text).splitlines()]
        for at, line in enumerate(lines[:MAX_COMMAND_LINES]):
            yield "" if at else "command", line
        if len(lines) > MAX_COMMAND_LINES:
            yield "", f"… ({format_count(len(lines) - MAX_COMMAND_LINES, 'more line')})"
        for at, mount in enumerate(role.get("mounts") or ()):
            yield "" if at else "mounts", _format_mount(mount)


def _format_mount(mount: Mapping[str, Any]) -> str:
    source, target = mount.get("source", ""), mount.get("target", "")
    where = source if source == target else f"{source} at {target}"
    return where if mount.get("read_only", True) else f"{where}, writable"


def _format_requests(job: JobDetail) -> str:
    asked = job.resources
    gpus = f", {format_count(asked.gpu, 'GPU')}" if asked.gpu else ""
    tasks = f" for {job.task_count} tasks" if job.task_count > 1 else ""
    return f"{format_count(asked.cpu, 'core')}, {format_size(asked.memory)}{gpus}{tasks}"


def _show_tasks(tasks: Sequence[Task]) -> None:
    now = utc_now()
    ports = [_format_ports(task) for task in tasks]
    columns = TASK_COLUMNS if not any(ports) else (*TASK_COLUMNS, "PORTS")
    rows = [
        [
            task.task,
            output.build_state_cell(task.state),
            task.number,
            task.host or task.node,
            format_local_time(task.started_at),
            format_span(task.started_at, task.held.since if task.held else task.finished_at, now),
            task.exit.message if task.exit else "",
            task.logs,
            *([listed] if any(ports) else ()),
        ]
        for task, listed in zip(tasks, ports, strict=True)
    ]
    output.emit_table(columns, rows, cut=("EXIT", "PORTS"))


def _format_ports(task: Task) -> str:
    """Format as ssh 23456, http 31021."""
    return ", ".join(f"{label} {' '.join(map(str, numbers))}" for label, numbers in task.ports.items())


def _print_next_commands(job: JobDetail) -> None:
    if list_unattached_debuggers(job.debuggers):
        output.print_hint(f"holdfast debug {job.id}", f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Held":
        output.print_hint(f"holdfast ssh {job.id}", f"holdfast extend {job.id}", f"holdfast release {job.id}")
    elif str(job.state) == "Running":
        output.print_hint(f"holdfast logs -f {job.id}", f"holdfast ssh {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Pending":
        output.print_hint(f"holdfast why {job.id}", f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif not job.state.final:
        output.print_hint(f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Succeeded":
        output.print_hint(f"holdfast logs {job.id}", f"holdfast clone {job.id}")
    else:
        failed = str(job.state) == "Failed"
        first = f"holdfast why {job.id}" if failed else f"holdfast events {job.id}"
        again = build_rerun_command(job) if failed else f"holdfast rerun {job.id}"
        output.print_hint(first, f"holdfast logs {job.id}", again)
