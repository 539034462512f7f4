"""PrimeHub's job form -> Job -> the form. Instance type and group as named there are kept under extras.primehub."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.job import Dialect, Job, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import At, Fields, Kind, Wrong
from .holdfast_yaml import ONLY_ROLE
from .kinds import integer, spelled
from .quantities import MAX_DURATION
from .render import dump_yaml
from .sizes import named_size

PRIMEHUB_MARKS = ("displayName", "instanceType", "groupId", "groupName", "activeDeadlineSeconds")

# What PrimeHub itself writes into a job or a schedule: harmless when an exported one is submitted again.
_WRITTEN_BY_SERVER = frozenset(
    {
        "id", "name", "createTime", "schedule", "userId", "userName", "cancel", "phase", "reason", "message",
        "podName", "startTime", "finishTime", "requeued", "logEndpoint", "artifact", "monitoring",
        "ttlSecondsAfterFinished", "requeueLimit", "user", "invalid", "nextRunTime", "updateTime",
    }
)  # fmt: skip
_RESOURCES = ("PhJob", "PhSchedule")  # what PrimeHub kept in its cluster: the form is under spec
_DEADLINE = integer(least=0, most=int(MAX_DURATION.total_seconds()))  # 0: no limit


def _read_recurrence(at: At) -> str:
    """PrimeHub's client shows here which schedule a job came from; in the form of a schedule it says when it runs."""
    if isinstance(at.node.value, dict):
        hint = msg("Make a schedule of it, or remove this to run it once.")
        raise Wrong(msg("is for schedules, and this is to be a job"), hint, rule="type", expected="string")
    return str(at.node.value)


_RECURRENCE = Kind(_read_recurrence, {"type": "string"})


def is_resource(document: Mapping[str, Any]) -> bool:
    kind, spec = (getattr(document.get(key), "value", document.get(key)) for key in ("kind", "spec"))
    return kind in _RESOURCES and isinstance(spec, dict)


def read_primehub(root: At, defaults: Defaults) -> Job:
    root = _form_in(root)
    fields = Fields(root)
    name = fields.need("displayName", rules.JOB_NAME, "")
    size = fields.get("instanceType")
    if size is None:
        fields.missing("instanceType")
    type_name, resources = size.apply(lambda at: _instance_type(at, defaults), _NO_TYPE) if size else _NO_TYPE
    image = fields.need("image", rules.IMAGE, "")
    command = fields.need("command", rules.COMMAND, "")
    group_name = fields.take("groupName", rules.GROUP_NAME, None)
    group_id = fields.take("groupId", rules.GROUP_NAME, None)
    deadline = fields.take("activeDeadlineSeconds", _DEADLINE, None)
    fields.take("recurrence", _RECURRENCE, None)
    fields.close(tolerated=_WRITTEN_BY_SERVER)
    role = Role(
        name=ONLY_ROLE,
        commands=(command,),
        image=image,
        resources=resources,
        instance_type=type_name,
        shell_options=(),
    )
    job = Job(
        name=name,
        roles=(role,),
        group=group_name or group_id or defaults.group,
        time_limit=None if deadline is None else timedelta(seconds=deadline),
        files=True,
        dialect=Dialect.PRIMEHUB,
        extras={"primehub": {"instanceType": type_name, **({"groupId": group_id} if group_id else {})}},
    )
    rules.check_job(job, root, {ONLY_ROLE: root})
    return job


def _form_in(root: At) -> At:
    """Of a resource, its spec; that of a schedule says when it runs, and may hold the form in a template."""
    if not (isinstance(root.node.value, dict) and is_resource(root.node.value)):
        return root
    spec = root.entries()["spec"]
    template = _mapping_in(spec, "jobTemplate")
    form = _mapping_in(template, "spec") if template else None
    if form is None:
        return spec
    Fields(spec).take("recurrence", _RECURRENCE, None)
    return form


def _mapping_in(at: At, key: str) -> At | None:
    found = at.entries().get(key)
    return found if found is not None and isinstance(found.node.value, dict) else None


_NO_TYPE = ("", Resources())


def _instance_type(at: At, defaults: Defaults) -> tuple[str, Resources]:
    """Its name; exported jobs hold the whole object."""
    name = _name_of(at)
    return name, named_size(name, defaults.instance_types)


def _name_of(at: At) -> str:
    if not isinstance(at.node.value, dict):
        return spelled(at)
    inner = at.node.value.get("name") or at.node.value.get("id")
    if inner is None:
        raise Wrong(msg("needs a name"), rule="required", expected="name")
    return spelled(at.child("name", inner))


def render_primehub_yaml(job: Job) -> str:
    """The form again, to be submitted as another job: only so does that get all that PrimeHub puts around its jobs."""
    (role,) = job.roles
    deadline = {} if job.time_limit is None else {"activeDeadlineSeconds": int(job.time_limit.total_seconds())}
    written = {
        "displayName": job.name,
        "groupName": job.group,
        "instanceType": role.instance_type or job.extras.get("primehub", {}).get("instanceType", ""),
        "image": role.image,
        **deadline,
        "command": "\n".join(role.commands),
    }
    return dump_yaml(written)
