"""The `schedule` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import Follow, Json, Wait, Yes, connect
from ..prompts import confirm_or_exit
from ..quantities import utc_now
from . import schedule_view as view
from .follow import report_submitted
from .schedule_options import (
    SCHEDULE_PREFIX,
    Cron,
    EveryOption,
    File,
    Group,
    MissedOption,
    NewFile,
    OnDemand,
    OverlapOption,
    ScheduleRef,
    Until,
    Zone,
    choose_kind,
    parse_end,
    read_job_text,
    split_recurrence,
)
from .submit import Dialect

if TYPE_CHECKING:
    from holdfast.sdk import Client, ScheduleDetail

schedules = typer.Typer(help="Manage schedules, which submit a job repeatedly.", no_args_is_help=True)


@schedules.command("ls")
def list_schedules(
    mine: Annotated[bool, typer.Option("--mine", help="Only your schedules.")] = False,
    group: Group = None,
    text: Annotated[str | None, typer.Option("--text", help="Only schedules with this in name or id.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of schedules.")] = 50,
    json: Json = False,
) -> None:
    """List schedules."""
    with connect() as client:
        page = client.schedules(mine=mine, groups=[group] if group else (), text=text, limit=limit)
    if json:
        output.emit_json(page)
        return
    if not page.items:
        output.print_note('No schedules. Create one: holdfast schedule add FILE --cron "0 4 * * *"')
        return
    now = utc_now()
    rows = [
        [
            one.id,
            one.name,
            view.describe_recurrence(one),
            *view.build_next_run_cells(one, now),
            f"{one.user}, {one.group}",
        ]
        for one in page.items
    ]
    output.print_table(
        ("SCHEDULE", "NAME", "WHEN", "NEXT RUN", "", "OWNER"), rows, cut=("NAME", "OWNER"), drop=("OWNER", "", "WHEN")
    )
    for one in page.items:
        if one.invalid:  # below the table, where the whole message fits
            output.emit(f"{one.id} cannot run: {output.escape(one.message)}")
    if page.total > len(page.items):
        output.print_note(f"{page.total - len(page.items)} more: use --limit or --text", "dim")
    output.print_hint("holdfast schedule show SCHEDULE", "holdfast schedule runs SCHEDULE")


@schedules.command("show")
def show_schedule(schedule: ScheduleRef, json: Json = False) -> None:
    """Show a schedule and its next runs."""
    with connect() as client:
        found = find_schedule(client, schedule)
    view.print_schedule(found, json)
    if not json:
        output.print_hint(f"holdfast schedule runs {found.id}", f"holdfast schedule run {found.id}")


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
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    json: Json = False,
) -> None:
    """Create a schedule that submits a job file repeatedly.

    You own its jobs; each is submitted with the permissions you have at that time.
    """
    kind = choose_kind(cron, every, on_demand)
    text, parsed = split_recurrence(read_job_text(file))
    if kind is None and parsed is not None:
        kind, cron = parsed
    if kind is None:
        raise typer.BadParameter('missing recurrence: use --cron "0 4 * * *", --every day or --on-demand')
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
            ends_at=parse_end(until),
            paused=paused or None,
        )
        _warn_about_duplicate_name(client, made)
    view.print_schedule(made, json)
    if not json:
        output.print_hint(f"holdfast schedule run {made.id}", f"holdfast schedule set {made.id}")


def _warn_about_duplicate_name(client: Client, made: ScheduleDetail) -> None:
    """Warn if the group has another schedule of the same name: both run."""
    page = client.schedules(groups=[made.group], text=made.name, limit=500)
    others = [one.id for one in page.items if one.name == made.name and one.id != made.id]
    if others:
        listed = ", ".join(others[:3]) + (" and more" if len(others) > 3 else "")
        name, group = output.escape(made.name), output.escape(made.group)
        output.print_note(
            f"warning: Group {group} already has a schedule named {name}: {listed}. Both will run.", "yellow"
        )
        output.print_note(f"  To change it instead, run `holdfast schedule set {others[0]}`.")


@schedules.command("set")
def set_schedule(
    schedule: ScheduleRef,
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
    """Change a schedule; omitted options keep their value."""
    kind = choose_kind(cron, every, on_demand)
    changes: dict[str, Any] = {"group": group, "dialect": dialect, "overlap": overlap, "missed": missed}
    with connect() as client:
        found = find_schedule(client, schedule)
        if kind is not None or zone is not None:
            old = found.recurrence
            changes["timezone"] = old.timezone if zone is None else zone
            changes["kind"], changes["cron"] = (old.kind, old.cron) if kind is None else (kind, cron)
        if until is not None:
            changes["ends_at"] = parse_end(until)
        if file is not None:
            changes["job"] = read_job_text(file)
        if all(value is None for value in changes.values()) and until is None:
            raise typer.BadParameter("nothing to change: give at least one option")
        changed = client.change_schedule(found.id, **changes)
    view.print_schedule(changed, json)


@schedules.command("rm")
def remove_schedule(schedule: ScheduleRef, yes: Yes = False, json: Json = False) -> None:
    """Delete a schedule and its history. Its jobs are kept."""
    with connect() as client:
        found = find_schedule(client, schedule)
        confirm_or_exit(f"Delete the schedule {output.escape(found.name)} ({found.id})?", yes)
        client.remove_schedule(found.id)
    output.emit_result({"removed": found.id}, f"Deleted {found.id}.", json)


@schedules.command("run")
def run_schedule(schedule: ScheduleRef, follow: Follow = False, wait: Wait = False, json: Json = False) -> None:
    """Submit the job of a schedule now, as your job."""
    with connect() as client:
        job = client.run_schedule(find_schedule(client, schedule).id)
        report_submitted(client, job, follow=follow, wait=wait, json=json)
    output.print_hint(f"holdfast logs -f {job.id}", f"holdfast show {job.id}")


@schedules.command("pause")
def pause_schedule(schedule: ScheduleRef, json: Json = False) -> None:
    """Pause a schedule until it is resumed."""
    with connect() as client:
        found = client.pause_schedule(find_schedule(client, schedule).id)
    view.report_change(found, f"Paused {found.id}.", json)
    output.print_hint(f"holdfast schedule resume {found.id}")


@schedules.command("resume")
def resume_schedule(schedule: ScheduleRef, json: Json = False) -> None:
    """Resume a schedule; runs missed while paused are skipped."""
    with connect() as client:
        found = client.resume_schedule(find_schedule(client, schedule).id)
    view.report_change(found, f"Resumed {found.id}{view.describe_outlook(found)}", json)


@schedules.command("runs")
def list_runs(
    schedule: ScheduleRef,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of runs.")] = 20,
    json: Json = False,
) -> None:
    """List the runs of a schedule and their results, newest first."""
    with connect() as client:
        found = find_schedule(client, schedule)
        runs = client.schedule_runs(found.id, limit=limit)
    if json:
        output.emit_json({"items": runs})
        return
    if not runs:
        output.print_note(f"No runs yet{view.describe_outlook(found)}")
        return
    zone = view.load_zone(found.timezone)
    rows = [
        [
            view.format_time(run.due_at, zone),
            view.build_result_cell(run),
            run.job,
            view.build_run_state_cell(run),
            view.format_run_actor(run),
            run.message,
        ]
        for run in runs
    ]
    columns = ("DUE", "RESULT", "JOB", "STATE", "BY", "MESSAGE")
    output.print_table(columns, rows, cut=("MESSAGE",), drop=("BY", "STATE"))


@schedules.command("preview")
def preview_schedule(
    cron: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Cron expression with five fields.")] = None,
    every: EveryOption = None,
    zone: Zone = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="Number of runs.")] = 5,
    json: Json = False,
) -> None:
    """Show when a schedule would run, without creating one."""
    kind = choose_kind(cron, every, on_demand=False)
    if kind is None:
        raise typer.BadParameter('missing cron expression: holdfast schedule preview "0 4 * * *"')
    with connect() as client:
        found = client.preview_schedule(cron, kind=kind, timezone=zone, count=count)
    if json:
        output.emit_json(found)
        return
    here, now = view.load_zone(found.timezone), utc_now()
    for at in found.times:
        output.emit(f"{view.format_time(at, here)}  {view.format_time_difference(at, now)}")
    output.print_note(f"Time zone: {output.escape(found.timezone)}", "dim")


def find_schedule(client: Client, ref: str) -> ScheduleDetail:
    """Find a schedule by its id, the id without prefix, or the unique name of its job."""
    if ref.startswith(SCHEDULE_PREFIX):
        return client.schedule(ref)
    page = client.schedules(text=ref, limit=500)
    found = [one for one in page.items if one.name == ref or one.id == SCHEDULE_PREFIX + ref]
    if len(found) == 1:
        return client.schedule(found[0].id)
    if found:
        ids = ", ".join(one.id for one in found[:10])
        raise UserError(f"{len(found)} schedules are named {ref}", hint=f"Use one of their ids: {ids}.")
    raise UserError(f"Schedule {ref[:100]} not found", hint="List them with `holdfast schedule ls`.")
