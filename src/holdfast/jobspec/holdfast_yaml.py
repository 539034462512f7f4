"""Holdfast's job file -> Job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.job import Completion, Job, JobFormat, Role
from holdfast.core.messages import msg
from holdfast.core.slurm_options import GRES_OPTION, SLURM_ENGINE, count_gres_gpus

from . import rules
from .defaults import Defaults
from .fields import FieldKind, Fields, FieldValue, InvalidValue, build_similar_name_hint, format_typo_hint
from .holdfast_keys import ENGINE_OPTION_KINDS, JOB_KEYS, SHARED_KEYS, RoleDraft
from .instance_types import get_instance_type, override_resources
from .kinds import NONE_KEYWORD, make_map_kind
from .templates import format_secret_reference

DEFAULT_ROLE_NAME = "main"  # the role of a job without roles


def read_holdfast_job(root: FieldValue, defaults: Defaults) -> Job:
    fields = Fields(root)
    top = fields.read_fields(JOB_KEYS)
    fields.report_unknown_keys()
    if fields.get_field("name") is None:
        fields.report_missing_key("name")
    secrets = _read_secrets(fields, top)
    exported = {name: format_secret_reference(name) for name in secrets} if top.get("export_secrets", True) else {}
    drafts = _get_role_drafts(fields, top)
    _check_instance_types(fields, top, drafts, defaults)
    roles = tuple(_build_role(name, draft, top, exported, defaults) for name, draft in drafts.items())
    job = _build_job(top, roles, secrets, defaults)
    rules.check_job(job, root, {name: draft.at for name, draft in drafts.items()})
    return job


def _build_job(top: Mapping[str, Any], roles: tuple[Role, ...], secrets: Mapping[str, Any], defaults: Defaults) -> Job:
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
        time_limit=timedelta(0) if time_limit is NONE_KEYWORD else time_limit,
        grace=top.get("grace"),
        hold=top.get("hold"),
        priority=top.get("priority", 0),
        engine=top.get("engine", ""),
        tags=top.get("tags", ()),
        datasets=top.get("datasets", ()),
        files=top.get("files", False),
        notify=top.get("notify", ()),
        dialect=JobFormat.HOLDFAST,
        extras=top.get("extras", {}),
    )


def _get_role_drafts(fields: Fields, top: Mapping[str, Any]) -> dict[str, RoleDraft]:
    if "roles" in top:
        drafts: dict[str, RoleDraft] = top["roles"]
        return drafts
    if fields.get_field("roles") is not None:
        return {}  # already reported
    return {DEFAULT_ROLE_NAME: RoleDraft({}, fields.at)}


def _check_instance_types(
    fields: Fields, top: Mapping[str, Any], drafts: Mapping[str, RoleDraft], defaults: Defaults
) -> None:
    """Report each unknown instance type once."""

    def check_instance_type(at: FieldValue) -> None:
        get_instance_type(rules.INSTANCE_TYPE_KIND.read(at), defaults.instance_types)

    for at, values in ((fields.at, top), *((draft.at, draft.values) for draft in drafts.values())):
        if "instance_type" in values:
            at.get_entries()["instance_type"].apply_reader(check_instance_type, None)


def _read_secrets(fields: Fields, top: Mapping[str, Any]) -> dict[str, Any]:
    """Read secrets. Exported ones are text with a variable's name; others can be any value."""
    at = fields.get_field("secrets")
    if at is None or "secrets" not in top:
        return {}
    if top.get("export_secrets", True):
        return at.read_as_kind(_EXPORTED_SECRETS_KIND, {})
    secrets: dict[str, Any] = top["secrets"]
    return secrets


def _read_secret(at: FieldValue) -> str:
    if isinstance(at.node.value, dict | list):  # the message must not show the value
        raise InvalidValue(
            msg("must be text to become an environment variable"),
            msg("Set export_secrets: false to use other values; refer to them as <% $secrets.name.part %>."),
            rule="type",
            expected="string",
        )
    return rules.ENV_VALUE_KIND.read(at)


_EXPORTED_SECRETS_KIND = make_map_kind(
    FieldKind(_read_secret, {}), name=rules.ENV_NAME_KIND, most=rules.MAX_VARIABLES, empty=""
)


