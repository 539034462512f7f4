"""The form of a recurring job, new or changed: it tells when it would run and whether it could, before it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.access import Verb, may
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.schedule import PRESETS, Missed, Overlap, RecurrenceKind, Schedule
from holdfast.services.people.groups import UNSET
from holdfast.services.schedules.service import ScheduleChange

from ..forms import Form
from ..jobs.check import Checked, check
from ..routes import act, page
from ..schedule_typed import FIELDS, Typed, same_text, times_of, typed_in, typed_of
from ..schedule_views import UPCOMING, DueTime, due_times, zone_names
from ..visit import Visit

KEPT = "kept"  # the verdict on a file that stays as it is, with secrets nobody can check from here


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """When it would run."""

    times: tuple[DueTime, ...] = ()
    zone: str = ""
    problems: dict[str, str] = field(default_factory=dict)  # by field
    on_demand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPage:
    schedule: Schedule | None  # None: a new one
    typed: Typed
    groups: tuple[str, ...]
    zones: tuple[str, ...]
    server_zone: str
    presets: dict[str, str]  # kind -> its cron text
    preview: Preview
    check: Checked
    problems: dict[str, str] = field(default_factory=dict)
    problem: str = ""  # of no field
    hint: str = ""


# -- pages


async def show_new(visit: Visit) -> Response:
    """`?from=JOB` fills in a job's file; its secrets are asked for again."""
    source = visit.request.query_params.get("from", "")
    typed = Typed()
    if source:
        text = await visit.services.jobs.yaml(visit.who, source)
        typed = replace(typed, text=text, group=(await visit.services.jobs.record(visit.who, source)).summary.group)
    return await _show(visit, None, typed)


async def post_new(visit: Visit, form: Form) -> Response:
    """With `do=create` it is made. Without, the form opens with the text that another page sent."""
    typed = typed_in(form)
    if form.text("do") != "create":
        return await _show(visit, None, typed)
    try:
        times = times_of(visit, typed)
        made = await visit.services.schedules.create(
            visit.who,
            typed.text,
            times.recurrence,
            group=typed.group or None,
            overlap=Overlap(typed.overlap),
            missed=Missed(typed.missed),
            ends_at=times.ends_at,
        )
    except UserError as error:
        return await _show(visit, None, typed, error)
    return await _made(visit, typed, made.schedule, made.warnings)


async def _made(visit: Visit, typed: Typed, schedule: Schedule, warnings: tuple[str, ...]) -> Response:
    said, link = [visit.say("{name} is a recurring job now.", name=schedule.name)], ""
    if typed.now:
        try:
            done = await visit.services.schedules.run_now(visit.who, schedule.id)
            said.append(visit.say("It also runs now, as the job {job}.", job=done.summary.id))
            link = f"/jobs/{done.summary.id}"
        except UserError as error:
            said += [visit.say("It could not be run now."), visit.tell(error.message)]
    said += [visit.tell(warning) for warning in warnings]
    return visit.go(f"/schedules/{quote(schedule.id, safe='')}", " ".join(said), link=link)


async def show_edit(visit: Visit) -> Response:
    schedule = await visit.services.schedules.get_own(visit.who, visit.request.path_params["id"])
    return await _show(visit, schedule, typed_of(visit, schedule))


async def post_edit(visit: Visit, form: Form) -> Response:
    schedule = await visit.services.schedules.get_own(visit.who, visit.request.path_params["id"])
    typed = typed_in(form)
    if form.text("do") != "save":
        return await _show(visit, schedule, typed)
    try:
        changed = await visit.services.schedules.change(visit.who, schedule.id, _change(visit, schedule, typed))
    except UserError as error:
        return await _show(visit, schedule, typed, error)
    said = [visit.say("{name} is changed.", name=changed.schedule.name), *map(visit.tell, changed.warnings)]
    return visit.go(f"/schedules/{quote(schedule.id, safe='')}", " ".join(said))


