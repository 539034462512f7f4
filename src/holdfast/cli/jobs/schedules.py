"""schedule: jobs that are submitted again and again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import Follow, Json, Wait, Yes, connect
from ..prompts import sure
from ..quantities import parse_duration, show_duration, show_instant, utc_now
from .follow import stay
from .submit import Dialect, read_job_file

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.sdk import Client, Run, Schedule, ScheduleDetail

schedules = typer.Typer(help="Schedules: jobs that are submitted again and again.", no_args_is_help=True)

PREFIX = "recurrence-"
NO_END = "none"


class Every(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class OverlapName(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class MissedName(StrEnum):
    SKIP = "skip"
    ONCE = "once"


_KINDS = {Every.DAY: "daily", Every.WEEK: "weekly", Every.MONTH: "monthly"}
_PRESETS = {
    "inactive": "on demand",
    "daily": "every day at 4:00",
    "weekly": "every Sunday at 4:00",
    "monthly": "on the 1st at 4:00",
}


def complete_schedule(incomplete: str) -> list[str]:
    """Ids, for the shell's completion; silent when there is no server to ask."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=2) as client:
            return [one.id for one in client.schedules().items if one.id.startswith(incomplete)]
    except HoldfastError:
        return []


Ref = Annotated[
    str,
    typer.Argument(metavar="SCHEDULE", help="Its id, or the name of its job.", autocompletion=complete_schedule),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A job file in any dialect; - reads stdin.")]
NewFile = Annotated[str | None, typer.Option("--file", metavar="FILE", help="Another job file; - reads stdin.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Group whose quota its jobs use.")]
Cron = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help='Minute, hour, day of month, month, day of week: "30 4 * * MON-FRI".'),
]
EveryOption = Annotated[Every | None, typer.Option("--every", help="At 4:00; weeks begin on Sunday.")]
OnDemand = Annotated[bool, typer.Option("--on-demand", help="Only when somebody runs it.")]
Zone = Annotated[str | None, typer.Option(metavar="NAME", help="Time zone, such as Europe/Berlin. Else the server's.")]
OverlapOption = Annotated[
    OverlapName | None,
    typer.Option(
        "--overlap",
        help="When it is due and an earlier job is not finished. skip: not this time. queue: once that has ended. "
        "cancel: stop that one. At first: skip.",
    ),
]
MissedOption = Annotated[
    MissedName | None,
    typer.Option("--missed", help="When it was due while no server ran. once: run once for all. At first: skip."),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Nothing is due after it: 2027-01-31T12:00, or 30d from now; none: no end."),
]


