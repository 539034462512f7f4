"""Core types <-> column values."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row

from holdfast.core.attempt import Held, JobSnapshot, Outcome, Result, StopRequest, TaskAttempt
from holdfast.core.exits.exit import Behaviour, Exit, ExitKind
from holdfast.core.job import Dialect, Job, Keep
from holdfast.core.messages import pack, unpack
from holdfast.core.records import JobAttempt, JobSummary, NewEvent
from holdfast.core.states import JobState, TaskState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3600 * 1_000_000  # microseconds

# -- instants and durations


def micros(at: datetime) -> int:
    """Exact, unlike datetime.timestamp(). A datetime without a time zone is a TypeError."""
    return duration_micros(at - _EPOCH)


def maybe_micros(at: datetime | None) -> int | None:
    return None if at is None else duration_micros(at - _EPOCH)


def instant(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def maybe_instant(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def duration_micros(span: timedelta) -> int:
    return (span.days * 86400 + span.seconds) * 1_000_000 + span.microseconds


# -- text


def to_json(value: Any) -> str:
    """ASCII, so that no character a database refuses is ever in it."""
    return json.dumps(value, separators=(",", ":"))


def storable(text: str) -> str:
    """Text from programs, made fit for every database: no NUL, no half characters."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def folded(text: str) -> str:
    """Text as search compares it: letter case and look-alike forms make no difference."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def searchable(name: str, job_id: str) -> str:
    """Line breaks part them, so that nothing matches across; those at the end let every letter begin a triple."""
    return f"{folded(name).replace(chr(10), ' ')}\n{job_id}\n\n"


# -- exits and decisions


def exit_to_json(exit: Exit | None) -> str | None:
    return None if exit is None else to_json(_exit_values(exit))


def exit_from_json(text: str | None) -> Exit | None:
    return None if text is None else _exit(json.loads(text))


def _exit_values(exit: Exit) -> dict[str, Any]:
    return {
        "kind": exit.kind.value,
        "message": pack(exit.message),
        "behaviour": exit.behaviour.value,
        "code": exit.code,
        "signal": exit.signal,
        **({"cause": exit.cause} if exit.cause else {}),
    }


def _exit(data: Mapping[str, Any]) -> Exit:
    return Exit(
        kind=ExitKind(data["kind"]),
        message=unpack(data["message"]),
        behaviour=Behaviour(data["behaviour"]),
        code=data["code"],
        signal=data["signal"],
        cause=data.get("cause", ""),
    )


def outcome_to_json(outcome: Outcome | None) -> str | None:
    if outcome is None:
        return None
    return to_json(
        {
            "result": outcome.result.value,
            "message": pack(outcome.message),
            "exit": _exit_values(outcome.exit),
            "role": outcome.role,
            "index": outcome.index,
            "reached": outcome.reached,
            "needed": outcome.needed,
        }
    )


def outcome_from_json(text: str | None) -> Outcome | None:
    if text is None:
        return None
    data = json.loads(text)
    return Outcome(
        result=Result(data["result"]),
        message=unpack(data["message"]),
        exit=_exit(data["exit"]),
        role=data["role"],
        index=data["index"],
        reached=data.get("reached"),
        needed=data.get("needed"),
    )


def stop_to_json(stop: StopRequest | None) -> str | None:
    if stop is None:
        return None
    return to_json({"actor": stop.actor, "at": micros(stop.at), **({"why": pack(stop.why)} if stop.why else {})})


def stop_from_json(text: str | None) -> StopRequest | None:
    if text is None:
        return None
    data = json.loads(text)
    return StopRequest(actor=data["actor"], at=instant(data["at"]), why=unpack(data.get("why", "")))


def held_to_json(held: Held | None) -> str | None:
    if held is None:
        return None
    return to_json(
        {
            "since": micros(held.since),
            "until": micros(held.until),
            "exit": _exit_values(held.exit),
            "keep": held.keep.value,
            "ended": held.ended,
            **({"warned": True} if held.warned else {}),
        }
    )


def held_from_json(text: str | None) -> Held | None:
    if text is None:
        return None
    data = json.loads(text)
    return Held(
        since=instant(data["since"]),
        until=instant(data["until"]),
        exit=_exit(data["exit"]),
        keep=Keep(data["keep"]),
        ended=data["ended"],
        warned=data.get("warned", False),
    )


# -- jobs


def progress_values(snapshot: JobSnapshot) -> dict[str, Any]:
    """The columns of a job that change while it lives."""
    exit = snapshot.exit
    return {
        "state": snapshot.state.value,
        "message": storable(pack(snapshot.message)),
        "attempt": snapshot.attempt,
        "started_at": maybe_micros(snapshot.started_at),
        "attempt_started_at": maybe_micros(snapshot.attempt_started_at),
        "finished_at": maybe_micros(snapshot.finished_at),
        "exit_code": exit.code if exit else None,
        "exit_kind": exit.kind.value if exit else None,
        "exit_cause": (storable(exit.cause) or None) if exit else None,
        "exit_json": exit_to_json(exit),
        "stop_json": stop_to_json(snapshot.stop),
        "outcome_json": outcome_to_json(snapshot.outcome),
        "user_retries": snapshot.user_retries,
        "platform_retries": snapshot.platform_retries,
        "retry_at": maybe_micros(snapshot.retry_at),
        "version": snapshot.version,
    }


def request_values(job: Job) -> dict[str, Any]:
    """The columns of a job that say what it asks for."""
    roles = job.roles
    return {
        "name": job.name,
        "group_name": job.group,
        "task_count": job.task_count,
        "role_count": len(roles),
        "cpu": sum(role.instances * role.resources.cpu for role in roles),
        "memory": sum(role.instances * role.resources.memory for role in roles),
        "gpu": sum(role.instances * role.resources.gpu for role in roles),
        "priority": job.priority,
        "dialect": job.dialect.value,
        "tags_json": to_json(job.tags) if job.tags else None,
    }


SUMMARY_COLUMNS = (
    "seq, id, name, user_name, group_name, state, message, submitted_at, started_at, finished_at, exit_code, exit_kind,"
    " attempt, task_count, cpu, memory, gpu, priority, dialect, tags_json, rerun_of, stop_json, role_count,"
    " user_retries, platform_retries, retry_at, exit_cause, schedule_id"
)


def summary_of(row: Row[Any]) -> JobSummary:
    state = JobState(row.state)
    stop = stop_from_json(row.stop_json)
    return JobSummary(
        id=row.id,
        seq=row.seq,
        name=row.name,
        user=row.user_name,
        group=row.group_name,
        state=state,
        message=unpack(row.message),
        submitted_at=instant(row.submitted_at),
        started_at=maybe_instant(row.started_at),
        finished_at=maybe_instant(row.finished_at),
        exit_code=row.exit_code,
        exit_kind=row.exit_kind,
        attempt=row.attempt,
        task_count=row.task_count,
        cpu=row.cpu,
        memory=row.memory,
        gpu=row.gpu,
        priority=row.priority,
        dialect=Dialect(row.dialect),
        tags=tuple(json.loads(row.tags_json)) if row.tags_json else (),
        rerun_of=row.rerun_of,
        stopping=stop is not None and not state.final,
        stop_why=stop.why if stop is not None else "",
        role_count=row.role_count,
        user_retries=row.user_retries,
        platform_retries=row.platform_retries,
        retry_at=maybe_instant(row.retry_at),
        exit_cause=row.exit_cause or "",
        schedule=row.schedule_id,
    )


# -- attempts, tasks and events


def attempt_values(attempt: JobAttempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "started_at": maybe_micros(attempt.started_at),
        "finished_at": micros(attempt.finished_at),
        "outcome_json": outcome_to_json(attempt.outcome),
        "counted": attempt.counted,
    }


def attempt_of(row: Row[Any]) -> JobAttempt:
    outcome = outcome_from_json(row.outcome_json)
    assert outcome is not None
    return JobAttempt(
        number=row.attempt,
        started_at=maybe_instant(row.started_at),
        finished_at=instant(row.finished_at),
        outcome=outcome,
        counted=bool(row.counted),
    )


def task_values(task: TaskAttempt) -> dict[str, Any]:
    return {
        "role": task.role,
        "task_index": task.index,
        "number": task.number,
        "state": task.state.value,
        "node": task.node,
        "gpus_json": to_json(task.gpus) if task.gpus else None,
        "ports_json": to_json(dict(task.ports)) if task.ports else None,
        "placed_at": maybe_micros(task.placed_at),
        "started_at": maybe_micros(task.started_at),
        "finished_at": maybe_micros(task.finished_at),
        "exit_json": exit_to_json(task.exit),
        "stop_json": exit_to_json(task.stop),
        "user_retries": task.user_retries,
        "platform_retries": task.platform_retries,
        "retry_at": maybe_micros(task.retry_at),
        "hold_json": held_to_json(task.held),
    }


def task_of(row: Row[Any]) -> TaskAttempt:
    ports = json.loads(row.ports_json) if row.ports_json else {}
    return TaskAttempt(
        role=row.role,
        index=row.task_index,
        number=row.number,
        state=TaskState(row.state),
        node=row.node,
        gpus=tuple(json.loads(row.gpus_json)) if row.gpus_json else (),
        ports={label: tuple(numbers) for label, numbers in ports.items()},
        placed_at=maybe_instant(row.placed_at),
        started_at=maybe_instant(row.started_at),
        finished_at=maybe_instant(row.finished_at),
        exit=exit_from_json(row.exit_json),
        stop=exit_from_json(row.stop_json),
        user_retries=row.user_retries,
        platform_retries=row.platform_retries,
        retry_at=maybe_instant(row.retry_at),
        held=held_from_json(row.hold_json),
    )


def event_values(job_seq: int, event: NewEvent) -> dict[str, Any]:
    return {
        "job_seq": job_seq,
        "at": micros(event.at),
        "kind": event.kind,
        "message": storable(pack(event.message)),
        "actor": event.actor,
        "task": event.task,
        "attempt": event.attempt,
        "state": event.state.value if event.state else None,
    }
