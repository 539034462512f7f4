"""The form of a recurring job, new or changed: it tells when it would run and whether it could, before it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.access import Verb, may, may_act, refuse_act
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.schedule import PRESETS, Missed, Overlap, Recurrence, RecurrenceKind, Schedule
from holdfast.services.groups import UNSET
from holdfast.services.schedules import ScheduleChange

from ..forms import Form
from ..routes import act, page
from ..schedule_views import UPCOMING, DueTime, due_times, zone_names
from ..visit import Visit

FIRST_JOB = """\
name: nightly-report
command: |
  echo "It is $(date)"
"""
LONGEST = 200  # characters of a field
FIELDS = ("kind", "cron", "timezone", "ends_at", "overlap", "missed", "group")
_LOCAL = "%Y-%m-%dT%H:%M"  # as a browser writes a time without a zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What stands in the form, as it was typed."""

    kind: str = RecurrenceKind.DAILY.value
    cron: str = ""
    timezone: str = ""
    ends_at: str = ""
    overlap: str = Overlap.SKIP.value
    missed: str = Missed.SKIP.value
    group: str = ""
    text: str = FIRST_JOB
    now: bool = False  # it also runs once, at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """When it would run."""

    times: tuple[DueTime, ...] = ()
    zone: str = ""
    problems: dict[str, str] = field(default_factory=dict)  # by field
    on_demand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether its job would run, were it due now."""

    answer: str  # now, wait, never, wrong; kept: as it is, with secrets nobody can check from here
    name: str = ""
    group: str = ""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPage:
    schedule: Schedule | None  # None: a new one
    typed: Typed
    groups: tuple[str, ...]
    zones: tuple[str, ...]
    server_zone: str
    presets: dict[str, str]  # kind -> its cron text
    preview: Preview
    check: Check
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
    typed = _typed(form)
    if form.text("do") != "create":
        return await _show(visit, None, typed)
    try:
        times = _times(visit, typed)
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
    schedule = await _own(visit)
    return await _show(visit, schedule, _typed_of(visit, schedule))


async def post_edit(visit: Visit, form: Form) -> Response:
    schedule = await _own(visit)
    typed = _typed(form)
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
    before, times = _typed_of(visit, schedule), _times(visit, typed)
    return ScheduleChange(
        text=None if _same(typed.text, before.text) else typed.text,
        group=None if typed.group in ("", before.group) else typed.group,
        recurrence=None if times.recurrence == schedule.recurrence else times.recurrence,
        overlap=Overlap(typed.overlap),
        missed=Missed(typed.missed),
        ends_at=UNSET if typed.ends_at == before.ends_at else times.ends_at,
    )


async def _own(visit: Visit) -> Schedule:
    """One that may be changed; whoever may only see it is told so."""
    schedule = await visit.services.schedules.get(visit.who, visit.request.path_params["id"])
    if not may_act(visit.who, schedule.group, schedule.user):
        raise refuse_act(schedule.group, schedule.user, member=schedule.group in visit.who.groups)
    return schedule


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
    return await visit.show("schedules/_preview.html", await _preview(visit, _typed(form)))


async def check_text(visit: Visit, form: Form) -> Response:
    id = form.text("id")
    schedule = await visit.services.schedules.get(visit.who, id) if id else None
    return await visit.show("schedules/_check.html", await _check(visit, _typed(form), schedule))


async def _preview(visit: Visit, typed: Typed) -> Preview:
    timing = visit.services.schedules.timing
    try:
        times = _times(visit, typed)
        if times.recurrence.kind is RecurrenceKind.INACTIVE:
            return Preview(on_demand=True)
        due = await visit.services.schedules.preview(times.recurrence, UPCOMING, ends_at=times.ends_at)
    except UserError as error:
        return Preview(problems={error.field or "cron": visit.tell_error(error)})
    zone = timing.zone(times.recurrence)
    return Preview(times=due_times(due, zone, visit.words.code), zone=str(zone))


async def _check(visit: Visit, typed: Typed, schedule: Schedule | None) -> Check:
    """The file of a schedule that was not touched may have secrets, which are not here to be checked."""
    if schedule is not None and schedule.job.secrets and _same(typed.text, schedule.source):
        return Check(answer="kept", name=schedule.name, group=schedule.group)
    try:
        planned = await visit.services.jobs.plan(visit.who, typed.text, group=typed.group or None)
    except InvalidJob as error:
        return Check(answer="wrong", problems=tuple(_translated(visit, each) for each in error.problems[:50]))
    except UserError as error:
        problem = Problem(error.field or "", visit.tell(error.message), visit.tell(error.hint or ""))
        return Check(answer="wrong", problems=(problem,))
    return Check(
        answer=planned.verdict.answer,
        name=planned.job.name,
        group=planned.job.group,
        reasons=tuple(map(visit.tell, planned.verdict.reasons)),
        warnings=tuple(map(visit.tell, planned.warnings)),
    )


# -- what was typed


@dataclass(frozen=True, slots=True)
class Times:
    recurrence: Recurrence
    ends_at: datetime | None


def _times(visit: Visit, typed: Typed) -> Times:
    recurrence = Recurrence(kind=RecurrenceKind(typed.kind), cron=typed.cron or None, timezone=typed.timezone)
    zone = visit.services.schedules.timing.zone(recurrence)
    return Times(recurrence, _moment(typed.ends_at, zone))


def _moment(text: str, zone: tzinfo) -> datetime | None:
    """In the zone that the schedule goes by."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(f"{text[:50]!r} is not a time", field="ends_at", hint="Write it as 2027-01-31T12:00.") from None


def _typed(form: Form) -> Typed:
    """Words that the form does not offer become the first it does."""
    kinds, usual = set(RecurrenceKind), Typed()
    return Typed(
        kind=form.text("kind") if form.text("kind") in kinds else usual.kind,
        cron=form.text("cron")[: 2 * LONGEST],  # the service says that it is too long
        timezone=form.text("timezone")[: 2 * LONGEST],
        ends_at=form.text("ends_at")[:LONGEST],
        overlap=form.text("overlap") if form.text("overlap") in set(Overlap) else usual.overlap,
        missed=form.text("missed") if form.text("missed") in set(Missed) else usual.missed,
        group=form.text("group")[:LONGEST],
        text=form.raw("text") or usual.text,
        now=form.is_on("now"),
    )


def _typed_of(visit: Visit, schedule: Schedule) -> Typed:
    recurrence, ends_at = schedule.recurrence, ""
    if schedule.ends_at is not None:
        try:
            zone: tzinfo = visit.services.schedules.timing.zone(recurrence)
        except UserError:
            zone = UTC
        ends_at = schedule.ends_at.astimezone(zone).strftime(_LOCAL)
    return Typed(
        kind=recurrence.kind.value,
        cron=recurrence.cron or "",
        timezone=recurrence.timezone,
        ends_at=ends_at,
        overlap=schedule.overlap.value,
        missed=schedule.missed.value,
        group=schedule.group,
        text=schedule.source,
    )


def _same(one: str, other: str) -> bool:
    """Browsers write line ends in their own way, and drop the first one of a text."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


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


def _translated(visit: Visit, problem: Problem) -> Problem:
    return replace(problem, message=visit.tell(problem.message), hint=visit.tell(problem.hint or ""))


routes = [
    page("/schedules/new", show_new),
    act("/schedules/new", post_new),
    page("/schedules/preview", show_preview),
    act("/schedules/check", check_text),
    page("/schedules/{id}/edit", show_edit),
    act("/schedules/{id}/edit", post_edit),
]