@schedules.command("ls")
def list_schedules(
    mine: Annotated[bool, typer.Option("--mine", help="Your own.")] = False,
    group: Group = None,
    text: Annotated[str | None, typer.Option("--text", help="Part of the name or the id.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 50,
    json: Json = False,
) -> None:
    """List schedules."""
    with connect() as client:
        page = client.schedules(mine=mine, groups=[group] if group else (), text=text, limit=limit)
    if json:
        output.emit_json(page)
        return
    if not page.items:
        output.note('There is no schedule. Make one: holdfast schedule add FILE --cron "0 4 * * *"')
        return
    now = utc_now()
    rows = [[one.id, one.name, _when(one), *_next_cells(one, now), f"{one.user} in {one.group}"] for one in page.items]
    output.table(("SCHEDULE", "NAME", "WHEN", "NEXT RUN", "", "BY"), rows, cut=("NAME", "BY"), drop=("BY", "", "WHEN"))
    for one in page.items:
        if one.invalid:  # below the table, where there is room for all of it
            output.emit(f"{one.id} cannot run: {output.safe(one.message)}")
    if page.total > len(page.items):
        output.note(f"{page.total - len(page.items)} more: give --limit or --text", "dim")
    output.hint("holdfast schedule show SCHEDULE", "holdfast schedule runs SCHEDULE")


@schedules.command("show")
def show_schedule(schedule: Ref, json: Json = False) -> None:
    """Show a schedule and its next runs."""
    with connect() as client:
        found = _find(client, schedule)
    _show(found, json)
    if not json:
        output.hint(f"holdfast schedule runs {found.id}", f"holdfast schedule run {found.id}")


@schedules.command("add")
def add_schedule(
    file: File,
    cron: Cron = None,
    every: EveryOption = None,
    on_demand: OnDemand = False,
    zone: Zone = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: Until = None,
    group: Group = None,
    dialect: Dialect = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not run it before it is resumed.")] = False,
    json: Json = False,
) -> None:
    """Submit a job file again and again.

    Its jobs are yours, and are submitted with the rights you have at each time.
    """
    kind = _kind(cron, every, on_demand)
    text, told = _without_recurrence(_job_text(file))
    if kind is None and told is not None:
        kind, cron = told
    if kind is None:
        raise typer.BadParameter('say when: --cron "0 4 * * *", --every day, or --on-demand')
    with connect() as client:
        made = client.add_schedule(
            text,
            cron,
            kind=kind,
            timezone=zone,
            group=group,
            dialect=dialect,
            overlap=overlap,
            missed=missed,
            ends_at=_until(until),
            paused=paused or None,
        )
        _warn_of_namesakes(client, made)
    _show(made, json)
    if not json:
        output.hint(f"holdfast schedule run {made.id}", f"holdfast schedule set {made.id}")


def _warn_of_namesakes(client: Client, made: ScheduleDetail) -> None:
    """The same file added twice runs twice, which is seldom meant."""
    page = client.schedules(groups=[made.group], text=made.name, limit=500)
    others = [one.id for one in page.items if one.name == made.name and one.id != made.id]
    if others:
        listed = ", ".join(others[:3]) + (" and more" if len(others) > 3 else "")
        name, group = output.safe(made.name), output.safe(made.group)
        output.note(f"warning: {group} has a schedule called {name} already: {listed}. Both run.", "yellow")
        output.note(f"  to change one instead: holdfast schedule set {others[0]}")


@schedules.command("set")
def set_schedule(
    schedule: Ref,
    file: NewFile = None,
    cron: Cron = None,
    every: EveryOption = None,
    on_demand: OnDemand = False,
    zone: Zone = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: Until = None,
    group: Group = None,
    dialect: Dialect = None,
    json: Json = False,
) -> None:
    """Change a schedule: what is given."""
    kind = _kind(cron, every, on_demand)
    changes: dict[str, Any] = {"group": group, "dialect": dialect, "overlap": overlap, "missed": missed}
    with connect() as client:
        found = _find(client, schedule)
        if kind is not None or zone is not None:
            old = found.recurrence
            changes["timezone"] = old.timezone if zone is None else zone
            changes["kind"], changes["cron"] = (old.kind, old.cron) if kind is None else (kind, cron)
        if until is not None:
            changes["ends_at"] = _until(until)
        if file is not None:
            changes["job"] = _job_text(file)
        if all(value is None for value in changes.values()) and until is None:
            raise typer.BadParameter("say what to change; --help lists what can be")
        changed = client.change_schedule(found.id, **changes)
    _show(changed, json)


@schedules.command("rm")
def remove_schedule(schedule: Ref, yes: Yes = False, json: Json = False) -> None:
    """Remove a schedule and its history. Its jobs stay."""
    with connect() as client:
        found = _find(client, schedule)
        sure(f"Remove the schedule {output.safe(found.name)} ({found.id})?", yes)
        client.remove_schedule(found.id)
    if json:
        output.emit_json({"removed": found.id})
    else:
        output.emit(f"Removed {found.id}.")


@schedules.command("run")
def run_schedule(schedule: Ref, follow: Follow = False, wait: Wait = False, json: Json = False) -> None:
    """Submit its job now, as yours."""
    with connect() as client:
        job = client.run_schedule(_find(client, schedule).id)
        if not json or follow:
            output.note(f"Submitted {output.safe(job.name)} as {job.id}.", "bold")
        for warning in job.warnings:
            output.note(f"warning: {output.safe(warning)}", "yellow")
        if follow or wait:
            stay(client, job, follow=follow, json=json)
    if json:
        output.emit_json(job)
    elif not output.is_terminal(sys.stdout):
        output.emit(job.id)
    output.hint(f"holdfast logs -f {job.id}", f"holdfast show {job.id}")


@schedules.command("pause")
def pause_schedule(schedule: Ref, json: Json = False) -> None:
    """Let nothing be due until it is resumed."""
    with connect() as client:
        found = client.pause_schedule(_find(client, schedule).id)
    _told(found, f"Paused {found.id}.", json)
    output.hint(f"holdfast schedule resume {found.id}")


@schedules.command("resume")
def resume_schedule(schedule: Ref, json: Json = False) -> None:
    """Go on from its next time."""
    with connect() as client:
        found = client.resume_schedule(_find(client, schedule).id)
    _told(found, f"Resumed {found.id}{_outlook(found)}", json)


def _outlook(found: ScheduleDetail) -> str:
    if found.invalid:
        return f", but it cannot run: {output.safe(found.message)}"
    if found.recurrence.kind == "inactive":
        return "; it runs when somebody runs it."
    return f"; next run: {_next(found, utc_now())}"


@schedules.command("runs")
def list_runs(
    schedule: Ref,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="How many.")] = 20,
    json: Json = False,
) -> None:
    """List what came of each time it was due, newest first."""
    with connect() as client:
        found = _find(client, schedule)
        runs = client.schedule_runs(found.id, limit=limit)
    if json:
        output.emit_json({"items": runs})
        return
    if not runs:
        output.note(f"It has not been due yet{_outlook(found)}")
        return
    zone = _zone(found.timezone)
    rows = [[_at(run.due_at, zone), _result(run), run.job, _state(run), _by(run), run.message] for run in runs]
    columns = ("DUE", "RESULT", "JOB", "STATE", "BY", "MESSAGE")
    output.table(columns, rows, cut=("MESSAGE",), drop=("BY", "STATE"))


