"""What the API takes and gives about schedules."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .models import Taken

Kind = Literal["inactive", "daily", "weekly", "monthly", "custom"]
OverlapName = Literal["skip", "queue", "cancel"]
MissedName = Literal["skip", "once"]
MOST_TEXT = 2**20  # characters of a job file
LONGEST = 200  # characters of cron text, and of names


class NewRecurrence(Taken):
    kind: Kind = "custom"
    cron: str | None = Field(None, max_length=LONGEST, description="minute hour day-of-month month day-of-week")
    timezone: str = Field("", max_length=LONGEST, description="Such as Europe/Berlin; empty: the server's.")


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
