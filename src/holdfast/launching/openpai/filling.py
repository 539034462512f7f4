"""`<% ... %>` at the launch: secrets in commands, everything in the parameters of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.job import Job
from holdfast.jobspec.rules import MAX_JOB_CHARS
from holdfast.jobspec.templates import Filler, has_secrets

from .parameters import BadParameters


def openpai_filler(job: Job, role: str) -> Callable[[str], str]:
    """For commands: what can be known of everything else was filled in when the job was submitted."""
    if not has_secrets(job.secrets):
        return lambda text: text
    filler = Filler({"secrets": job.secrets}, drop=True)
    return lambda text: filler.render(text).text


class ParameterFiller:
    """For the plugins of one task, whose parameters are bounded together: there may be many."""

    def __init__(self, job: Job, role: str) -> None:
        self._filler = Filler({**_references(job, role), "secrets": job.secrets}, drop=has_secrets(job.secrets))
        self._room = MAX_JOB_CHARS

    def fill(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """One plugin's, with every reference in them filled in."""
        self._room -= _size(parameters, self._filler)
        if self._room < 0:
            most = f"{MAX_JOB_CHARS} characters, which is what all plugins of a task may have together"
            raise BadParameters(f"with everything filled in, its parameters are longer than what is left of {most}")
        return {key: _fill(value, self._filler) for key, value in parameters.items()}


def openpai_config(job: Job) -> Mapping[str, Any]:
    """The file as it was written, without its secrets."""
    config = job.extras.get("openpai", {}).get("config")
    return config if isinstance(config, Mapping) else {}


def listed_prerequisites(job: Job, role: str) -> list[str]:
    """What the role is to have, in its order, each once."""
    listed = _written_role(job, role).get("prerequisites")
    return list(dict.fromkeys(map(str, listed))) if isinstance(listed, list) else []


def _written_role(job: Job, role: str) -> Mapping[str, Any]:
    roles = openpai_config(job).get("taskRoles")
    found = roles.get(role) if isinstance(roles, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _references(job: Job, role: str) -> dict[str, Any]:
    config, chosen = openpai_config(job), _written_role(job, role)
    values: dict[str, Any] = {"parameters": config.get("parameters") or {}}
    for kind in ("script", "output", "data"):
        name = chosen.get(kind)
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
