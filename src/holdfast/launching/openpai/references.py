"""Resolves `<% ... %>` at the launch: secrets in commands, all references in the parameters of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.job import Job
from holdfast.jobspec.rules import MAX_JOB_CHARS
from holdfast.jobspec.templates import TemplateFiller, has_secrets

from .parameters import InvalidParameters


def make_openpai_filler(job: Job, role: str) -> Callable[[str], str]:
    """Return the filler for commands: all other references were resolved when the job was submitted."""
    if not has_secrets(job.secrets):
        return lambda text: text
    filler = TemplateFiller({"secrets": job.secrets}, drop=True)
    return lambda text: filler.render_text(text).text


class ParameterFiller:
    """Fills the parameters of one task's plugins, with a common size limit."""

    def __init__(self, job: Job, role: str) -> None:
        self._filler = TemplateFiller(
            {**_make_references(job, role), "secrets": job.secrets}, drop=has_secrets(job.secrets)
        )
        self._remaining_chars = MAX_JOB_CHARS

    def fill_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self._remaining_chars -= _measure_filled_text(parameters, self._filler)
        if self._remaining_chars < 0:
            limit = f"the limit for all plugins of a task ({MAX_JOB_CHARS} characters)"
            raise InvalidParameters(f"its parameters exceed {limit} after all references are resolved")
        return {key: _fill_value(value, self._filler) for key, value in parameters.items()}


def get_openpai_config(job: Job) -> Mapping[str, Any]:
    """Return the file as written, without its secrets."""
    config = job.extras.get("openpai", {}).get("config")
    return config if isinstance(config, Mapping) else {}


def list_prerequisites(job: Job, role: str) -> list[str]:
    """Return the prerequisites of the role, in order, each once."""
    listed = get_role_config(job, role).get("prerequisites")
    return list(dict.fromkeys(map(str, listed))) if isinstance(listed, list) else []


def get_role_config(job: Job, role: str) -> Mapping[str, Any]:
    roles = get_openpai_config(job).get("taskRoles")
    found = roles.get(role) if isinstance(roles, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _make_references(job: Job, role: str) -> dict[str, Any]:
    config, chosen = get_openpai_config(job), get_role_config(job, role)
    values: dict[str, Any] = {"parameters": config.get("parameters") or {}}
    for kind in ("script", "output", "data"):
        name = chosen.get(kind)
        for item in config.get("prerequisites") or ():
            if name is not None and item.get("type") == kind and item.get("name") == name:
                values[kind] = item
    return values


def _measure_filled_text(value: Any, filler: TemplateFiller) -> int:
    """Measure before filling: a short reference may stand for a long text, many times."""
    if isinstance(value, str):
        return filler.measure_size(value)
    if isinstance(value, Mapping):
        return sum(_measure_filled_text(each, filler) for each in value.values())
    return sum(_measure_filled_text(each, filler) for each in value) if isinstance(value, list | tuple) else 0


def _fill_value(value: Any, filler: TemplateFiller) -> Any:
    if isinstance(value, str):
        return filler.render_text(value).text
    if isinstance(value, Mapping):
        return {key: _fill_value(each, filler) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_value(each, filler) for each in value]
    return value
