"""What a notification says: in words, as JSON for webhooks and as Slack's text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from holdfast.core.messages import msg
from holdfast.core.notifications import TOLD, NotificationEvent
from holdfast.core.schedule import RunResult
from holdfast.store.notifications.occurrences import MissedRun, Occurrence
from holdfast.store.notifications.records import NewNotification

VERSION = 1  # of the JSON; it changes when something is taken away or means something else
MAX_SUBJECT_LENGTH = 200
MAX_TEXT_LENGTH = 4000
_NOT_PRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_HAPPENED = {
    NotificationEvent.STARTED: msg("has started"),
    NotificationEvent.SUCCEEDED: "succeeded",
    NotificationEvent.FAILED: "failed",
    NotificationEvent.STOPPED: msg("was stopped"),
    NotificationEvent.RETRIED: msg("failed, and is tried again"),
    NotificationEvent.HELD: msg("failed, and is held for debugging"),
    NotificationEvent.DEBUGGER_WAITING: msg("has a debugger that waits for you"),
    NotificationEvent.HOLD_ENDING: msg("is held only a short time more"),
}
_NEXT = {
    NotificationEvent.STARTED: "holdfast logs -f {}",
    NotificationEvent.SUCCEEDED: "holdfast show {}",
    NotificationEvent.FAILED: "holdfast why {}",
    NotificationEvent.STOPPED: "holdfast show {}",
    NotificationEvent.RETRIED: "holdfast events {}",
    NotificationEvent.HELD: "holdfast ssh {}",
    NotificationEvent.DEBUGGER_WAITING: "holdfast debug {}",
    NotificationEvent.HOLD_ENDING: "holdfast extend {}",
}
_DID_NOT_RUN = {
    RunResult.SKIPPED: msg("was skipped"),
    RunResult.MISSED: msg("was missed"),
    RunResult.FAILED: msg("could not begin"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened, ready for every recipient."""

    event: NotificationEvent
    job_id: str | None
    subject: str
    body: Mapping[str, Any]  # without what differs between recipients


def tell_of_job(happening: Occurrence, *, verdict: str | None, base: str) -> Told:
    """`base` is the portal's address, or empty. `verdict`: why it failed, in a line."""
    event = TOLD[happening.kind]
    name, link = one_line(happening.name), _link(base, "jobs", happening.job_id)
    span = _span(happening, event)
    subject = f"{name} {_HAPPENED[event]}" + (msg(" after {span}", span=_show(span)) if span is not None else "")
    command = _NEXT[event].format(happening.job_id)
    why = None if event in (NotificationEvent.STARTED, NotificationEvent.SUCCEEDED) else one_line(happening.message)
    lines = [
        f"{subject}.",
        msg("Why: {verdict}", verdict=one_line(verdict)) if verdict else "",
        why or "",
        "",
        msg(
            "Job {job_id} of {user} in the group {group}.",
            job_id=happening.job_id,
            user=happening.user,
            group=one_line(happening.group),
        ),
        msg("Next: {command}", command=command),
        link or "",
    ]
    return Told(event, happening.job_id, subject[:MAX_SUBJECT_LENGTH], {
        "version": VERSION,
        "event": event.value,
        "at": happening.at.isoformat(),
        "user": happening.user,
        "subject": subject[:MAX_SUBJECT_LENGTH],
        "text": _text(lines),
        "link": link,
        "command": command,
        "job": _job(happening, event, verdict, span),
        "schedule": None,
    })  # fmt: skip


def tell_of_schedule(missed: MissedRun, *, base: str) -> Told:
    run, name = missed.run, one_line(missed.name)
    subject = msg(
        "The run of {name} due at {due_at} UTC {x1}",
        name=name,
        due_at=f"{run.due_at:%Y-%m-%d %H:%M}",
        x1=_DID_NOT_RUN[run.result],
    )
    link, command = _link(base, "schedules", run.schedule_id), f"holdfast schedule runs {run.schedule_id}"
    lines = [
        f"{subject}.",
        one_line(run.message),
        "",
        msg(
            "Schedule {schedule_id} of {user} in the group {group}.",
            schedule_id=run.schedule_id,
            user=missed.user,
            group=one_line(missed.group),
        ),
        msg("Next: {command}", command=command),
        link or "",
    ]
    return Told(NotificationEvent.SCHEDULE_SKIPPED, None, subject[:MAX_SUBJECT_LENGTH], {
        "version": VERSION,
        "event": NotificationEvent.SCHEDULE_SKIPPED.value,
        "at": run.at.isoformat(),
        "user": missed.user,
        "subject": subject[:MAX_SUBJECT_LENGTH],
        "text": _text(lines),
        "link": link,
        "command": command,
        "job": None,
        "schedule": {
            "id": run.schedule_id,
            "name": missed.name,
            "group": missed.group,
            "due_at": run.due_at.isoformat(),
            "result": run.result.value,
            "message": run.message,
        },
    })  # fmt: skip


def tell_of_test(user: str, now: datetime) -> Told:
    subject = msg("A test of your notifications")
    text = msg("{subject}. {user} asked for it; nothing happened to any job.", subject=subject, user=user)
    return Told(NotificationEvent.TEST, None, subject, {
        "version": VERSION,
        "event": NotificationEvent.TEST.value,
        "at": now.isoformat(),
        "user": user,
        "subject": subject,
        "text": text,
        "link": None,
        "command": "holdfast notifications",
        "job": None,
        "schedule": None,
    })  # fmt: skip


def webhook_body(notification: NewNotification) -> dict[str, Any]:
    return {"id": notification.id, **notification.body}


def slack_body(notification: NewNotification) -> dict[str, str]:
    """Nothing that a job is called can become a link or call everybody in the channel."""
    return {"text": str(notification.body["text"]).translate(_SLACK)}


def one_line(text: str) -> str:
    """Without anything that could begin another line, or another header."""
    return _NOT_PRINTED.sub(" ", text.encode("utf-8", "replace").decode()).strip()


def _text(lines: list[str]) -> str:
    kept = [line for at, line in enumerate(lines) if line or at == 3]
    return "\n".join(kept).replace("\n\n\n", "\n\n").rstrip()[:MAX_TEXT_LENGTH]


def _job(
    happening: Occurrence, event: NotificationEvent, verdict: str | None, span: timedelta | None
) -> dict[str, Any]:
    ended = happening.finished_at if span is not None else None
    return {
        "id": happening.job_id,
        "name": happening.name,
        "group": happening.group,
        "user": happening.user,
        "state": happening.state,
        "message": happening.message,
        "verdict": verdict,
        "task": happening.task,
        "attempt": happening.attempt,
        "exit_code": happening.exit_code if span is not None else None,
        "submitted_at": happening.submitted_at.isoformat(),
        "started_at": happening.started_at.isoformat() if happening.started_at else None,
        "finished_at": ended.isoformat() if ended else None,
        "seconds": span.total_seconds() if span is not None else None,
    }


def _span(happening: Occurrence, event: NotificationEvent) -> timedelta | None:
    """How long it ran, of one that has ended."""
    ends = event in (NotificationEvent.SUCCEEDED, NotificationEvent.FAILED, NotificationEvent.STOPPED)
    if not ends or happening.started_at is None or happening.finished_at is None:
        return None
    return max(happening.finished_at - happening.started_at, timedelta())


def _show(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def _link(base: str, kind: str, id: str) -> str | None:
    return f"{base}/{kind}/{quote(id)}" if base else None
