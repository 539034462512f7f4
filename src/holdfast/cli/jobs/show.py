"""`holdfast show`: one job on one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import output
from ..quantities import show_count, show_duration, show_instant, show_size, show_span, utc_now
from .artifact_messages import shortened
from .debugger_notification import free, place_of
from .holds import held_words, rerun_words
from .why import used_words

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.api.why import Why
    from holdfast.sdk import Attempt, Debugger, JobDetail, Task

COMMAND_LINES = 5  # of a role's command; `holdfast clone` prints all
MAX_WARNINGS = 5
MAX_DEBUGGERS = 10
MAX_HELD = 20  # tasks whose time left is told
TASK_COLUMNS = ("TASK", "STATE", "TRY", "NODE", "STARTED", "RAN", "EXIT", "LOGS")


def show_job(
    job: JobDetail,
    attempts: Sequence[Attempt],
    warnings: Sequence[str] = (),
    artifacts: Sequence[str] = (),
    not_held: str = "",
    why: Why | None = None,
) -> None:
    """`not_held`: why a failed task of it is not kept. `why`: what was concluded of one that ended or is held."""
    output.emit(output.render(_heading(job)))
    for label, value in _facts(job, why):
        output.emit(f"  {label:<11} {output.safe(value)}")
    if not_held:
        output.emit(f"  not held    {output.safe(not_held)}")
    for at, line in enumerate(shortened(artifacts, job.id)):
        output.emit(f"  {'' if at else 'artifacts':<11} {output.safe(line)}")
    for reason in job.waiting or ():
        output.emit(f"  waits       {output.safe(reason)}")
    for warning in warnings[:MAX_WARNINGS]:
        output.emit(f"  warning     {output.safe(warning)}")
    if len(warnings) > MAX_WARNINGS:
        output.emit(f"              and {len(warnings) - MAX_WARNINGS} more: holdfast events {job.id}")
    for attempt in attempts:
        output.emit(f"\nAttempt {attempt.attempt}")
        _show_tasks(attempt.tasks)
    if not attempts and job.tasks:
        output.emit()
        _show_tasks(job.tasks)
    _show_next(job)


def _heading(job: JobDetail) -> Text:
    text = output.cell(job.name)
    text.stylize("bold")
    text.append(f"  {job.id}  ", style="not bold")
    text.append_text(output.state_cell(job.state, job.stopping))
    return text


def _reason(job: JobDetail, why: Why | None) -> str:
    """The verdict, where there is one; else what the job says itself."""
    failure = why.failure if why else None
    if failure is None or failure.fault == "unknown" or str(job.state) not in ("Failed", "Held"):
        return job.message
    return f"{failure.task}: {failure.title}" if failure.task else failure.title


def _facts(job: JobDetail, why: Why | None) -> Iterator[tuple[str, object]]:
    now = utc_now()
    if reason := _reason(job, why):
        yield "why", reason
    if job.exit and job.exit.hint:
        yield "try", job.exit.hint
    if job.description:
        yield "about", job.description
    yield "by", f"{job.user} in {job.group}"
    yield "submitted", f"{show_instant(job.submitted_at)} ({show_span(job.submitted_at, None, now)} ago)"
    if job.started_at:
        yield "started", f"{show_instant(job.started_at)}, ran {show_span(job.started_at, job.finished_at, now)}"
    if job.finished_at:
        yield "finished", show_instant(job.finished_at)
    if job.exit_code is not None:
        yield "exit code", job.exit_code
    for task in [task for task in job.tasks if task.held and task.state == "Held"][:MAX_HELD]:
        assert task.held is not None
        yield "held", f"{task.task} {held_words(task.held, now)}"
    for debugger in job.debuggers[:MAX_DEBUGGERS]:
        yield "debugger", f"{_stands(debugger)} {place_of(debugger)}"
    yield from _roles(job)
    yield "asks for", _amount(job)
    if why and why.efficiency and job.state.final:
        for at, said in enumerate(used_words(why.efficiency)):
            yield "" if at else "used", said
    yield "time limit", show_duration(job.time_limit) if job.time_limit else "none"
    if (kept := _hold(job)) and not job.state.final:
        yield "if it fails", kept
    if job.attempt or job.retries.user or job.retries.platform:
        yield "attempt", f"{job.attempt}{_retried(job)}"
    if job.retry_at:
        yield "next try", show_instant(job.retry_at)
    if job.stop:
        because = f": {job.stop.why}" if job.stop.why else ""
        yield "stopped by", f"{job.stop.actor} at {show_instant(job.stop.at)}{because}"
    if job.rerun_of:
        yield "rerun of", job.rerun_of
    if job.schedule:
        yield "schedule", job.schedule
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if job.isolation == "none":
        yield "isolation", "none: this job is not isolated from others on the machine"


def _stands(debugger: Debugger) -> str:
    if debugger.attached:
        return "has somebody at it,"
    return "waits at" if debugger.waits else "is there, last at"


def _hold(job: JobDetail) -> str:
    """Empty: it is not held."""
    hold = job.job.get("hold") or {}
    if hold.get("keep", "nothing") == "nothing" or str(job.state) == "Held":
        return ""
    length = hold.get("duration")
    what = "its files are held" if hold["keep"] == "files" else "it is held"
    return f"{what} for {show_duration(length)}" if length else what


def _retried(job: JobDetail) -> str:
    """, after 2 retries of its own and 1 by the platform"""
    own, platform = job.retries.user, job.retries.platform
    if not own and not platform:
        return ""
    if not own:
        return f", after {_retries(platform)} by the platform"
    return f", after {_retries(own)} of its own" + (f" and {platform} by the platform" if platform else "")


def _retries(count: int) -> str:
    return f"{count} {'retry' if count == 1 else 'retries'}"


def _roles(job: JobDetail) -> Iterator[tuple[str, object]]:
    """What runs, in what, with which folders; each role by name where there are several."""
    roles = job.job.get("roles") or ()
    for role in roles:
        if len(roles) > 1:
            yield "role", f"{role.get('name', '')}, {show_count(role.get('instances', 1), 'task')}"
        if role.get("image"):
            stands_for = role.get("image_url")
            yield "image", f"{role['image']}, which is {stands_for}" if stands_for else role["image"]
        if role.get("instance_type"):
            yield "size", role["instance_type"]
        lines = [line for text in role.get("commands") or () for line in str(text).splitlines()]
        for at, line in enumerate(lines[:COMMAND_LINES]):
            yield "" if at else "command", line
        if len(lines) > COMMAND_LINES:
            yield "", f"… ({show_count(len(lines) - COMMAND_LINES, 'more line')})"
        for at, mount in enumerate(role.get("mounts") or ()):
            yield "" if at else "mounts", _mount(mount)


def _mount(mount: Mapping[str, Any]) -> str:
    source, target = mount.get("source", ""), mount.get("target", "")
    where = source if source == target else f"{source} at {target}"
    return where if mount.get("read_only", True) else f"{where}, writable"


def _amount(job: JobDetail) -> str:
    asked = job.resources
    gpus = f", {show_count(asked.gpu, 'GPU')}" if asked.gpu else ""
    tasks = f" for {job.task_count} tasks" if job.task_count > 1 else ""
    return f"{show_count(asked.cpu, 'core')}, {show_size(asked.memory)}{gpus}{tasks}"


def _show_tasks(tasks: Sequence[Task]) -> None:
    now = utc_now()
    ports = [_ports(task) for task in tasks]
    columns = TASK_COLUMNS if not any(ports) else (*TASK_COLUMNS, "PORTS")
    rows = [
        [
            task.task,
            output.state_cell(task.state),
            task.number,
            task.node,
            show_instant(task.started_at),
            show_span(task.started_at, task.held.since if task.held else task.finished_at, now),
            task.exit.message if task.exit else "",
            task.logs,
            *([listed] if any(ports) else ()),
        ]
        for task, listed in zip(tasks, ports, strict=True)
    ]
    output.table(columns, rows, cut=("EXIT", "PORTS"))


def _ports(task: Task) -> str:
    """ssh 23456, http 31021"""
    return ", ".join(f"{label} {' '.join(map(str, numbers))}" for label, numbers in task.ports.items())


def _show_next(job: JobDetail) -> None:
    if free(job.debuggers):
        output.hint(f"holdfast debug {job.id}", f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Held":
        output.hint(f"holdfast ssh {job.id}", f"holdfast extend {job.id}", f"holdfast release {job.id}")
    elif str(job.state) == "Running":
        output.hint(f"holdfast logs -f {job.id}", f"holdfast ssh {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Pending":
        output.hint(f"holdfast why {job.id}", f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif not job.state.final:
        output.hint(f"holdfast logs -f {job.id}", f"holdfast stop {job.id}")
    elif str(job.state) == "Succeeded":
        output.hint(f"holdfast logs {job.id}", f"holdfast clone {job.id}")
    else:
        failed = str(job.state) == "Failed"
        first = f"holdfast why {job.id}" if failed else f"holdfast events {job.id}"
        again = rerun_words(job) if failed else f"holdfast rerun {job.id}"
        output.hint(first, f"holdfast logs {job.id}", again)
