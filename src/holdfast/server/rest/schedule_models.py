"""What the API takes and gives about schedules."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .models import Given, StateName, Taken

Kind = Literal["inactive", "daily", "weekly", "monthly", "custom"]
OverlapName = Literal["skip", "queue", "cancel"]
MissedName = Literal["skip", "once"]
MOST_TEXT = 2**20  # characters of a job file
LONGEST = 200  # characters of cron text, and of names


class RecurrenceView(Given):
    kind: Kind
    cron: str | None = Field(description="Five fields; only the kind custom goes by it.")
    timezone: str = Field(description="Such as Europe/Berlin; empty: the server's.")


class NewRecurrence(Taken):
    kind: Kind = "custom"
    cron: str | None = Field(None, max_length=LONGEST, description="minute hour day-of-month month day-of-week")
    timezone: str = Field("", max_length=LONGEST, description="Such as Europe/Berlin; empty: the server's.")


class ScheduleView(Given):
    id: str
    name: str
    user: str = Field(description="Whose its jobs are.")
    group: str
    recurrence: RecurrenceView
    timezone: str = Field(description="The one it goes by: its own, or the server's.")
    overlap: OverlapName = Field(description="What a due run does while a job of an earlier one is not finished.")
    missed: MissedName = Field(description="What becomes of runs that were due while no server ran.")
    ends_at: str | None
    paused: bool
    invalid: str | None = Field(
        description="Why it cannot run, in a word: cron, timezone, user, member, group, instance-type, image, other."
    )
    message: str
    next_run_at: str | None = Field(description="While it is invalid: when it is looked at again.")
    queued_at: str | None = Field(description="A run was due then, and waits for an earlier job to end.")
    last_run_at: str | None
    created_at: str
    updated_at: str


class SchedulePageView(Given):
    items: list[ScheduleView]
    total: int


class ScheduleDetailView(ScheduleView):
    job: dict[str, Any] = Field(description="The template as Holdfast understands it; secrets are masked.")
    source: str = Field(description="The template as it was written; secrets are masked.")
    next_runs: list[str] = Field(description="The next five times it is due.")
    warnings: list[str] = Field(description="About the job file, right after it was given.")


class NewSchedule(Taken):
    job: str = Field(max_length=MOST_TEXT, description="A job file in any dialect.")
    dialect: str | None = Field(None, max_length=LONGEST, description="Left out: it is recognised.")
    group: str | None = Field(None, max_length=LONGEST, description="Whatever the file says.")
    recurrence: NewRecurrence
    overlap: OverlapName = "skip"
    missed: MissedName = "skip"
    ends_at: str | None = Field(None, max_length=LONGEST, description="Nothing is due after it.")
    paused: bool = False


class ScheduleChange(Taken):
    """What is left out stays as it is."""

    job: str | None = Field(None, max_length=MOST_TEXT, description="Another job file.")
    dialect: str | None = Field(None, max_length=LONGEST)
    form: dict[str, Any] | None = Field(
        None, description="Some fields of PrimeHub's job form, where the job file is in that form."
    )
    group: str | None = Field(None, max_length=LONGEST, description="Move it to this group.")
    recurrence: NewRecurrence | None = None
    overlap: OverlapName | None = None
    missed: MissedName | None = None
    ends_at: str | None = Field(None, max_length=LONGEST, description="null: it has no end.")
    paused: bool | None = None


class PreviewAsked(Taken):
    recurrence: NewRecurrence
    count: int = Field(5, ge=1, le=100)
    ends_at: str | None = Field(None, max_length=LONGEST)


class PreviewView(Given):
    timezone: str
    times: list[str]


class RunView(Given):
    seq: int
    due_at: str
    at: str = Field(description="When it was dealt with.")
    result: Literal["started", "skipped", "missed", "failed"]
    job: str | None = Field(description="The job's id.")
    state: StateName | None = Field(description="Where that job is now.")
    message: str
    actor: str = Field(description="Who asked for it; holdfast: nobody, it was due.")


class RunPageView(Given):
    items: list[RunView]
