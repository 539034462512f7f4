"""The form of a schedule. It shows the next runs and checks the job file before saving."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.access import Permission, has_permission
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.schedule import CRON_PRESETS, MissedRunPolicy, OverlapPolicy, RecurrenceKind, Schedule
from holdfast.services.people.groups import UNSET
from holdfast.services.schedules.service import ScheduleChange

from ..forms import Form
from ..jobs.check import FileCheck, check_job_file
from ..routes import build_form_route, build_page_route
from ..schedule_values import (
    SCHEDULE_FORM_FIELDS,
    ScheduleFormValues,
    build_schedule_form_values,
    is_same_text,
    parse_schedule_times,
    read_schedule_form,
)
from ..schedule_views import MAX_UPCOMING_RUNS, DueTime, build_due_times, list_zone_names
from ..visit import Visit

UNCHANGED_VERDICT = "kept"  # the verdict on an unchanged file, whose secrets cannot be checked here


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPreview:
    """The next runs of the form."""

    times: tuple[DueTime, ...] = ()
    zone: str = ""
    problems: dict[str, str] = field(default_factory=dict)  # by field
    on_demand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFormPage:
    schedule: Schedule | None  # None: a new schedule
    typed: ScheduleFormValues
    groups: tuple[str, ...]
    zones: tuple[str, ...]
    server_zone: str
    presets: dict[str, str]  # kind -> cron expression
    preview: RunPreview
    check: FileCheck
    problems: dict[str, str] = field(default_factory=dict)
    problem: str = ""  # of the whole form
    hint: str = ""


# -- pages


async def show_new_schedule(visit: Visit) -> Response:
    """Show the form. `?from=JOB` fills in a job's file, whose secrets must be entered again."""
    source = visit.query.get("from", "")
    typed = ScheduleFormValues()
    if source:
        text = await visit.services.jobs.export_yaml(visit.current_actor, source)
        typed = replace(
            typed, text=text, group=(await visit.services.jobs.load_detail(visit.current_actor, source)).summary.group
        )
    return await _show_form(visit, None, typed)


async def submit_new_schedule(visit: Visit, form: Form) -> Response:
    """Create the schedule if `do=create`; else open the form with the text that another page sent."""
    typed = read_schedule_form(form)
    if form.get_text("do") != "create":
        return await _show_form(visit, None, typed)
    try:
        times = parse_schedule_times(visit, typed)
        made = await visit.services.schedules.create(
            visit.current_actor,
            typed.text,
            times.recurrence,
            group=typed.group or None,
            overlap=OverlapPolicy(typed.overlap),
            missed=MissedRunPolicy(typed.missed),
            ends_at=times.ends_at,
        )
    except UserError as error:
        return await _show_form(visit, None, typed, error)
    return await _redirect_to_schedule(visit, typed, made.schedule, made.warnings)


async def _redirect_to_schedule(
    visit: Visit, typed: ScheduleFormValues, schedule: Schedule, warnings: tuple[str, ...]
) -> Response:
    messages, link = [visit.translate_text("The schedule {name} was created.", name=schedule.name)], ""
    if typed.now:
        try:
            done = await visit.services.schedules.run_schedule_now(visit.current_actor, schedule.id)
            messages.append(visit.translate_text("It also runs now as job {job}.", job=done.summary.id))
            link = f"/jobs/{done.summary.id}"
        except UserError as error:
            messages += [visit.translate_text("It cannot run now."), visit.translate_message(error.message)]
    messages += [visit.translate_message(warning) for warning in warnings]
    return visit.redirect(f"/schedules/{quote(schedule.id, safe='')}", " ".join(messages), link=link)


async def show_schedule_form(visit: Visit) -> Response:
    schedule = await visit.services.schedules.get_changeable_schedule(visit.current_actor, visit.path_params["id"])
    return await _show_form(visit, schedule, build_schedule_form_values(visit, schedule))


async def submit_schedule_form(visit: Visit, form: Form) -> Response:
    schedule = await visit.services.schedules.get_changeable_schedule(visit.current_actor, visit.path_params["id"])
    typed = read_schedule_form(form)
    if form.get_text("do") != "save":
        return await _show_form(visit, schedule, typed)
    try:
        changed = await visit.services.schedules.change(
            visit.current_actor, schedule.id, _build_schedule_change(visit, schedule, typed)
        )
    except UserError as error:
        return await _show_form(visit, schedule, typed, error)
    messages = [
        visit.translate_text("{name} was changed.", name=changed.schedule.name),
        *map(visit.translate_message, changed.warnings),
    ]
    return visit.redirect(f"/schedules/{quote(schedule.id, safe='')}", " ".join(messages))


