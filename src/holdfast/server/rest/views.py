"""Converts records to plain JSON values, in the shapes of `holdfast.api`; tests check them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from starlette.responses import Response

from holdfast.api import inside, jobs, server
from holdfast.api.messages import MessageData
from holdfast.core.attempt import Debugger
from holdfast.core.codec import job_to_json
from holdfast.core.conditions import Condition
from holdfast.core.exits.exit import Exit
from holdfast.core.exits.meanings import explain_shell_code
from holdfast.core.exits.table import find_hint
from holdfast.core.job import Job, Mount
from holdfast.core.messages import get_message_json
from holdfast.core.records import JobSummary
from holdfast.core.scheduling.placement import GroupUsage, NodeUsage, ResourceAmount
from holdfast.core.volumes import HostFolder

from ..responses import respond_json

_SCALAR_TYPES = frozenset({str, int, float, bool, type(None)})


class _Field(NamedTuple):
    name: str
    source: str  # attribute of the record
    convert: Callable[[Any], Any]


def record_to_json(shape: Any, record: object, **computed: Any) -> dict[str, Any]:
    """Return every field of the shape: the computed ones, and the others from the record's attributes with these names.
    `x_data` is the ID and arguments for the translation of message `x`."""
    return {
        name: computed[name] if name in computed else convert(getattr(record, source))
        for name, source, convert in _list_fields(shape)
    }


def respond_record(shape: Any, record: object, status: int = 200, **computed: Any) -> Response:
    return respond_json(record_to_json(shape, record, **computed), status)


def respond_items(shape: Any, records: Iterable[object]) -> Response:
    return respond_json({"items": [record_to_json(shape, record) for record in records]})


@cache
def _list_fields(shape: Any) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(shape)
    return tuple(_build_field(field.name, hints[field.name]) for field in dataclasses.fields(shape))


def _build_field(name: str, hint: Any) -> _Field:
    parts = {hint, *_iter_type_arguments(hint)}
    if MessageData in parts:
        return _Field(name, name.removesuffix("_data"), _messages_to_json)
    shape = next(filter(dataclasses.is_dataclass, parts), None)
    return _Field(name, name, lambda value: value if type(value) in _SCALAR_TYPES else _value_to_json(value, shape))


def _iter_type_arguments(hint: Any) -> Iterator[Any]:
    for argument in typing.get_args(hint):
        yield argument
        yield from _iter_type_arguments(argument)


def _messages_to_json(value: str | Sequence[str]) -> Any:
    return get_message_json(value) if isinstance(value, str) else [get_message_json(each) for each in value]


def _value_to_json(value: Any, shape: Any) -> Any:
    if isinstance(value, str):  # also an enum or a message
        return str(value)
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {key: _value_to_json(each, shape) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_value_to_json(each, shape) for each in value]
    return value if shape is None or value is None else record_to_json(shape, value)


def format_time(at: datetime | None) -> str | None:
    """Return a time such as 2026-01-31T12:00:00.5Z; all times are UTC."""
    return None if at is None else at.isoformat()[:-6] + "Z"


def job_summary_to_json(job: JobSummary) -> dict[str, Any]:
    resources = {"cpu": job.cpu, "memory": job.memory, "gpu": job.gpu}
    return record_to_json(jobs.JobSummary, job, resources=resources)


def exit_to_json(exit: Exit | None) -> dict[str, Any] | None:
    if exit is None:
        return None
    return record_to_json(jobs.Exit, exit, hint=find_hint(exit) or explain_shell_code(exit))


def debugger_to_json(task: str, debugger: Debugger, *, entering: bool = True) -> dict[str, Any]:
    """Return a debugger. `entering`: for a user with shell access to the task."""
    why = debugger.why if debugger.why in ("start", "breakpoint", "crash") else ""
    private = {} if entering else {"port": None, "token": None}
    return record_to_json(inside.Debugger, debugger, task=task, why=why, **private)


def amount_to_json(amount: ResourceAmount) -> dict[str, Any]:
    return {"cpu": round(amount.cpu, 6), "memory": amount.memory, "gpu": amount.gpu}


def job_spec_to_json(job: Job, *, paths: bool) -> dict[str, Any]:
    """Return the job. Paths of datasets on the server are for admins; others see names only."""
    roles = tuple(
        replace(role, mounts=tuple(_simplify_mount(mount, paths=paths) for mount in role.mounts)) for role in job.roles
    )
    return job_to_json(replace(job, roles=roles))


def _simplify_mount(mount: Mount, *, paths: bool) -> Mount:
    """Return the mount with its source alone, whatever the kind of its volume."""
    return replace(mount, volume=HostFolder(mount.source if paths or mount.dataset is None else mount.dataset))


def condition_to_json(condition: Condition, *, admin: bool = False) -> dict[str, Any]:
    return record_to_json(server.Condition, condition, detail=condition.detail if admin else "")


def node_usage_to_json(use: NodeUsage) -> dict[str, Any]:
    return record_to_json(server.Node, use.node, free=amount_to_json(use.free), waiting=use.waiting)


def group_usage_to_json(use: GroupUsage) -> dict[str, Any]:
    users = {user: amount_to_json(amount) for user, amount in sorted(use.users.items())}
    return record_to_json(server.GroupUsage, use, name=use.group, used=amount_to_json(use.used), users=users)
