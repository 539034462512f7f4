"""Job -> Holdfast YAML without default values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import yaml

from holdfast.core.codec import mask_values
from holdfast.core.job import Completion, Job, Mount, Resources, Role

from .defaults import Defaults
from .holdfast_yaml import DEFAULT_ROLE_NAME
from .holds import render_hold
from .notify import render_notify
from .quantities import format_duration, format_size
from .rules import ENV_NAME_KIND
from .scalars import is_text_scalar
from .templates import format_secret_reference

try:
    from yaml import CSafeDumper as _Dumper
except ImportError:  # pragma: no cover - PyYAML without libyaml
    from yaml import SafeDumper as _Dumper  # type: ignore[assignment]

_NO_DEFAULTS = Defaults()
_DEFAULT_ROLE = Role(name=DEFAULT_ROLE_NAME, commands=())


def render_yaml(job: Job, *, mask_secrets: bool = True, defaults: Defaults = _NO_DEFAULTS) -> str:
    """Render a file that parses to the same job under the same defaults, except for its file format. Mounts of datasets
    are omitted: they are added again on submission."""
    exported = _find_exported_secrets(job)
    roles = {role.name: _render_role(role, exported, defaults) for role in job.roles}
    shared = _extract_shared_values(roles)
    only = list(roles) == [DEFAULT_ROLE_NAME]
    tasks = roles[DEFAULT_ROLE_NAME].get("retry", 0) if only else 0
    written = {
        "name": job.name,
        "description": job.description or None,
        "group": job.group if job.group != defaults.group else None,
        **shared,
        "roles": None if only else roles,
        "secrets": (mask_values(job.secrets) if mask_secrets else dict(job.secrets)) or None,
        "export_secrets": False if job.secrets and not exported else None,
        "gang": None if job.gang else False,
        "retry": {"max": job.max_retries, "tasks": tasks} if tasks else job.max_retries or None,
        "time_limit": format_time_limit(job.time_limit),
        "grace": None if job.grace is None else format_duration(job.grace),
        "hold": None if job.hold is None else render_hold(job.hold),
        "priority": job.priority or None,
        "engine": job.engine or None,
        "tags": _FlowList(job.tags) or None,
        "datasets": _FlowList(job.datasets) or None,
        "files": job.files or None,
        "notify": render_notify(job.notify) if job.notify else None,
        "extras": dict(job.extras) or None,
    }
    return dump_yaml({key: value for key, value in written.items() if value is not None})


def _extract_shared_values(roles: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Move values that all roles share to the top level."""
    first, *others = roles.values()
    alike = [key for key in first if key != "retry" and all(other.get(key) == first[key] for other in others)]
    if "instance_type" not in alike and any("instance_type" in role for role in roles.values()):
        alike = [key for key in alike if key != "resources"]  # at the top level they would not apply to those roles
    shared = {key: first[key] for key in alike}
    for role in roles.values():
        for key in alike:
            del role[key]
    return shared


def format_time_limit(limit: timedelta | None) -> str | None:
    if limit is None:
        return None
    return format_duration(limit) if limit else "none"


def _find_exported_secrets(job: Job) -> dict[str, str]:
    """Return the variables that export secrets; empty if that would change the job."""
    references = {name: format_secret_reference(name) for name in job.secrets}
    pattern = re.compile(ENV_NAME_KIND.schema["pattern"])
    simple = all(isinstance(value, str) and pattern.fullmatch(name) for name, value in job.secrets.items())
    everywhere = all(name in role.env for role in job.roles for name in references)
    return references if simple and everywhere else {}


def _render_role(role: Role, exported: Mapping[str, str], defaults: Defaults) -> dict[str, Any]:
    options = _FlowList(role.shell_options) if role.shell_options != _DEFAULT_ROLE.shell_options else None
    env = {name: value for name, value in role.env.items() if exported.get(name) != value}
    written = {
        "image": role.image if role.image != defaults.image else None,
        "instances": role.instances if role.instances != 1 else None,
        "command": role.commands[0] if len(role.commands) == 1 else None,
        "commands": list(role.commands) if len(role.commands) != 1 else None,
        "env": env or None,
        **_render_instance_type(role, defaults),
        "ports": (_FlowList(role.ports) if all(count == 1 for count in role.ports.values()) else dict(role.ports))
        or None,
        "mounts": [_render_mount(mount) for mount in role.mounts if mount.dataset is None] or None,
        "completion": _render_completion(role.completion) or None,
        "shell_options": options,
        "workdir": role.workdir,
        **{engine: dict(options) for engine, options in role.engine_options.items()},
        "retry": role.max_task_retries or None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _render_instance_type(role: Role, defaults: Defaults) -> dict[str, Any]:
    """Render the instance type by name, if it still exists."""
    if role.instance_type not in defaults.instance_types:
        return {"resources": _render_resources(role.resources, defaults.resources) or None}
    own = {key: value for key, value in _resources_to_dict(role.resources).items() if key in role.own_resources}
    return {"instance_type": role.instance_type, "resources": own or None}


def _render_resources(resources: Resources, base: Resources) -> dict[str, Any]:
    written = _resources_to_dict(resources)
    return {key: value for key, value in written.items() if getattr(resources, key) != getattr(base, key)}


def _resources_to_dict(resources: Resources) -> dict[str, Any]:
    cpu = int(resources.cpu) if float(resources.cpu).is_integer() else resources.cpu
    shm = "none" if resources.shm is None else format_size(resources.shm)
    return {"cpu": cpu, "memory": format_size(resources.memory), "gpu": resources.gpu, "shm": shm}


def _render_mount(mount: Mount) -> Any:
    if ":" not in mount.source and ":" not in mount.target:
        return f"{mount.source}:{mount.target}{'' if mount.read_only else ':rw'}"
    return {"source": mount.source, "target": mount.target, "read_only": mount.read_only}


def _render_completion(completion: Completion) -> dict[str, Any]:
    base = Completion()
    written: dict[str, Any] = {}
    for key in ("min_failed", "min_succeeded"):
        value = getattr(completion, key)
        if value != getattr(base, key):
            written[key] = "none" if value is None else value
    if completion.wait_for_all:
        written["wait_for_all"] = True
    return written


# -- YAML text --------------------------------------------------------------------------------------------------------


class _FlowList(list[Any]):
    """A short list, written on one line."""


# Text that a literal block preserves: printable lines, no space at either end.
_LITERAL_BLOCK_PATTERN = re.compile(r"[^\s#-](?:[^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff]|[\t\n])*\S\n?")


class _HoldfastDumper(_Dumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if (
        "\n" in text.rstrip("\n")
        and _LITERAL_BLOCK_PATTERN.fullmatch(text)
        and " \n" not in text
        and "\t\n" not in text
    ):
        style = "|"
    elif not is_text_scalar(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: Any, items: Any) -> Any:
    flow = True if isinstance(items, _FlowList) else None
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flow)


_HoldfastDumper.add_representer(str, _represent_text)
_HoldfastDumper.add_representer(_FlowList, _represent_list)
_HoldfastDumper.add_representer(tuple, _represent_list)


def dump_yaml(value: Any) -> str:
    """Dump YAML that any YAML 1.2 parser reads as the same value."""
    return yaml.dump(
        value, Dumper=_HoldfastDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000
    )