@schedules.command("preview")
def preview_schedule(
    cron: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Cron text, five fields.")] = None,
    every: EveryOption = None,
    zone: Zone = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="How many.")] = 5,
    json: Json = False,
) -> None:
    """Tell when a schedule would run, without making one."""
    kind = _kind(cron, every, on_demand=False)
    if kind is None:
        raise typer.BadParameter('give cron text: holdfast schedule preview "0 4 * * *"')
    with connect() as client:
        found = client.preview_schedule(cron, kind=kind, timezone=zone, count=count)
    if json:
        output.emit_json(found)
        return
    here, now = _zone(found.timezone), utc_now()
    for at in found.times:
        output.emit(f"{_at(at, here)}  {_from_now(at, now)}")
    output.note(f"Time zone: {output.safe(found.timezone)}", "dim")


# -- small things


def _find(client: Client, ref: str) -> ScheduleDetail:
    """By id, the end of it, or the name of its job where only one has that."""
    if ref.startswith(PREFIX):
        return client.schedule(ref)
    page = client.schedules(text=ref, limit=500)
    found = [one for one in page.items if one.name == ref or one.id == PREFIX + ref]
    if len(found) == 1:
        return client.schedule(found[0].id)
    if found:
        ids = ", ".join(one.id for one in found[:10])
        raise UserError(f"There are {len(found)} schedules called {ref}", hint=f"Give one of their ids: {ids}.")
    raise UserError(f"There is no schedule {ref[:100]}", hint="`holdfast schedule ls` lists them.")


def _job_text(file: str) -> str:
    try:
        return read_job_file(file).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text in UTF-8", hint="Is it a job file?") from None


def _without_recurrence(text: str) -> tuple[str, tuple[str, str | None] | None]:
    """PrimeHub's files of recurring jobs say themselves when they are due: the job form alone, and that."""
    from json import dumps

    form = _read_form(text)
    told = form.pop("recurrence", None)
    if not isinstance(told, dict):
        return text, None
    template = form.get("jobTemplate")
    kind, cron = str(told.get("type")), told.get("cron")
    written = dumps(template["spec"] if isinstance(template, dict) and "spec" in template else form, default=str)
    return written, ("inactive" if kind == "on-demand" else kind, cron if isinstance(cron, str) else None)


def _read_form(text: str) -> dict[str, Any]:
    """What may say when it is due; of a schedule as PrimeHub kept it in its cluster, that is under spec."""
    import yaml

    if "recurrence" not in text:
        return {}
    try:
        form = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}  # the server says what is wrong with it
    if isinstance(form, dict) and form.get("kind") == "PhSchedule":
        form = form.get("spec")
    return form if isinstance(form, dict) else {}


