"""Holdfast's own job file -> Job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.job import Completion, Dialect, Job, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import At, Fields, Kind, Wrong, ask_if_meant, guess
from .holdfast_keys import JOB_KEYS, SHARED_KEYS, Draft
from .kinds import NONE, map_of
from .sizes import named_size, sized
from .templates import secret_reference

ONLY_ROLE = "main"  # the role of a job that names none


def read_holdfast(root: At, defaults: Defaults) -> Job:
    fields = Fields(root)
    top = fields.table(JOB_KEYS)
    fields.close()
    if fields.get("name") is None:
        fields.missing("name")
    secrets = _secrets(fields, top)
    exported = {name: secret_reference(name) for name in secrets} if top.get("export_secrets", True) else {}
    drafts = _drafts(fields, top)
    _check_sizes(fields, top, drafts, defaults)
    roles = tuple(_role(name, draft, top, exported, defaults) for name, draft in drafts.items())
    job = _job(top, roles, secrets, defaults)
    rules.check_job(job, root, {name: draft.at for name, draft in drafts.items()})
    return job


def _job(top: Mapping[str, Any], roles: tuple[Role, ...], secrets: Mapping[str, Any], defaults: Defaults) -> Job:
    retry = top.get("retry", 0)
    time_limit = top.get("time_limit")
    return Job(
        name=top.get("name", ""),
        roles=roles,
        group=top.get("group", defaults.group),
        description=top.get("description", ""),
        secrets=secrets,
        gang=top.get("gang", True),
        max_retries=retry.get("max", 0) if isinstance(retry, dict) else retry,
        time_limit=timedelta(0) if time_limit is NONE else time_limit,
        grace=top.get("grace"),
        hold=top.get("hold"),
        priority=top.get("priority", 0),
        tags=top.get("tags", ()),
        datasets=top.get("datasets", ()),
        files=top.get("files", False),
        notify=top.get("notify", ()),
        dialect=Dialect.HOLDFAST,
        extras=top.get("extras", {}),
    )


def _drafts(fields: Fields, top: Mapping[str, Any]) -> dict[str, Draft]:
    if "roles" in top:
        drafts: dict[str, Draft] = top["roles"]
        return drafts
    if fields.get("roles") is not None:
        return {}  # already reported
    return {ONLY_ROLE: Draft({}, fields.at)}


def _check_sizes(fields: Fields, top: Mapping[str, Any], drafts: Mapping[str, Draft], defaults: Defaults) -> None:
    """Once for each place that names one."""

    def check(at: At) -> None:
        named_size(rules.INSTANCE_TYPE.read(at), defaults.instance_types)

    for at, values in ((fields.at, top), *((draft.at, draft.values) for draft in drafts.values())):
        if "instance_type" in values:
            at.entries()["instance_type"].apply(check, None)


def _secrets(fields: Fields, top: Mapping[str, Any]) -> dict[str, Any]:
    """Exported secrets are text under a variable's name; others may be anything."""
    at = fields.get("secrets")
    if at is None or "secrets" not in top:
        return {}
    if top.get("export_secrets", True):
        return at.read(_EXPORTED_SECRETS, {})
    secrets: dict[str, Any] = top["secrets"]
    return secrets


def _read_secret(at: At) -> str:
    if isinstance(at.node.value, dict | list):  # the message must not show any of it
        raise Wrong(
            msg("must be text to become an environment variable"),
            msg("Set export_secrets: false to keep other values; refer to them as <% $secrets.name.part %>."),
            rule="type",
            expected="string",
        )
    return rules.ENV_VALUE.read(at)


_EXPORTED_SECRETS = map_of(Kind(_read_secret, {}), name=rules.ENV_NAME, most=rules.MAX_VARIABLES, empty="")


def _role(name: str, draft: Draft, top: Mapping[str, Any], exported: Mapping[str, str], defaults: Defaults) -> Role:
    own = draft.values
    values = _without_none_words(_over(top, own))
    size_name = values.get("instance_type", "")
    asked = _asked(top, own)
    as_written = ("instances", "ports", "mounts", "shell_options", "workdir")
    return Role(
        name=name,
        commands=_commands(values, draft.at),
        image=values.get("image", defaults.image),
        resources=sized(defaults.instance_types.get(size_name, defaults.resources), asked),
        instance_type=size_name,
        own_resources=tuple(sorted(asked)) if size_name else (),
        env={**exported, **top.get("env", {}), **own.get("env", {})},
        completion=Completion(**_without_none_words(values.get("completion", {}))),
        max_task_retries=own.get("retry", _retries_of_tasks(top)),
        **{key: values[key] for key in as_written if key in values},
    )


def _asked(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A role that names a size of its own is not held to what the top asks for."""
    shared = {} if "instance_type" in own else top.get("resources", {})
    return _without_none_words({**shared, **own.get("resources", {})})


def _over(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The role's own values over those of the top; either way of writing commands replaces the other."""
    shared = {key: value for key, value in top.items() if key in SHARED_KEYS}
    if "command" in own or "commands" in own:
        shared.pop("command", None)
        shared.pop("commands", None)
    return {**shared, **own}


def _commands(values: Mapping[str, Any], at: At) -> tuple[str, ...]:
    if "command" in values and "commands" in values:
        at.child("command", at.node).problem(
            msg("must not stand beside commands"), msg("Keep one of the two."), rule="oneOf"
        )
    if "command" in values:
        return (values["command"],)
    commands: tuple[str, ...] = values.get("commands", ())
    written = at.node.value if isinstance(at.node.value, dict) else {}
    if not commands and not any(key in written and written[key].value is not None for key in ("command", "commands")):
        misspelt = guess("command", (key for key in written if key not in JOB_KEYS), ask_if_meant)
        hint = misspelt or msg("Say what to run: a command, or a list of commands.")
        at.child("command", at.node).problem(msg("is required"), hint, rule="required", expected="command")
    return commands


def _without_none_words(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if value is NONE else value for key, value in values.items()}


def _retries_of_tasks(top: Mapping[str, Any]) -> int:
    retry = top.get("retry", 0)
    return int(retry.get("tasks", 0)) if isinstance(retry, dict) else 0
