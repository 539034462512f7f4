"""The content of a notification: as text, as JSON for webhooks and as a Slack message."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from holdfast.core.messages import msg
from holdfast.core.notifications import EVENTS_BY_KIND, Channel, NotificationEvent
from holdfast.core.schedule import RunResult
from holdfast.store.notifications.event_scan import MissedRun, NotifiableEvent
from holdfast.store.notifications.records import NewNotification

PAYLOAD_VERSION = 1  # of the JSON; it changes when a field is removed or changes its meaning
MAX_SUBJECT_LENGTH = 200
MAX_TEXT_LENGTH = 4000
_UNPRINTABLE_PATTERN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_EVENT_TEXTS = {
    NotificationEvent.STARTED: msg("has started"),
    NotificationEvent.SUCCEEDED: "succeeded",
    NotificationEvent.FAILED: "failed",
    NotificationEvent.STOPPED: msg("was stopped"),
    NotificationEvent.RETRIED: msg("failed and is being retried"),
    NotificationEvent.HELD: msg("failed and is on hold for debugging"),
    NotificationEvent.DEBUGGER_WAITING: msg("has a debugger waiting for you"),
    NotificationEvent.HOLD_ENDING: msg("has a hold that expires soon"),
}
_NEXT_COMMANDS = {
    NotificationEvent.STARTED: "holdfast logs -f {}",
    NotificationEvent.SUCCEEDED: "holdfast show {}",
    NotificationEvent.FAILED: "holdfast why {}",
    NotificationEvent.STOPPED: "holdfast show {}",
    NotificationEvent.RETRIED: "holdfast events {}",
    NotificationEvent.HELD: "holdfast ssh {}",
    NotificationEvent.DEBUGGER_WAITING: "holdfast debug {}",
    NotificationEvent.HOLD_ENDING: "holdfast extend {}",
}
_RESULT_TEXTS = {
    RunResult.SKIPPED: msg("was skipped"),
    RunResult.MISSED: msg("was missed"),
    RunResult.FAILED: msg("could not start"),
}


@dataclass(frozen=True, slots=True)
class NotificationContent:
    """The content of a notification, the same for every recipient."""

    event: NotificationEvent
    job_id: str | None
    subject: str
    body: Mapping[str, Any]  # without fields that differ between recipients

    def to_notification(
        self, user: str, way: Channel, address: str, *, at: datetime, occurrence: str = ""
    ) -> NewNotification:
        """Return the notification for one recipient. `occurrence`: the same for all recipients; default: its id."""
        id = f"notification-{secrets.token_hex(8)}"
        return NewNotification(
            id=id,
            user=user,
            way=way,
            address=address,
            event=self.event,
            happening=occurrence or id,
            job_id=self.job_id,
            subject=self.subject,
            body=self.body,
            created_at=at,
        )


def render_job_event(occurrence: NotifiableEvent, *, verdict: str | None, base: str) -> NotificationContent:
    """Render an event of a job. `base`: the portal's address, or empty. `verdict`: why it failed, in one line."""
    event = EVENTS_BY_KIND[occurrence.kind]
    name, link = to_one_line(occurrence.name), _build_link(base, "jobs", occurrence.job_id)
    span = _get_run_time(occurrence, event)
    subject = f"{name} {_EVENT_TEXTS[event]}" + (
        msg(" after {span}", span=_format_duration(span)) if span is not None else ""
    )
    command = _NEXT_COMMANDS[event].format(occurrence.job_id)
    why = None if event in (NotificationEvent.STARTED, NotificationEvent.SUCCEEDED) else to_one_line(occurrence.message)
    lines = [
        f"{subject}.",
        msg("Reason: {verdict}", verdict=to_one_line(verdict)) if verdict else "",
        why or "",
        "",
        msg(
            "Job {job_id} of {user} in the group {group}.",
            job_id=occurrence.job_id,
            user=occurrence.user,
            group=to_one_line(occurrence.group),
        ),
        msg("Next: {command}", command=command),
        link or "",
    ]
    return _build_content(
        event,
        subject[:MAX_SUBJECT_LENGTH],
        _join_lines(lines),
        at=occurrence.at,
        user=occurrence.user,
        link=link,
        command=command,
        job=_job_to_json(occurrence, event, verdict, span),
    )


