"""Options of the schedule commands, and the job file of a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdfast.core.errors import UserError

from ..options import open_client
from ..quantities import parse_duration, utc_now
from .submit import read_job_file

SCHEDULE_ID_PREFIX = "recurrence-"
NO_END = "none"


class Frequency(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class OverlapChoice(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class MissedRunChoice(StrEnum):
    SKIP = "skip"
    ONCE = "once"


_RECURRENCE_KINDS = {Frequency.DAY: "daily", Frequency.WEEK: "weekly", Frequency.MONTH: "monthly"}


def complete_schedule(incomplete: str) -> list[str]:
    """Complete schedule ids; return nothing if no server answers."""
    from holdfast.core.errors import HoldfastError

    try:
        with open_client(timeout=2) as client:
            return [one.id for one in client.list_schedules().items if one.id.startswith(incomplete)]
    except HoldfastError:
        return []


ScheduleRefArgument = Annotated[
    str,
    typer.Argument(metavar="SCHEDULE", help="Schedule id, or the name of its job.", autocompletion=complete_schedule),
]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Job file in any supported format; - reads stdin.")]
NewFileOption = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Replace the job file; - reads stdin.")
]
GroupOption = Annotated[str | None, typer.Option("--group", "-g", help="Group of its jobs.")]
CronOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help='Cron expression with five fields: "30 4 * * MON-FRI".')
]
EveryOption = Annotated[
    Frequency | None, typer.Option("--every", help="Run at 4:00: daily, on Sundays, or on the 1st.")
]
OnDemandOption = Annotated[bool, typer.Option("--on-demand", help="Run only on demand, with `holdfast schedule run`.")]
ZoneOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Time zone: Europe/Berlin. Default: the server's.")
]
OverlapOption = Annotated[
    OverlapChoice | None,
    typer.Option(
        "--overlap",
        help="What to do if the previous job still runs. skip: skip this run. queue: run when it has ended. "
        "cancel: stop it. Default: skip.",
    ),
]
MissedOption = Annotated[
    MissedRunChoice | None,
    typer.Option("--missed", help="Runs missed while the server was down. once: one run for all. Default: skip."),
]
EndTimeOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="End of the schedule: 2027-01-31T12:00, or 30d from now; none: no end."),
]


def choose_recurrence_kind(cron: str | None, every: Frequency | None, on_demand: bool) -> str | None:
    if sum((cron is not None, every is not None, on_demand)) > 1:
        raise typer.BadParameter("--cron, --every and --on-demand cannot be used together")
    if cron is not None:
        return "custom"
    return "inactive" if on_demand else _RECURRENCE_KINDS[every] if every is not None else None


def parse_end_time(text: str | None) -> datetime | None:
    """Parse a time, or a duration from now."""
    if text is None or text == NO_END:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return utc_now() + timedelta(seconds=parse_duration(text))
        except (typer.BadParameter, OverflowError):
            raise typer.BadParameter(f"{text!r} is neither a time (2027-01-31T12:00) nor a duration (30d)") from None
    return found if found.tzinfo else found.astimezone()  # without a zone, it is local time


def read_job_text(file: str) -> str:
    try:
        return read_job_file(file).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{file} is not UTF-8 text", hint="Check that it is a job file.") from None


def split_recurrence(text: str) -> tuple[str, tuple[str, str | None] | None]:
    """Split a PrimeHub schedule into its job form and its recurrence."""
    from json import dumps

    form = _parse_form(text)
    recurrence = form.pop("recurrence", None)
    if not isinstance(recurrence, dict):
        return text, None
    template = form.get("jobTemplate")
    kind, cron = str(recurrence.get("type")), recurrence.get("cron")
    written = dumps(template["spec"] if isinstance(template, dict) and "spec" in template else form, default=str)
    return written, ("inactive" if kind == "on-demand" else kind, cron if isinstance(cron, str) else None)


def _parse_form(text: str) -> dict[str, Any]:
    """Return the mapping that can contain a recurrence; of a PhSchedule resource, its spec."""
    import yaml

    if "recurrence" not in text:
        return {}
    try:
        form = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}  # the server reports what is wrong
    if isinstance(form, dict) and form.get("kind") == "PhSchedule":
        form = form.get("spec")
    return form if isinstance(form, dict) else {}
