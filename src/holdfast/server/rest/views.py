"""Records -> plain JSON values, in the shapes of `holdfast.api`; tests check that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.attempt import Debugger, Held
from holdfast.core.catalogue import Secret
from holdfast.core.codec import job_to_json
from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Exit
from holdfast.core.exits.meanings import known_code
from holdfast.core.exits.table import hint_for
from holdfast.core.job import Job, Mount
from holdfast.core.messages import data_of
from holdfast.core.records import Dataset, Event, Group, JobSummary, Token, User
from holdfast.core.scheduling.placement import Amount, GroupUse, NodeUse, Quota
from holdfast.core.verdicts import Diagnosis
from holdfast.engines.base import EngineHealth, ImageInfo
from holdfast.jobspec.holds import hold_word
from holdfast.services.datasets.git_sync import GitState
from holdfast.services.files.walk import Item, Listing


def show_time(at: datetime | None) -> str | None:
    """2026-01-31T12:00:00.5Z; every instant in here is UTC."""
    return None if at is None else at.isoformat()[:-6] + "Z"


def show_seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def show_summary(job: JobSummary) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "group": job.group,
        "state": job.state.value,
        "message": job.message,
        "submitted_at": show_time(job.submitted_at),
        "started_at": show_time(job.started_at),
        "finished_at": show_time(job.finished_at),
        "exit_code": job.exit_code,
        "exit_kind": job.exit_kind,
        "attempt": job.attempt,
        "task_count": job.task_count,
        "resources": {"cpu": job.cpu, "memory": job.memory, "gpu": job.gpu},
        "priority": job.priority,
        "dialect": job.dialect.value,
        "tags": list(job.tags),
        "rerun_of": job.rerun_of,
        "schedule": job.schedule,
        "stopping": job.stopping,
        "held_until": show_time(job.held_until),
    }


def show_exit(exit: Exit | None) -> dict[str, Any] | None:
    if exit is None:
        return None
    return {
        "kind": exit.kind.value,
        "code": exit.code,
        "signal": exit.signal,
        "message": exit.message,
        "behaviour": exit.behaviour.value,
        "cause": exit.cause,
        "hint": hint_for(exit) or known_code(exit),
    }


def show_debugger(task: str, debugger: Debugger, *, entering: bool = True) -> dict[str, Any]:
    """`entering`: for somebody who may enter the task."""
    return {
        "task": task,
        "id": debugger.id,
        "file": debugger.file,
        "line": debugger.line,
        "function": debugger.function,
        "why": debugger.why if debugger.why in ("start", "breakpoint", "crash") else "",
        "since": show_time(debugger.since),
        "until": show_time(debugger.until),
        "attached": debugger.attached,
        "waits": debugger.waits,
        "port": debugger.port if entering else None,
        "token": debugger.token if entering else None,
    }


def show_held(held: Held | None) -> dict[str, Any] | None:
    if held is None:
        return None
    return {
        "since": show_time(held.since),
        "until": show_time(held.until),
        "keep": held.keep.value,
        "ended": held.ended,
    }


def show_kept(failure: Diagnosis | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {"fault": failure.fault.value, "title": failure.title, "task": failure.task}


def show_message(name: str, text: str) -> dict[str, Any]:
    """A text, and the id and arguments it is translated by."""
    return {name: text, f"{name}_data": data_of(text)}


def show_messages(name: str, texts: Sequence[str]) -> dict[str, Any]:
    return {name: list(texts), f"{name}_data": [data_of(text) for text in texts]}


def show_event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": show_time(event.at),
        "kind": event.kind,
        **show_message("message", event.message),
        "actor": event.actor,
        "task": event.task,
        "attempt": event.attempt,
        "state": event.state.value if event.state else None,
    }


def show_user(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "admin": user.admin,
        "email": user.email,
        "groups": dict(user.groups),
        "disabled": user.disabled,
        "created_at": show_time(user.created_at),
    }


def show_group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "display_name": group.display_name,
        "description": group.description,
        "quota": show_quota(group.quota),
        "user_quota": show_quota(group.user_quota),
        "time_limit": show_seconds(group.time_limit),
        "members": dict(group.members),
        "shared_volume": group.shared_volume,
        "volume_capacity": group.volume_capacity,
        "launch_only": group.launch_only,
        "home_symlink": group.home_symlink,
        "hold": None if group.hold is None else hold_word(group.hold),
    }


def show_quota(quota: Quota) -> dict[str, Any]:
    return {"cpu": quota.cpu, "memory": quota.memory, "gpu": quota.gpu}


def show_amount(amount: Amount) -> dict[str, Any]:
    return {"cpu": round(amount.cpu, 6), "memory": amount.memory, "gpu": amount.gpu}


def show_token(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "created_at": show_time(token.created_at),
        "expires_at": show_time(token.expires_at),
        "last_used_at": show_time(token.last_used_at),
    }


def show_spec(job: Job, *, paths: bool) -> dict[str, Any]:
    """Where datasets lie on the server's machine is for admins; others see them by name, and what jobs wrote."""
    if not paths:
        job = replace(job, roles=tuple(replace(role, mounts=_by_name(role.mounts)) for role in job.roles))
    return job_to_json(job)


