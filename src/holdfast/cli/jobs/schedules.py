"""The `schedule` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import FollowOption, JsonOption, WaitOption, YesOption, open_client
from ..prompts import confirm_or_exit
from ..quantities import utc_now
from . import schedule_view as view
from .follow import report_submitted_job
from .schedule_options import (
    SCHEDULE_ID_PREFIX,
    CronOption,
    EndTimeOption,
    EveryOption,
    FileArgument,
    GroupOption,
    MissedOption,
    NewFileOption,
    OnDemandOption,
    OverlapOption,
    ScheduleRefArgument,
    ZoneOption,
    choose_recurrence_kind,
    parse_end_time,
    read_job_text,
    split_recurrence,
)
from .submit import DialectOption, get_script_name

if TYPE_CHECKING:
    from holdfast.sdk import Client, ScheduleDetail

schedule_app = typer.Typer(help="Manage schedules, which submit a job repeatedly.", no_args_is_help=True)


@schedule_app.command("ls")
def list_schedules(
    mine: Annotated[bool, typer.Option("--mine", help="Only your schedules.")] = False,
    group: GroupOption = None,
    text: Annotated[str | None, typer.Option("--text", help="Only schedules with this in name or id.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of schedules.")] = 50,
    json: JsonOption = False,
) -> None:
    """List schedules."""
    with open_client() as client:
        page = client.list_schedules(mine=mine, groups=[group] if group else (), text=text, limit=limit)
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
    output.emit_table(
        ("SCHEDULE", "NAME", "WHEN", "NEXT RUN", "", "OWNER"), rows, cut=("NAME", "OWNER"), drop=("OWNER", "", "WHEN")
    )
    for one in page.items:
        if one.invalid:  # below the table, where the whole message fits
            output.emit_line(f"{one.id} cannot run: {output.escape(one.message)}")
    if page.total > len(page.items):
        output.print_note(f"{page.total - len(page.items)} more: use --limit or --text", "dim")
    output.print_hint("holdfast schedule show SCHEDULE", "holdfast schedule runs SCHEDULE")


@schedule_app.command("show")
def show_schedule(schedule: ScheduleRefArgument, json: JsonOption = False) -> None:
    """Show a schedule and its next runs."""
    with open_client() as client:
        found = find_schedule(client, schedule)
    view.print_schedule(found, json)
    if not json:
        output.print_hint(f"holdfast schedule runs {found.id}", f"holdfast schedule run {found.id}")


@schedule_app.command("add")
def add_schedule(
    file: FileArgument,
    cron: CronOption = None,
    every: EveryOption = None,
    on_demand: OnDemandOption = False,
    zone: ZoneOption = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: EndTimeOption = None,
    group: GroupOption = None,
    dialect: DialectOption = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    json: JsonOption = False,
) -> None:
    """Create a schedule that submits a job file repeatedly.

    You own its jobs; each is submitted with the permissions you have at that time.
    """
    kind = choose_recurrence_kind(cron, every, on_demand)
    text, parsed = split_recurrence(read_job_text(file))
    if kind is None and parsed is not None:
        kind, cron = parsed
    if kind is None:
        raise typer.BadParameter('missing recurrence: use --cron "0 4 * * *", --every day or --on-demand')
    with open_client() as client:
        made = client.add_schedule(
            text,
            cron,
            kind=kind,
            timezone=zone,
            group=group,
            dialect=dialect,
            file_name=get_script_name(file, text.encode()),
            overlap=overlap,
            missed=missed,
            ends_at=parse_end_time(until),
            paused=paused or None,
        )
        _warn_about_duplicate_name(client, made)
    view.print_schedule(made, json)
    if not json:
        output.print_hint(f"holdfast schedule run {made.id}", f"holdfast schedule set {made.id}")


def _warn_about_duplicate_name(client: Client, made: ScheduleDetail) -> None:
    """Warn if the group has another schedule of the same name: both run."""
    page = client.list_schedules(groups=[made.group], text=made.name, limit=500)
    others = [one.id for one in page.items if one.name == made.name and one.id != made.id]
    if others:
        listed = ", ".join(others[:3]) + (" and more" if len(others) > 3 else "")
        name, group = output.escape(made.name), output.escape(made.group)
        output.print_note(
            f"warning: Group {group} already has a schedule named {name}: {listed}. Both will run.", "yellow"
        )
        output.print_note(f"  To change it instead, run `holdfast schedule set {others[0]}`.")


@schedule_app.command("set")
def change_schedule(
    schedule: ScheduleRefArgument,
    file: NewFileOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    on_demand: OnDemandOption = False,
    zone: ZoneOption = None,
    overlap: OverlapOption = None,
    missed: MissedOption = None,
    until: EndTimeOption = None,
    group: GroupOption = None,
    dialect: DialectOption = None,
    json: JsonOption = False,
) -> None:
    """Change a schedule; omitted options keep their value."""
    kind = choose_recurrence_kind(cron, every, on_demand)
    changes: dict[str, Any] = {"group": group, "dialect": dialect, "overlap": overlap, "missed": missed}
    with open_client() as client:
        found = find_schedule(client, schedule)
        if kind is not None or zone is not None:
            old = found.recurrence
            changes["timezone"] = old.timezone if zone is None else zone
            changes["kind"], changes["cron"] = (old.kind, old.cron) if kind is None else (kind, cron)
        if until is not None:
            changes["ends_at"] = parse_end_time(until)
        if file is not None:
            text = changes["job"] = read_job_text(file)
            changes["file_name"] = get_script_name(file, text.encode())
        if all(value is None for value in changes.values()) and until is None:
            raise typer.BadParameter("nothing to change: give at least one option")
        changed = client.change_schedule(found.id, **changes)
    view.print_schedule(changed, json)


@schedule_app.command("rm")
def remove_schedule(schedule: ScheduleRefArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a schedule and its history. Its jobs are kept."""
    with open_client() as client:
        found = find_schedule(client, schedule)
        confirm_or_exit(f"Delete the schedule {output.escape(found.name)} ({found.id})?", yes)
        client.remove_schedule(found.id)
    output.emit_result({"removed": found.id}, f"Deleted {found.id}.", json)