def _change(visit: Visit, schedule: Schedule, typed: Typed) -> ScheduleChange:
    """A job file that was not touched is not sent: its secrets stay as they are."""
    before, times = typed_of(visit, schedule), times_of(visit, typed)
    return ScheduleChange(
        text=None if same_text(typed.text, before.text) else typed.text,
        group=None if typed.group in ("", before.group) else typed.group,
        recurrence=None if times.recurrence == schedule.recurrence else times.recurrence,
        overlap=Overlap(typed.overlap),
        missed=Missed(typed.missed),
        ends_at=UNSET if typed.ends_at == before.ends_at else times.ends_at,
    )


async def _show(visit: Visit, schedule: Schedule | None, typed: Typed, error: UserError | None = None) -> Response:
    problems, problem, hint = _placed(visit, error)
    services = visit.services
    found = FormPage(
        schedule=schedule,
        typed=typed,
        groups=await _groups(visit, typed.group),
        zones=zone_names(),
        server_zone=services.schedules.timing.timezone,
        presets={kind.value: cron for kind, cron in PRESETS.items()},
        preview=await _preview(visit, typed),
        check=await _check(visit, typed, schedule),
        problems=problems,
        problem=problem,
        hint=hint,
    )
    return await visit.show("schedules/form.html", found, 200 if error is None else 400)


# -- parts, as one types


async def show_preview(visit: Visit) -> Response:
    given = visit.request.query_params
    form = Form({name: [given[name]] for name in FIELDS if name in given})
    return await visit.show("schedules/_preview.html", await _preview(visit, typed_in(form)))


async def check_text(visit: Visit, form: Form) -> Response:
    id = form.text("id")
    schedule = await visit.services.schedules.get(visit.who, id) if id else None
    return await visit.show("schedules/_check.html", await _check(visit, typed_in(form), schedule))


async def _preview(visit: Visit, typed: Typed) -> Preview:
    timing = visit.services.schedules.timing
    try:
        times = times_of(visit, typed)
        if times.recurrence.kind is RecurrenceKind.INACTIVE:
            return Preview(on_demand=True)
        due = await visit.services.schedules.preview(times.recurrence, UPCOMING, ends_at=times.ends_at)
    except UserError as error:
        return Preview(problems={error.field or "cron": visit.tell_error(error)})
    zone = timing.zone(times.recurrence)
    return Preview(times=due_times(due, zone, visit.words.code), zone=str(zone))


async def _check(visit: Visit, typed: Typed, schedule: Schedule | None) -> Checked:
    """The file of a schedule that was not touched may have secrets, which are not here to be checked."""
    if schedule is not None and schedule.job.secrets and same_text(typed.text, schedule.source):
        return Checked(verdict=KEPT, name=schedule.name, group=schedule.group)
    return await check(visit, typed.text, typed.group)


async def _groups(visit: Visit, chosen: str) -> tuple[str, ...]:
    """Where a job may be submitted to; with the one that it is in."""
    known = [group.name for group in await visit.services.groups.list(visit.who)]
    mine = {name for name in known if may(visit.who, Verb.SUBMIT_JOB, name)}
    return tuple(sorted(mine | ({chosen} if chosen in known else set())))


# -- what is wrong with it


def _placed(visit: Visit, error: UserError | None) -> tuple[dict[str, str], str, str]:
    """Problems by field; else one for the top of the form, with its hint."""
    if error is None:
        return {}, "", ""
    if isinstance(error, InvalidJob):
        return {"text": visit.say("The job file has mistakes: see below it.")}, "", ""
    if error.field in FIELDS:
        return {error.field: visit.tell_error(error)}, "", ""
    return {}, visit.tell(error.message), visit.tell(error.hint or "")


routes = [
    page("/schedules/new", show_new),
    act("/schedules/new", post_new),
    page("/schedules/preview", show_preview),
    act("/schedules/check", check_text),
    page("/schedules/{id}/edit", show_edit),
    act("/schedules/{id}/edit", post_edit),
]