def render_missed_run(missed: MissedRun, *, base: str) -> NotificationContent:
    run, name = missed.run, to_one_line(missed.name)
    subject = msg(
        "The run of {name} due at {due_at} UTC {result}",
        name=name,
        due_at=f"{run.due_at:%Y-%m-%d %H:%M}",
        result=_RESULT_TEXTS[run.result],
    )
    link, command = _build_link(base, "schedules", run.schedule_id), f"holdfast schedule runs {run.schedule_id}"
    lines = [
        f"{subject}.",
        to_one_line(run.message),
        "",
        msg(
            "Schedule {schedule_id} of {user} in the group {group}.",
            schedule_id=run.schedule_id,
            user=missed.user,
            group=to_one_line(missed.group),
        ),
        msg("Next: {command}", command=command),
        link or "",
    ]
    schedule = {
        "id": run.schedule_id,
        "name": missed.name,
        "group": missed.group,
        "due_at": run.due_at.isoformat(),
        "result": run.result.value,
        "message": run.message,
    }
    event, subject, text = NotificationEvent.SCHEDULE_SKIPPED, subject[:MAX_SUBJECT_LENGTH], _join_lines(lines)
    return _build_content(
        event, subject, text, at=run.at, user=missed.user, link=link, command=command, schedule=schedule
    )


def render_test_notification(user: str, now: datetime) -> NotificationContent:
    subject = msg("Notification test")
    text = msg("{subject}, requested by {user}. No job is affected.", subject=subject, user=user)
    return _build_content(NotificationEvent.TEST, subject, text, at=now, user=user, command="holdfast notifications")


def _build_content(
    event: NotificationEvent,
    subject: str,
    text: str,
    *,
    at: datetime,
    user: str,
    command: str,
    link: str | None = None,
    job: Mapping[str, Any] | None = None,
    schedule: Mapping[str, Any] | None = None,
) -> NotificationContent:
    fields = {"event": event.value, "at": at.isoformat(), "user": user, "subject": subject, "text": text}
    body = {"version": PAYLOAD_VERSION, **fields, "link": link, "command": command, "job": job, "schedule": schedule}
    return NotificationContent(event, None if job is None else job["id"], subject, body)


def build_webhook_body(notification: NewNotification) -> dict[str, Any]:
    return {"id": notification.id, **notification.body}


def build_slack_body(notification: NewNotification) -> dict[str, str]:
    """Build the Slack message, escaped so that a job's name cannot become a link or a channel mention."""
    return {"text": str(notification.body["text"]).translate(_SLACK_ESCAPES)}


def to_one_line(text: str) -> str:
    """Replace characters that could start another line or header."""
    return _UNPRINTABLE_PATTERN.sub(" ", text.encode("utf-8", "replace").decode()).strip()


def _join_lines(lines: list[str]) -> str:
    kept = [line for at, line in enumerate(lines) if line or at == 3]
    return "\n".join(kept).replace("\n\n\n", "\n\n").rstrip()[:MAX_TEXT_LENGTH]


def _job_to_json(
    occurrence: NotifiableEvent, event: NotificationEvent, verdict: str | None, span: timedelta | None
) -> dict[str, Any]:
    ended = occurrence.finished_at if span is not None else None
    return {
        "id": occurrence.job_id,
        "name": occurrence.name,
        "group": occurrence.group,
        "user": occurrence.user,
        "state": occurrence.state,
        "message": occurrence.message,
        "verdict": verdict,
        "task": occurrence.task,
        "attempt": occurrence.attempt,
        "exit_code": occurrence.exit_code if span is not None else None,
        "submitted_at": occurrence.submitted_at.isoformat(),
        "started_at": occurrence.started_at.isoformat() if occurrence.started_at else None,
        "finished_at": ended.isoformat() if ended else None,
        "seconds": span.total_seconds() if span is not None else None,
    }


def _get_run_time(occurrence: NotifiableEvent, event: NotificationEvent) -> timedelta | None:
    ends = event in (NotificationEvent.SUCCEEDED, NotificationEvent.FAILED, NotificationEvent.STOPPED)
    if not ends or occurrence.started_at is None or occurrence.finished_at is None:
        return None
    return max(occurrence.finished_at - occurrence.started_at, timedelta())


def _format_duration(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def _build_link(base: str, kind: str, id: str) -> str | None:
    return f"{base}/{kind}/{quote(id)}" if base else None
