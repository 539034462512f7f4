"""Job -> Holdfast YAML, as short as it can be said: what equals the default is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import yaml

from holdfast.core.codec import mask
from holdfast.core.job import Completion, Job, Mount, Resources, Role

from .defaults import Defaults
from .holdfast_yaml import ONLY_ROLE
from .holds import write_hold
from .notifying import write_notify
from .quantities import render_duration, render_size
from .rules import ENV_NAME
from .scalars import is_text
from .templates import secret_reference

try:
    from yaml import CSafeDumper as _Dumper
except ImportError:  # pragma: no cover - PyYAML without libyaml
    from yaml import SafeDumper as _Dumper  # type: ignore[assignment]

_NO_DEFAULTS = Defaults()
_PLAIN_ROLE = Role(name=ONLY_ROLE, commands=())


def render_yaml(job: Job, *, mask_secrets: bool = True, defaults: Defaults = _NO_DEFAULTS) -> str:
    """A file that parses to the same job under the same defaults, its dialect apart. Mounts that datasets gave are left
    out: they are given again to whoever submits it."""
    exported = _exported(job)
    roles = {role.name: _role(role, exported, defaults) for role in job.roles}
    shared = _take_shared(roles)
    only = list(roles) == [ONLY_ROLE]
    tasks = roles[ONLY_ROLE].get("retry", 0) if only else 0
    written = {
        "name": job.name,
        "description": job.description or None,
        "group": job.group if job.group != defaults.group else None,
        **shared,
        "roles": None if only else roles,
        "secrets": (mask(job.secrets) if mask_secrets else dict(job.secrets)) or None,
        "export_secrets": False if job.secrets and not exported else None,
        "gang": None if job.gang else False,
        "retry": {"max": job.max_retries, "tasks": tasks} if tasks else job.max_retries or None,
        "time_limit": _time_limit(job.time_limit),
        "grace": None if job.grace is None else render_duration(job.grace),
        "hold": None if job.hold is None else write_hold(job.hold),
        "priority": job.priority or None,
        "tags": _Flow(job.tags) or None,
        "datasets": _Flow(job.datasets) or None,
        "files": job.files or None,
        "notify": write_notify(job.notify) if job.notify else None,
        "extras": dict(job.extras) or None,
    }
    return dump_yaml({key: value for key, value in written.items() if value is not None})


def _take_shared(roles: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Move to the top what all roles say alike."""
    first, *others = roles.values()
    alike = [key for key in first if key != "retry" and all(other.get(key) == first[key] for other in others)]
    if "instance_type" not in alike and any("instance_type" in role for role in roles.values()):
        alike = [key for key in alike if key != "resources"]  # at the top they would not hold for those roles
    shared = {key: first[key] for key in alike}
    for role in roles.values():
        for key in alike:
            del role[key]
    return shared


def _time_limit(limit: timedelta | None) -> str | None:
    if limit is None:
        return None
    return render_duration(limit) if limit else "none"


def _exported(job: Job) -> dict[str, str]:
    """The variables that stand for secrets by themselves; empty when that would not be this job."""
    references = {name: secret_reference(name) for name in job.secrets}
    pattern = re.compile(ENV_NAME.schema["pattern"])
    simple = all(isinstance(value, str) and pattern.fullmatch(name) for name, value in job.secrets.items())
    everywhere = all(name in role.env for role in job.roles for name in references)
    return references if simple and everywhere else {}


def _role(role: Role, exported: Mapping[str, str], defaults: Defaults) -> dict[str, Any]:
    options = _Flow(role.shell_options) if role.shell_options != _PLAIN_ROLE.shell_options else None
    env = {name: value for name, value in role.env.items() if exported.get(name) != value}
    written = {
        "image": role.image if role.image != defaults.image else None,
        "instances": role.instances if role.instances != 1 else None,
        "command": role.commands[0] if len(role.commands) == 1 else None,
        "commands": list(role.commands) if len(role.commands) != 1 else None,
        "env": env or None,
        **_size(role, defaults),
        "ports": _ports(role.ports) or None,
        "mounts": [_mount(mount) for mount in role.mounts if mount.dataset is None] or None,
        "completion": _completion(role.completion) or None,
        "shell_options": options,
        "workdir": role.workdir,
        "retry": role.max_task_retries or None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _size(role: Role, defaults: Defaults) -> dict[str, Any]:
    """By its name, if it still has one here."""
    if role.instance_type not in defaults.instance_types:
        return {"resources": _resources(role.resources, defaults.resources) or None}
    own = {key: value for key, value in _written(role.resources).items() if key in role.own_resources}
    return {"instance_type": role.instance_type, "resources": own or None}


def _resources(resources: Resources, base: Resources) -> dict[str, Any]:
    written = _written(resources)
    return {key: value for key, value in written.items() if getattr(resources, key) != getattr(base, key)}


def _written(resources: Resources) -> dict[str, Any]:
    cpu = int(resources.cpu) if float(resources.cpu).is_integer() else resources.cpu
    shm = "none" if resources.shm is None else render_size(resources.shm)
    return {"cpu": cpu, "memory": render_size(resources.memory), "gpu": resources.gpu, "shm": shm}


def _ports(ports: Mapping[str, int]) -> Any:
    return _Flow(ports) if all(count == 1 for count in ports.values()) else dict(ports)


def _mount(mount: Mount) -> Any:
    if ":" not in mount.source and ":" not in mount.target:
        return f"{mount.source}:{mount.target}{'' if mount.read_only else ':rw'}"
    return {"source": mount.source, "target": mount.target, "read_only": mount.read_only}


def _completion(completion: Completion) -> dict[str, Any]:
    base = Completion()
    written: dict[str, Any] = {}
    for key in ("min_failed", "min_succeeded"):
        value = getattr(completion, key)
        if value != getattr(base, key):
            written[key] = "none" if value is None else value
    return written


# -- YAML text --------------------------------------------------------------------------------------------------------


class _Flow(list[Any]):
    """A short list, written on one line."""


# Text that is the same after a trip through a literal block: tame lines, no space at either end of the whole.
_TAME = re.compile(r"[^\s#-](?:[^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff]|[\t\n])*\S\n?")


class _HoldfastDumper(_Dumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text.rstrip("\n") and _TAME.fullmatch(text) and " \n" not in text and "\t\n" not in text:
        style = "|"
    elif not is_text(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_flow(dumper: Any, items: _Flow) -> Any:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)


_HoldfastDumper.add_representer(str, _represent_text)
_HoldfastDumper.add_representer(_Flow, _represent_flow)
_HoldfastDumper.add_representer(tuple, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items))


def dump_yaml(value: Any) -> str:
    """YAML that our own reader, and any YAML 1.2 reader, takes for the same value."""
    return yaml.dump(
        value, Dumper=_HoldfastDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000
    )