def _kind(cron: str | None, every: Every | None, on_demand: bool) -> str | None:
    if sum((cron is not None, every is not None, on_demand)) > 1:
        raise typer.BadParameter("give one of --cron, --every and --on-demand")
    if cron is not None:
        return "custom"
    return "inactive" if on_demand else _KINDS[every] if every is not None else None


def _until(text: str | None) -> datetime | None:
    """A point in time, or how long from now."""
    if text is None or text == NO_END:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return utc_now() + timedelta(seconds=parse_duration(text))
        except (typer.BadParameter, OverflowError):
            raise typer.BadParameter(f"{text!r} is neither a time (2027-01-31T12:00) nor a duration (30d)") from None
    return found if found.tzinfo else found.astimezone()  # a time without a zone is meant as on one's own clock


def _show(found: ScheduleDetail, json: bool) -> None:
    for warning in found.warnings:
        output.note(f"warning: {output.safe(warning)}", "yellow")
    if json:
        output.emit_json(found)
        return
    output.emit(output.styled(f"{output.safe(found.name)}  {found.id}", "bold", sys.stdout))
    for label, text in _facts(found):
        output.emit(f"  {label:<11} {output.safe(text)}")
    here, now = _zone(found.timezone), utc_now()
    for at, moment in enumerate(() if found.invalid else found.next_runs):
        output.emit(f"  {'' if at else 'next runs':<11} {_at(moment, here)}  {_from_now(moment, now)}")


def _facts(found: ScheduleDetail) -> Iterator[tuple[str, str]]:
    if found.invalid:
        yield "cannot run", found.message
    timed = found.recurrence.kind != "inactive"
    yield "when", f"{_when(found)}, time zone {found.timezone}" if timed else _when(found)
    if found.paused:
        yield "paused", "until it is resumed"
    yield "by", f"{found.user} in {found.group}"
    if timed:
        yield "overlap", _OVERLAPS.get(found.overlap, found.overlap)
        yield "missed", _MISSED.get(found.missed, found.missed)
    if found.ends_at:
        yield "ends", _at(found.ends_at, _zone(found.timezone))
    if found.queued_at:
        yield "waits", f"a run of {show_instant(found.queued_at)}, for the earlier job to end"
    if found.last_run_at:
        yield "last due", _at(found.last_run_at, _zone(found.timezone))


_OVERLAPS = {
    "skip": "not run while an earlier job is not finished",
    "queue": "waits for an earlier job to end",
    "cancel": "stops an earlier job",
}
_MISSED = {"skip": "not made up for", "once": "made up for by one run"}


def _told(found: ScheduleDetail, text: str, json: bool) -> None:
    if json:
        output.emit_json(found)
    else:
        output.emit(text)


def _when(schedule: Schedule) -> str:
    recurrence = schedule.recurrence
    return _PRESETS.get(recurrence.kind) or recurrence.cron or ""


def _next(schedule: Schedule, now: datetime) -> str:
    return "  ".join(_next_cells(schedule, now))


def _next_cells(schedule: Schedule, now: datetime) -> tuple[str, str]:
    """When it is due, and how far that is."""
    if schedule.invalid:
        return "cannot run", ""
    if schedule.paused:
        return "paused", ""
    if schedule.next_run_at is None:
        return "" if schedule.recurrence.kind == "inactive" else "over", ""
    return _at(schedule.next_run_at, _zone(schedule.timezone)), _from_now(schedule.next_run_at, now)


def _at(at: datetime, zone: tzinfo | None) -> str:
    """On the schedule's own clock."""
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")


def _from_now(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"in {show_duration(seconds)}" if seconds > 0 else "now"


def _zone(name: str) -> tzinfo | None:
    """None, one's own, should this machine not know it."""
    from holdfast.timezones import zone

    try:
        return zone(name)
    except UserError:
        return None


def _result(run: Run) -> Text:
    from rich.text import Text

    styles = {"started": "green", "failed": "red", "missed": "yellow", "skipped": "yellow"}
    return Text(output.safe(run.result), style=styles.get(run.result, ""))


def _state(run: Run) -> Text | str:
    return "" if run.state is None else output.state_cell(run.state)


def _by(run: Run) -> str:
    return "" if run.actor == "holdfast" else run.actor