def _build_schedule_change(visit: Visit, schedule: Schedule, typed: ScheduleFormValues) -> ScheduleChange:
    """Build the change. An unchanged job file is not sent, so that its secrets are kept."""
    before, times = build_schedule_form_values(visit, schedule), parse_schedule_times(visit, typed)
    return ScheduleChange(
        text=None if is_same_text(typed.text, before.text) else typed.text,
        group=None if typed.group in ("", before.group) else typed.group,
        recurrence=None if times.recurrence == schedule.recurrence else times.recurrence,
        overlap=OverlapPolicy(typed.overlap),
        missed=MissedRunPolicy(typed.missed),
        ends_at=UNSET if typed.ends_at == before.ends_at else times.ends_at,
    )


async def _show_form(
    visit: Visit, schedule: Schedule | None, typed: ScheduleFormValues, error: UserError | None = None
) -> Response:
    problems, problem, hint = _build_form_problems(visit, error)
    services = visit.services
    found = ScheduleFormPage(
        schedule=schedule,
        typed=typed,
        groups=await _list_group_choices(visit, typed.group),
        zones=list_zone_names(),
        server_zone=services.schedules.timing.timezone,
        presets={kind.value: cron for kind, cron in CRON_PRESETS.items()},
        preview=await _build_preview(visit, typed),
        check=await _check_file(visit, typed, schedule),
        problems=problems,
        problem=problem,
        hint=hint,
    )
    return await visit.render_response("schedules/form.html", found, 200 if error is None else 400)


# -- parts, while typing


async def show_preview(visit: Visit) -> Response:
    query = visit.query
    form = Form({name: [query[name]] for name in SCHEDULE_FORM_FIELDS if name in query})
    return await visit.render_response("schedules/_preview.html", await _build_preview(visit, read_schedule_form(form)))


async def check_schedule_file(visit: Visit, form: Form) -> Response:
    id = form.get_text("id")
    schedule = await visit.services.schedules.get(visit.current_actor, id) if id else None
    return await visit.render_response(
        "schedules/_check.html", await _check_file(visit, read_schedule_form(form), schedule)
    )


async def _build_preview(visit: Visit, typed: ScheduleFormValues) -> RunPreview:
    timing = visit.services.schedules.timing
    try:
        times = parse_schedule_times(visit, typed)
        if times.recurrence.kind is RecurrenceKind.INACTIVE:
            return RunPreview(on_demand=True)
        due = await visit.services.schedules.preview_times(times.recurrence, MAX_UPCOMING_RUNS, ends_at=times.ends_at)
    except UserError as error:
        return RunPreview(problems={error.field or "cron": visit.translate_error(error)})
    zone = timing.resolve_zone(times.recurrence)
    return RunPreview(times=build_due_times(due, zone, visit.words.code), zone=str(zone))


async def _check_file(visit: Visit, typed: ScheduleFormValues, schedule: Schedule | None) -> FileCheck:
    """Check the file, unless it is unchanged: its secrets are not available here."""
    if schedule is not None and schedule.job.secrets and is_same_text(typed.text, schedule.source):
        return FileCheck(verdict=UNCHANGED_VERDICT, name=schedule.name, group=schedule.group)
    return await check_job_file(visit, typed.text, typed.group)


async def _list_group_choices(visit: Visit, chosen: str) -> tuple[str, ...]:
    """Return the groups that the user can submit to, and the current one."""
    known = [group.name for group in await visit.services.groups.list(visit.current_actor)]
    mine = {name for name in known if has_permission(visit.current_actor, Permission.SUBMIT_JOB, name)}
    return tuple(sorted(mine | ({chosen} if chosen in known else set())))


# -- problems


def _build_form_problems(visit: Visit, error: UserError | None) -> tuple[dict[str, str], str, str]:
    """Return problems by field, or one problem and its hint for the top of the form."""
    if error is None:
        return {}, "", ""
    if isinstance(error, InvalidJob):
        return {"text": visit.translate_text("The job file has errors. See the list below it.")}, "", ""
    if error.field in SCHEDULE_FORM_FIELDS:
        return {error.field: visit.translate_error(error)}, "", ""
    return {}, visit.translate_message(error.message), visit.translate_message(error.hint or "")


routes = [
    build_page_route("/schedules/new", show_new_schedule),
    build_form_route("/schedules/new", submit_new_schedule),
    build_page_route("/schedules/preview", show_preview),
    build_form_route("/schedules/check", check_schedule_file),
    build_page_route("/schedules/{id}/edit", show_schedule_form),
    build_form_route("/schedules/{id}/edit", submit_schedule_form),
]
