"""`<% ... %>` at the launch: secrets in commands, everything in the parameters of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.job import Job
from holdfast.jobspec.rules import MAX_JOB_CHARS
from holdfast.jobspec.templates import Filler

from .parameters import BadParameters

_PASSWORDS = "_registry_passwords"  # put among the secrets when the file is read, by us and not by its author


def openpai_filler(job: Job, role: str) -> Callable[[str], str]:
    """For commands: what can be known of everything else was filled in when the job was submitted."""
    if not has_secrets(job):
        return lambda text: text
    filler = Filler({"secrets": job.secrets}, drop=True)
    return lambda text: filler.render(text).text


def fill_parameters(job: Job, role: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A plugin's parameters with every reference in them filled in."""
    filler = Filler({**_references(job, role), "secrets": job.secrets}, drop=has_secrets(job))
    if _size(parameters, filler) > MAX_JOB_CHARS:
        raise BadParameters(f"with everything filled in, its parameters are longer than {MAX_JOB_CHARS} characters")
    return {key: _fill(value, filler) for key, value in parameters.items()}


def has_secrets(job: Job) -> bool:
    """The file has a section of secrets."""
    return any(not name.startswith(_PASSWORDS) for name in job.secrets)


def openpai_config(job: Job) -> Mapping[str, Any]:
    """The file as it was written, without its secrets."""
    config = job.extras.get("openpai", {}).get("config")
    return config if isinstance(config, Mapping) else {}


def _references(job: Job, role: str) -> dict[str, Any]:
    config = openpai_config(job)
    values: dict[str, Any] = {"parameters": config.get("parameters") or {}}
    roles = config.get("taskRoles")
    chosen = roles.get(role) if isinstance(roles, Mapping) else None
    for kind in ("script", "output", "data"):
        name = chosen.get(kind) if isinstance(chosen, Mapping) else None
        for item in config.get("prerequisites") or ():
            if name is not None and item.get("type") == kind and item.get("name") == name:
                values[kind] = item
    return values


def _size(value: Any, filler: Filler) -> int:
    """Looked at before anything is filled in: a short reference may stand for much, many times."""
    if isinstance(value, str):
        return filler.size(value)
    if isinstance(value, Mapping):
        return sum(_size(each, filler) for each in value.values())
    return sum(_size(each, filler) for each in value) if isinstance(value, list | tuple) else 0


def _fill(value: Any, filler: Filler) -> Any:
    if isinstance(value, str):
        return filler.render(value).text
    if isinstance(value, Mapping):
        return {key: _fill(each, filler) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(each, filler) for each in value]
    return value