def _build_role(
    name: str, draft: RoleDraft, top: Mapping[str, Any], exported: Mapping[str, str], defaults: Defaults
) -> Role:
    own = draft.values
    values = _replace_none_keywords(_merge_role_values(top, own))
    size_name = values.get("instance_type", "")
    engine_options = _merge_engine_options(top, own)
    asked = _add_gres_gpus(_merge_resources(top, own), size_name, engine_options)
    resources = override_resources(defaults.instance_types.get(size_name, defaults.resources), asked)
    _check_gres_gpus(resources.gpu, engine_options, draft.at)
    as_written = ("instances", "ports", "mounts", "shell_options", "workdir")
    return Role(
        name=name,
        commands=_resolve_commands(values, draft.at),
        image=values.get("image", defaults.image),
        resources=resources,
        instance_type=size_name,
        own_resources=tuple(sorted(asked)) if size_name else (),
        env={**exported, **top.get("env", {}), **own.get("env", {})},
        completion=Completion(**_replace_none_keywords(values.get("completion", {}))),
        max_task_retries=own.get("retry", _get_task_retries(top)),
        engine_options=engine_options,
        **{key: values[key] for key in as_written if key in values},
    )


def _merge_resources(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge resources; a role with its own instance type ignores those of the job."""
    shared = {} if "instance_type" in own else top.get("resources", {})
    return _replace_none_keywords({**shared, **own.get("resources", {})})


def _merge_engine_options(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Override each option of the job by the role's."""
    merged = {engine: {**top.get(engine, {}), **own.get(engine, {})} for engine in ENGINE_OPTION_KINDS}
    return {engine: options for engine, options in merged.items() if options}


def _count_gres_gpus(engine_options: Mapping[str, Mapping[str, str]]) -> int:
    return count_gres_gpus(engine_options.get(SLURM_ENGINE, {}).get(GRES_OPTION, ""))


def _add_gres_gpus(
    asked: Mapping[str, Any], size_name: str, engine_options: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Add the GPUs of Slurm's `gres`, unless their number is set: quotas count them."""
    gpus = _count_gres_gpus(engine_options)
    is_missing = gpus and not size_name and "gpu" not in asked
    return {**asked, "gpu": gpus} if is_missing else dict(asked)


def _check_gres_gpus(gpus: int, engine_options: Mapping[str, Mapping[str, str]], at: FieldValue) -> None:
    requested = _count_gres_gpus(engine_options)
    if requested and (requested != gpus or requested > rules.MAX_GPUS):
        at.get_child(SLURM_ENGINE, at.node).add_problem(
            msg("requests {count} GPUs in gres, but the task has {gpus}", count=requested, gpus=gpus),
            msg("Set resources.gpu to the same number; quotas count it."),
            rule="not",
        )


def _merge_role_values(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Override the job's values by the role's; command and commands replace each other."""
    shared = {key: value for key, value in top.items() if key in SHARED_KEYS}
    if "command" in own or "commands" in own:
        shared.pop("command", None)
        shared.pop("commands", None)
    return {**shared, **own}


def _resolve_commands(values: Mapping[str, Any], at: FieldValue) -> tuple[str, ...]:
    if "command" in values and "commands" in values:
        at.get_child("command", at.node).add_problem(
            msg("cannot be combined with commands"), msg("Remove one of the two."), rule="oneOf"
        )
    if "command" in values:
        return (values["command"],)
    commands: tuple[str, ...] = values.get("commands", ())
    written = at.node.value if isinstance(at.node.value, dict) else {}
    if not commands and not any(key in written and written[key].value is not None for key in ("command", "commands")):
        misspelt = build_similar_name_hint("command", (key for key in written if key not in JOB_KEYS), format_typo_hint)
        hint = misspelt or msg("Add command, or a list of commands.")
        at.get_child("command", at.node).add_problem(msg("is required"), hint, rule="required", expected="command")
    return commands


def _replace_none_keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if value is NONE_KEYWORD else value for key, value in values.items()}


def _get_task_retries(top: Mapping[str, Any]) -> int:
    retry = top.get("retry", 0)
    return int(retry.get("tasks", 0)) if isinstance(retry, dict) else 0
