"""PrimeHub's job form -> Job -> form. Instance type and group are stored in extras.primehub."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.job import Job, JobFormat, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import FieldKind, Fields, FieldValue, InvalidValue
from .holdfast_yaml import DEFAULT_ROLE_NAME
from .instance_types import get_instance_type
from .kinds import make_integer_kind, read_text_scalar
from .quantities import MAX_DURATION
from .render import dump_yaml

PRIMEHUB_KEYS = ("displayName", "instanceType", "groupId", "groupName", "activeDeadlineSeconds")

# Fields that PrimeHub adds to a job or schedule; ignored when an exported one is submitted.
_SERVER_FIELDS = frozenset(
    {
        "id", "name", "createTime", "schedule", "userId", "userName", "cancel", "phase", "reason", "message",
        "podName", "startTime", "finishTime", "requeued", "logEndpoint", "artifact", "monitoring",
        "ttlSecondsAfterFinished", "requeueLimit", "user", "invalid", "nextRunTime", "updateTime",
    }
)  # fmt: skip
_CUSTOM_RESOURCE_KINDS = ("PhJob", "PhSchedule")  # PrimeHub's Kubernetes resources: the form is in spec
_DEADLINE_KIND = make_integer_kind(least=0, most=int(MAX_DURATION.total_seconds()))  # 0: no limit


def _read_recurrence(at: FieldValue) -> str:
    """Read the recurrence: in a job, the schedule it comes from; in a schedule, when it runs."""
    if isinstance(at.node.value, dict):
        hint = msg("Create a schedule instead, or remove this field to run the job once.")
        raise InvalidValue(msg("is only supported for schedules, not for jobs"), hint, rule="type", expected="string")
    return str(at.node.value)


_RECURRENCE_KIND = FieldKind(_read_recurrence, {"type": "string"})


def is_kubernetes_resource(document: Mapping[str, Any]) -> bool:
    kind, spec = (getattr(document.get(key), "value", document.get(key)) for key in ("kind", "spec"))
    return kind in _CUSTOM_RESOURCE_KINDS and isinstance(spec, dict)


def read_primehub_job(root: FieldValue, defaults: Defaults) -> Job:
    root = _find_form(root)
    fields = Fields(root)
    name = fields.read_required("displayName", rules.JOB_NAME_KIND, "")
    size = fields.get_field("instanceType")
    if size is None:
        fields.report_missing_key("instanceType")
    type_name, resources = (
        size.apply_reader(lambda at: _read_instance_type(at, defaults), _NO_INSTANCE_TYPE)
        if size
        else _NO_INSTANCE_TYPE
    )
    image = fields.read_required("image", rules.IMAGE_KIND, "")
    command = fields.read_required("command", rules.COMMAND_KIND, "")
    group_name = fields.read_optional("groupName", rules.GROUP_NAME_KIND, None)
    group_id = fields.read_optional("groupId", rules.GROUP_NAME_KIND, None)
    deadline = fields.read_optional("activeDeadlineSeconds", _DEADLINE_KIND, None)
    fields.read_optional("recurrence", _RECURRENCE_KIND, None)
    fields.report_unknown_keys(tolerated=_SERVER_FIELDS)
    role = Role(
        name=DEFAULT_ROLE_NAME,
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
        dialect=JobFormat.PRIMEHUB,
        extras={"primehub": {"instanceType": type_name, **({"groupId": group_id} if group_id else {})}},
    )
    rules.check_job(job, root, {DEFAULT_ROLE_NAME: root})
    return job


def _find_form(root: FieldValue) -> FieldValue:
    """Find the form: the spec of a resource; in a schedule it may be in a template."""
    if not (isinstance(root.node.value, dict) and is_kubernetes_resource(root.node.value)):
        return root
    spec = root.get_entries()["spec"]
    template = _find_mapping(spec, "jobTemplate")
    form = _find_mapping(template, "spec") if template else None
    if form is None:
        return spec
    Fields(spec).read_optional("recurrence", _RECURRENCE_KIND, None)
    return form


def _find_mapping(at: FieldValue, key: str) -> FieldValue | None:
    found = at.get_entries().get(key)
    return found if found is not None and isinstance(found.node.value, dict) else None


_NO_INSTANCE_TYPE = ("", Resources())


def _read_instance_type(at: FieldValue, defaults: Defaults) -> tuple[str, Resources]:
    """Read the instance type's name; exported jobs contain the whole object."""
    name = _read_instance_type_name(at)
    return name, get_instance_type(name, defaults.instance_types)


def _read_instance_type_name(at: FieldValue) -> str:
    if not isinstance(at.node.value, dict):
        return read_text_scalar(at)
    inner = at.node.value.get("name") or at.node.value.get("id")
    if inner is None:
        raise InvalidValue(msg("requires a name"), rule="required", expected="name")
    return read_text_scalar(at.get_child("name", inner))


def render_primehub_yaml(job: Job) -> str:
    """Render the form, to be submitted as another job with PrimeHub's environment."""
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