def _by_name(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    return tuple(mount if mount.dataset is None else replace(mount, source=mount.dataset) for mount in mounts)


def show_dataset(dataset: Dataset, git: GitState | None = None, *, paths: bool = True) -> dict[str, Any]:
    """Without `paths`, for those whom it tells nothing where it lies."""
    return {
        "name": dataset.name,
        "path": dataset.path if paths else "",
        "display_name": dataset.display_name,
        "description": dataset.description,
        "read_only": dataset.read_only,
        "everyone": dataset.everyone,
        "groups": list(dataset.groups),
        "writable_groups": list(dataset.writable_groups),
        "per_user": dataset.per_user,
        "default": dataset.default,
        "kind": dataset.kind,
        "data": dict(dataset.data),
        "sync": None if git is None else show_git_state(git),
    }


def show_git_state(state: GitState) -> dict[str, Any]:
    return {
        "commit": state.commit,
        "synced_at": show_time(state.synced_at),
        "error": state.error,
        "error_at": show_time(state.error_at),
        "busy": state.busy,
    }


def show_secret(secret: Secret) -> dict[str, Any]:
    """All but its value."""
    return {
        "name": secret.name,
        "display_name": secret.display_name,
        "kind": secret.kind.value,
        "registry_host": secret.registry_host,
        "username": secret.username,
    }


def show_image(image: ImageInfo) -> dict[str, Any]:
    return {
        "name": image.name,
        "size": image.size,
        "created_at": show_time(image.created_at),
        "source": image.source,
    }


def show_condition(condition: Condition, *, admin: bool = False) -> dict[str, Any]:
    return {
        "kind": condition.kind.value,
        "message": condition.message,
        "hint": condition.hint,
        "detail": condition.detail if admin else "",
        "blocks_starts": condition.blocks_starts,
        "warning": condition.warning,
    }


def show_engine(health: EngineHealth) -> dict[str, Any]:
    return {
        "name": health.name,
        "isolation": health.isolation.value,
        "limits": health.limits,
        "notes": list(health.notes),
    }


def show_node(use: NodeUse) -> dict[str, Any]:
    node = use.node
    return {
        "name": node.name,
        "cpu": node.cpu,
        "memory": node.memory,
        "gpus": list(node.gpus),
        "free": show_amount(use.free),
    }


def show_group_use(use: GroupUse) -> dict[str, Any]:
    return {
        "name": use.group,
        "used": show_amount(use.used),
        "quota": show_quota(use.quota),
        "user_quota": show_quota(use.user_quota),
        "users": {user: show_amount(amount) for user, amount in sorted(use.users.items())},
    }


def show_ports(ports: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {label: list(numbers) for label, numbers in ports.items()}


def show_file(item: Item) -> dict[str, Any]:
    return {"name": item.name, "size": item.size, "modified_at": show_time(item.modified_at)}


def show_listing(listing: Listing) -> dict[str, Any]:
    more = not listing.complete and bool(listing.items)
    return {
        "items": [show_file(item) for item in listing.items],
        "complete": listing.complete,
        "next": listing.items[-1].name if more else None,
        "left_out": listing.left_out,
    }