@schedule_app.command("run")
def run_schedule(
    schedule: ScheduleRefArgument, follow: FollowOption = False, wait: WaitOption = False, json: JsonOption = False
) -> None:
    """Submit the job of a schedule now, as your job."""
    with open_client() as client:
        job = client.run_schedule(find_schedule(client, schedule).id)
        report_submitted_job(client, job, follow=follow, wait=wait, json=json)
    output.print_hint(f"holdfast logs -f {job.id}", f"holdfast show {job.id}")


@schedule_app.command("pause")
def pause_schedule(schedule: ScheduleRefArgument, json: JsonOption = False) -> None:
    """Pause a schedule until it is resumed."""
    with open_client() as client:
        found = client.pause_schedule(find_schedule(client, schedule).id)
    view.report_change(found, f"Paused {found.id}.", json)
    output.print_hint(f"holdfast schedule resume {found.id}")


@schedule_app.command("resume")
def resume_schedule(schedule: ScheduleRefArgument, json: JsonOption = False) -> None:
    """Resume a schedule; runs missed while paused are skipped."""
    with open_client() as client:
        found = client.resume_schedule(find_schedule(client, schedule).id)
    view.report_change(found, f"Resumed {found.id}{view.describe_schedule_status(found)}", json)


@schedule_app.command("runs")
def list_runs(
    schedule: ScheduleRefArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of runs.")] = 20,
    json: JsonOption = False,
) -> None:
    """List the runs of a schedule and their results, newest first."""
    with open_client() as client:
        found = find_schedule(client, schedule)
        runs = client.list_schedule_runs(found.id, limit=limit)
    if json:
        output.emit_json({"items": runs})
        return
    if not runs:
        output.print_note(f"No runs yet{view.describe_schedule_status(found)}")
        return
    zone = view.find_zone(found.timezone)
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
    output.emit_table(columns, rows, cut=("MESSAGE",), drop=("BY", "STATE"))


@schedule_app.command("preview")
def preview_schedule(
    cron: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Cron expression with five fields.")] = None,
    every: EveryOption = None,
    zone: ZoneOption = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="Number of runs.")] = 5,
    json: JsonOption = False,
) -> None:
    """Show when a schedule would run, without creating one."""
    kind = choose_recurrence_kind(cron, every, on_demand=False)
    if kind is None:
        raise typer.BadParameter('missing cron expression: holdfast schedule preview "0 4 * * *"')
    with open_client() as client:
        found = client.preview_schedule(cron, kind=kind, timezone=zone, count=count)
    if json:
        output.emit_json(found)
        return
    here, now = view.find_zone(found.timezone), utc_now()
    for at in found.times:
        output.emit_line(f"{view.format_time(at, here)}  {view.format_time_difference(at, now)}")
    output.print_note(f"Time zone: {output.escape(found.timezone)}", "dim")


def find_schedule(client: Client, ref: str) -> ScheduleDetail:
    """Find a schedule by its id, the id without prefix, or the unique name of its job."""
    if ref.startswith(SCHEDULE_ID_PREFIX):
        return client.get_schedule(ref)
    page = client.list_schedules(text=ref, limit=500)
    found = [one for one in page.items if one.name == ref or one.id == SCHEDULE_ID_PREFIX + ref]
    if len(found) == 1:
        return client.get_schedule(found[0].id)
    if found:
        ids = ", ".join(one.id for one in found[:10])
        raise UserError(f"{len(found)} schedules are named {ref}", hint=f"Use one of their ids: {ids}.")
    raise UserError(f"Schedule {ref[:100]} not found", hint="List them with `holdfast schedule ls`.")
