"""OpenPAI protocol v2 (YAML) -> Job.

What a Job has no field for is kept under extras.openpai:
    protocol    2
    config      the file as written, without its secrets
    registries  image prerequisite -> registryuri, username, password; passwords are references to secrets
    plugins     runtime plugin calls in order: plugin, parameters, failurePolicy, taskroles (absent: all roles);
                where it is one, the name of the prerequisite, since each role lists those in an order of its own
    storages    name and mountPath of each; [] means the user's default ones; absent when not asked for
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast.core.job import MIB, Completion, Job, JobFormat, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import FieldKind, Fields, FieldValue, InvalidValue, build_name_hint, build_similar_name_hint, describe_node
from .kinds import (
    BOOLEAN_KIND,
    OBJECT_KIND,
    check_count,
    check_name,
    make_choice_kind,
    make_integer_kind,
    make_list_kind,
    make_map_kind,
    make_text_kind,
)
from .openpai_extras import OpenpaiExtras, add_slurm_options, read_extras
from .openpai_prerequisites import (
    LABEL_KIND,
    NAME_KIND,
    VERSION_KIND,
    Prerequisite,
    Prerequisites,
    build_plugin_call,
    move_passwords_to_secrets,
    read_prerequisites,
)
from .paths import clip_text
from .templates import TemplateFiller, has_secrets

SHELL_OPTIONS = ("errexit", "nounset", "pipefail")
DEFAULT_SHM_MIB = 512

_WORD_KIND = make_text_kind(
    most=63,
    pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$",
    rule=msg("must contain only letters, digits and _ and must not start with a digit"),
)
_ANY_COUNT_KIND = make_integer_kind(least=-(2**31), most=2**31 - 1)
_PORTS_KIND = make_map_kind(make_integer_kind(least=0, most=1_000), name=_WORD_KIND, least=1, most=100)
_LINES_KIND = make_list_kind(rules.LINE_KIND, least=1)
_DEPLOYMENT_KEYS = ("preCommands", "postCommands")


def _read_protocol(at: FieldValue) -> int:
    if at.node.value not in (2, "2") or isinstance(at.node.value, bool):
        raise InvalidValue(msg("must be 2, not {node}", node=describe_node(at.node)), rule="enum", expected=(2, "2"))
    return 2


_PROTOCOL_KIND = FieldKind(_read_protocol, {})


@dataclass(slots=True)
class _RoleScope:
    """What the task roles of one file can refer to."""

    root: FieldValue
    prerequisites: Prerequisites
    parameters: Mapping[str, Any]
    deployment: Mapping[str, Mapping[str, FieldValue]]  # role -> preCommands, postCommands
    secrets: bool  # whether unresolved tags are removed at launch
    plugins: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by prerequisite
    remaining_chars: int = rules.MAX_JOB_CHARS


def read_openpai_v2_job(root: FieldValue, defaults: Defaults) -> Job:
    _check_not_v1(root)
    top = Fields(root)
    name = _read_header(top)
    scope = _read_scope(top)
    role_entries = _read_role_entries(top)
    extras = _read_extras(top, list(role_entries))
    read = (at.apply_reader(partial(_read_role, name, scope), None) for name, at in role_entries.items())
    roles = tuple(role for role in read if role)
    secrets = dict(top.read_optional("secrets", rules.SECRETS_KIND, {}))
    job = Job(
        name=name,
        roles=add_slurm_options(roles, extras),
        group=_read_group(top, defaults),
        description=top.read_optional("description", rules.DESCRIPTION_KIND, ""),
        gang=extras.gang,
        max_retries=top.read_optional("jobRetryCount", make_integer_kind(least=0, most=1_000_000), 0),
        time_limit=extras.time_limit,
        grace=extras.grace,
        notify=extras.notify,
        hold=extras.hold,
        priority=extras.priority,
        engine=extras.engine,
        dialect=JobFormat.OPENPAI_V2,
        extras={"openpai": _collect_openpai_fields(scope, extras, secrets)},
        secrets=secrets,
    )
    top.report_unknown_keys()
    rules.check_job(job, root, role_entries)
    return job


def _check_not_v1(root: FieldValue) -> None:
    """Reject a v1 file early; otherwise nearly every line would be reported."""
    keys = root.node.value
    if (
        isinstance(keys, dict)
        and "jobName" in keys
        and "taskRoles" in keys
        and isinstance(keys["taskRoles"].value, list)
    ):
        hint = msg("Send it to POST /api/v1/user/<user>/jobs, or run `holdfast submit`.")
        root.add_problem(msg("This job uses OpenPAI protocol v1, not v2"), hint, rule="syntax")
        root.report.raise_problems()


def _read_header(top: Fields) -> str:
    top.read_required("protocolVersion", _PROTOCOL_KIND, 2)
    name = top.read_required("name", NAME_KIND, "")
    top.read_required("type", make_choice_kind("job"), "job")
    top.read_optional("version", VERSION_KIND, None)
    top.read_optional("contributor", LABEL_KIND, None)
    return name


def _read_scope(top: Fields) -> _RoleScope:
    listed = top.get_field("prerequisites")
    return _RoleScope(
        root=top.at,
        prerequisites=listed.apply_reader(read_prerequisites, Prerequisites()) if listed else Prerequisites(),
        parameters=top.read_optional("parameters", OBJECT_KIND, {}),
        deployment=_find_deployment(top),
        secrets=(at := top.get_field("secrets")) is not None
        and isinstance(at.node.value, dict)
        and has_secrets(at.node.value),
    )


def _read_extras(top: Fields, roles: list[str]) -> OpenpaiExtras:
    at = top.get_field("extras")
    return at.apply_reader(lambda at: read_extras(at, roles), OpenpaiExtras()) if at else OpenpaiExtras()


def _read_role_entries(top: Fields) -> dict[str, FieldValue]:
    at = top.get_field("taskRoles")
    if at is None:
        top.report_missing_key("taskRoles")
        return {}
    entries = at.apply_reader(_get_role_entries, {})
    for name, role in entries.items():
        check_name(role, name, _WORD_KIND)
    return entries


def _get_role_entries(at: FieldValue) -> dict[str, FieldValue]:
    entries = at.get_entries()
    check_count(len(entries), msg("task roles"), 1, rules.MAX_ROLES, ("minProperties", "maxProperties"))
    return entries


def _read_group(top: Fields, defaults: Defaults) -> str:
    at = top.get_field("defaults")
    entries = at.apply_reader(FieldValue.get_entries, {}) if at else {}
    chosen = entries.get("virtualCluster")
    if chosen is None or chosen.node.value in (None, ""):
        return defaults.group
    return chosen.read_as_kind(rules.GROUP_NAME_KIND, defaults.group)


# -- deployments ------------------------------------------------------------------------------------------------------


def _find_deployment(top: Fields) -> Mapping[str, Mapping[str, FieldValue]]:
    listed = top.get_field("deployments")
    deployments = listed.apply_reader(partial(_read_deployments, _list_role_names(top)), {}) if listed else {}
    at = top.get_field("defaults")
    entries = at.node.value if at and isinstance(at.node.value, dict) else {}
    if "deployment" not in entries or entries["deployment"].value is None:
        return {}
    assert at is not None
    chosen = at.get_child("deployment", entries["deployment"])
    name = chosen.read_as_kind(NAME_KIND, None)
    if name is None:
        return {}
    if name not in deployments:
        message = msg("Default deployment {name} does not exist.", name=clip_text(name))
        chosen.add_problem(message, build_similar_name_hint(name, deployments), rule="reference", expected=name)
        return {}
    return deployments[name]


def _list_role_names(top: Fields) -> list[str]:
    at = top.get_field("taskRoles")
    return list(at.node.value) if at and isinstance(at.node.value, dict) else []


def _read_deployments(roles: Collection[str], at: FieldValue) -> dict[str, Mapping[str, Mapping[str, FieldValue]]]:
    found: dict[str, Mapping[str, Mapping[str, FieldValue]]] = {}
    items = at.list_items()
    if not items:
        raise InvalidValue(msg("must have at least one item"), rule="minItems", expected=1)
    for item in items:
        name, deployed = item.apply_reader(partial(_read_deployment, roles), ("", {}))
        if name in found:
            item.add_problem(msg("Duplicate deployments {name}.", name=name), rule="uniqueNames", expected=name)
        found[name] = deployed
    return found


def _read_deployment(roles: Collection[str], at: FieldValue) -> tuple[str, Mapping[str, Mapping[str, FieldValue]]]:
    """Read a deployment; OpenPAI allows any other keys."""
    fields = Fields(at)
    name = fields.read_required("name", NAME_KIND, "")
    listed = fields.get_field("taskRoles")
    if listed is None:
        fields.report_missing_key("taskRoles")
    entries = listed.apply_reader(FieldValue.get_entries, {}) if listed else {}
    if listed and listed.node.value == {}:
        listed.add_problem(msg("must have at least one entry"), rule="minProperties", expected=1)
    fields.read_optional("protocolVersion", _PROTOCOL_KIND, 2)
    known = set(roles)
    for role, entry in entries.items():
        if role not in known:
            message = msg("is not a task role of this job, so its commands never run")
            entry.add_warning(message, partial(build_name_hint, role, roles))
    return name, {role: entry.apply_reader(_read_deployed_commands, {}) for role, entry in entries.items()}


def _read_deployed_commands(at: FieldValue) -> Mapping[str, FieldValue]:
    fields = Fields(at)
    found = {key: value for key in _DEPLOYMENT_KEYS if (value := fields.get_field(key))}
    for value in found.values():
        value.read_as_kind(_LINES_KIND, ())
    fields.report_unknown_keys()
    return found


# -- task roles -------------------------------------------------------------------------------------------------------


def _read_role(name: str, scope: _RoleScope, at: FieldValue) -> Role:
    fields = Fields(at)
    fields.read_optional("protocolVersion", _PROTOCOL_KIND, 2)
    instances = fields.read_optional("instances", rules.INSTANCES_KIND, 1)
    image = fields.get_field("dockerImage")
    if image is None:
        fields.report_missing_key("dockerImage")
    found = image.apply_reader(partial(scope.prerequisites.get_by_type, "dockerimage"), None) if image else None
    resources, ports = _read_resources(fields)
    role = Role(
        name=name,
        commands=_build_script(name, fields, scope),
        instances=instances,
        image=found.uri if found else "",
        resources=resources,
        ports=add_standard_ports(ports),
        completion=_build_completion(fields.get_field("completion"), instances),
        max_task_retries=_read_task_retries(fields),
        shell_options=SHELL_OPTIONS,
    )
    fields.report_unknown_keys()
    return role


def _read_task_retries(fields: Fields) -> int:
    """Read retries. -1: every failure; -2: also successes. Lower numbers mean no retries, as in OpenPAI."""
    asked = fields.read_optional("taskRetryCount", _ANY_COUNT_KIND, 0)
    return asked if asked >= rules.RETRY_ALWAYS else 0


def add_standard_ports(ports: Mapping[str, int]) -> dict[str, int]:
    """Add a port for ssh and one for http to every task."""
    asked = {label: count for label, count in ports.items() if count}
    return {**asked, **{label: 1 for label in ("ssh", "http") if label not in asked}}


def _build_completion(at: FieldValue | None, instances: int) -> Completion:
    """Build completion rules: 0 and absent mean the default; below 1 disables a rule."""
    failed, succeeded = at.apply_reader(_read_completion, (0, 0)) if at else (0, 0)
    failed, succeeded = failed or 1, succeeded or instances
    return Completion(min_failed=failed if failed >= 1 else None, min_succeeded=succeeded if succeeded >= 1 else None)


def _read_completion(at: FieldValue) -> tuple[int, int]:
    fields = Fields(at)
    failed = fields.read_optional("minFailedInstances", _ANY_COUNT_KIND, 0)
    succeeded = fields.read_optional("minSucceededInstances", _ANY_COUNT_KIND, 0)
    fields.report_unknown_keys()
    return failed, succeeded


def _read_resources(fields: Fields) -> tuple[Resources, dict[str, int]]:
    options = fields.get_field("extraContainerOptions")
    shm = options.apply_reader(_read_shm_option, DEFAULT_SHM_MIB) if options else DEFAULT_SHM_MIB
    asked = fields.get_field("resourcePerInstance")
    if asked is None:
        fields.report_missing_key("resourcePerInstance")
        return Resources(), {}
    return asked.apply_reader(lambda at: _read_resource_request(at, shm), (Resources(), {}))


def _read_shm_option(at: FieldValue) -> int:
    fields = Fields(at)
    fields.read_optional("infiniband", BOOLEAN_KIND, False)
    return fields.read_optional("shmMB", make_integer_kind(least=0, most=2**40), DEFAULT_SHM_MIB) or DEFAULT_SHM_MIB


def _read_resource_request(at: FieldValue, shm: int) -> tuple[Resources, dict[str, int]]:
    fields = Fields(at)
    resources = Resources(
        cpu=float(fields.read_required("cpu", rules.WHOLE_CPU_KIND, 1)),
        memory=fields.read_required("memoryMB", rules.MEBIBYTES_KIND, 1) * MIB,
        gpu=fields.read_required("gpu", rules.GPU_KIND, 0),
        shm=shm * MIB,
    )
    ports = fields.read_optional("ports", _PORTS_KIND, {})
    fields.report_unknown_keys()
    return resources, ports


# -- commands ---------------------------------------------------------------------------------------------------------


def _build_script(role: str, fields: Fields, scope: _RoleScope) -> tuple[str, ...]:
    """Build one script of preCommands, commands and postCommands, with references resolved."""
    own = fields.get_field("commands")
    if own is None:
        fields.report_missing_key("commands")
    commands = own.read_as_kind(rules.COMMANDS_KIND, ()) if own else ()
    filler = TemplateFiller(_collect_template_values(role, fields, scope))
    around = scope.deployment.get(role, {})
    parts = (around.get("preCommands"), own, around.get("postCommands"))
    script = tuple(_fill_templates(line, filler, scope) for part in parts if part for line in _list_valid_items(part))
    if own and commands and not any(line.strip() for line in script):
        own.add_problem(msg("has no commands after its references are resolved"), rule="contains")
    return script


def _list_valid_items(at: FieldValue) -> list[FieldValue]:
    """Return the items of a list whose problems are already reported."""
    items = at.list_items() if isinstance(at.node.value, list) else []
    return [item for item in items if isinstance(item.node.value, str) or item.node.source_text is not None]


def _collect_template_values(role: str, fields: Fields, scope: _RoleScope) -> dict[str, Any]:
    values: dict[str, Any] = {"parameters": scope.parameters}
    for kind in ("script", "output", "data"):
        at = fields.get_field(kind)
        found = at.apply_reader(partial(scope.prerequisites.get_by_type, kind), None) if at else None
        if found:
            values[kind] = found.values
    listed = fields.get_field("prerequisites")
    for item in listed.apply_reader(FieldValue.list_items, []) if listed else ():
        for prerequisite in item.apply_reader(scope.prerequisites.list_by_name, []):
            _add_plugin_call(prerequisite, role, scope)
    return values


def _add_plugin_call(prerequisite: Prerequisite, role: str, scope: _RoleScope) -> None:
    key = prerequisite.type, prerequisite.name
    call = scope.plugins.get(key) or build_plugin_call(prerequisite)
    if call and role not in call["taskroles"]:
        call["taskroles"].append(role)
        scope.plugins[key] = call


def _fill_templates(at: FieldValue, filler: TemplateFiller, scope: _RoleScope) -> str:
    written = rules.LINE_KIND.read(at).strip()
    if scope.remaining_chars < 0:
        return ""
    scope.remaining_chars -= filler.measure_size(written)
    if scope.remaining_chars < 0:
        rules.report_job_too_large(scope.root)
        return ""
    rendered = filler.render_text(written)
    for reference in rendered.unresolved:
        fate = msg("it is removed from the text at launch") if scope.secrets else msg("it stays unchanged in the text")
        at.add_warning(
            msg(
                "refers to <% {reference} %>, which is not defined; {consequence}",
                reference=reference,
                consequence=fate,
            )
        )
    return rendered.text


def _collect_openpai_fields(scope: _RoleScope, extras: OpenpaiExtras, secrets: dict[str, Any]) -> dict[str, Any]:
    registries = move_passwords_to_secrets(scope.prerequisites, secrets)
    config = scope.root.node.to_plain()
    config.pop("secrets", None)
    if isinstance(config.get("prerequisites"), list) and registries:
        config["prerequisites"] = [item.values for item in scope.prerequisites.by_key.values()]
    kept = {"registries": registries, "plugins": [*scope.plugins.values(), *extras.plugins]}
    leftovers = {"protocol": 2, "config": config, **{key: value for key, value in kept.items() if value}}
    return leftovers if extras.storages is None else {**leftovers, "storages": extras.storages}
