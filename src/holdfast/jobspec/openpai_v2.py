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

from holdfast.core.job import MIB, Completion, Dialect, Job, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import At, Fields, Kind, Wrong, describe, guess, guess_or_list
from .kinds import BOOLEAN, OBJECT, check_count, check_name, choice, integer, list_of, map_of, text
from .openpai_extras import Extras, read_extras
from .openpai_prerequisites import (
    LABEL,
    NAME,
    VERSION,
    Prerequisite,
    Prerequisites,
    hide_passwords,
    plugin_call,
    read_prerequisites,
)
from .paths import clip
from .templates import Filler, has_secrets

SHELL_OPTIONS = ("errexit", "nounset", "pipefail")
DEFAULT_SHM = 512  # MiB

_WORD = text(
    most=63, pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", rule=msg("must be letters, digits and _ and not start with a digit")
)
_ANY_COUNT = integer(least=-(2**31), most=2**31 - 1)
_PORTS = map_of(integer(least=0, most=1_000), name=_WORD, least=1, most=100)
_LINES = list_of(rules.LINE, least=1)
_DEPLOYED = ("preCommands", "postCommands")


def _read_protocol(at: At) -> int:
    if at.node.value not in (2, "2") or isinstance(at.node.value, bool):
        raise Wrong(msg("must be 2, not {node}", node=describe(at.node)), rule="enum", expected=(2, "2"))
    return 2


_PROTOCOL = Kind(_read_protocol, {})


@dataclass(slots=True)
class _Scope:
    """What the task roles of one file refer to."""

    root: At
    prerequisites: Prerequisites
    parameters: Mapping[str, Any]
    deployment: Mapping[str, Mapping[str, At]]  # role -> preCommands, postCommands
    secrets: bool  # the file has some, so tags that refer to nothing vanish at the launch
    plugins: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by prerequisite
    room: int = rules.MAX_JOB_CHARS


def read_openpai_v2(root: At, defaults: Defaults) -> Job:
    _refuse_v1(root)
    top = Fields(root)
    name = _read_head(top)
    scope = _read_scope(top)
    role_entries = _role_entries(top)
    extras = _read_extras(top, list(role_entries))
    read = (at.apply(partial(_role, name, scope), None) for name, at in role_entries.items())
    roles = tuple(role for role in read if role)
    secrets = dict(top.take("secrets", rules.SECRETS, {}))
    job = Job(
        name=name,
        roles=roles,
        group=_group(top, defaults),
        description=top.take("description", rules.DESCRIPTION, ""),
        gang=extras.gang,
        max_retries=top.take("jobRetryCount", integer(least=0, most=1_000_000), 0),
        time_limit=extras.time_limit,
        grace=extras.grace,
        notify=extras.notify,
        hold=extras.hold,
        priority=extras.priority,
        dialect=Dialect.OPENPAI_V2,
        extras={"openpai": _leftovers(scope, extras, secrets)},
        secrets=secrets,
    )
    top.close()
    rules.check_job(job, root, role_entries)
    return job


def _refuse_v1(root: At) -> None:
    """Or else nearly every line of it would be told to be wrong."""
    keys = root.node.value
    if (
        isinstance(keys, dict)
        and "jobName" in keys
        and "taskRoles" in keys
        and isinstance(keys["taskRoles"].value, list)
    ):
        hint = msg("Send it to POST /api/v1/user/<user>/jobs; `holdfast submit` takes it as it is.")
        root.problem(msg("This is a job of OpenPAI's first protocol (v1), not of its second"), hint, rule="syntax")
        root.report.raise_problems()


def _read_head(top: Fields) -> str:
    top.need("protocolVersion", _PROTOCOL, 2)
    name = top.need("name", NAME, "")
    top.need("type", choice("job"), "job")
    top.take("version", VERSION, None)
    top.take("contributor", LABEL, None)
    return name


def _read_scope(top: Fields) -> _Scope:
    listed = top.get("prerequisites")
    return _Scope(
        root=top.at,
        prerequisites=listed.apply(read_prerequisites, Prerequisites()) if listed else Prerequisites(),
        parameters=top.take("parameters", OBJECT, {}),
        deployment=_chosen_deployment(top),
        secrets=(at := top.get("secrets")) is not None
        and isinstance(at.node.value, dict)
        and has_secrets(at.node.value),
    )


def _read_extras(top: Fields, roles: list[str]) -> Extras:
    at = top.get("extras")
    return at.apply(lambda at: read_extras(at, roles), Extras()) if at else Extras()


def _role_entries(top: Fields) -> dict[str, At]:
    at = top.get("taskRoles")
    if at is None:
        top.missing("taskRoles")
        return {}
    entries = at.apply(_count_roles, {})
    for name, role in entries.items():
        check_name(role, name, _WORD)
    return entries


def _count_roles(at: At) -> dict[str, At]:
    entries = at.entries()
    check_count(len(entries), msg("task roles"), 1, rules.MAX_ROLES, ("minProperties", "maxProperties"))
    return entries


def _group(top: Fields, defaults: Defaults) -> str:
    at = top.get("defaults")
    entries = at.apply(At.entries, {}) if at else {}
    chosen = entries.get("virtualCluster")
    if chosen is None or chosen.node.value in (None, ""):
        return defaults.group
    return chosen.read(rules.GROUP_NAME, defaults.group)


# -- deployments ------------------------------------------------------------------------------------------------------


def _chosen_deployment(top: Fields) -> Mapping[str, Mapping[str, At]]:
    listed = top.get("deployments")
    deployments = listed.apply(partial(_read_deployments, _role_names(top)), {}) if listed else {}
    at = top.get("defaults")
    entries = at.node.value if at and isinstance(at.node.value, dict) else {}
    if "deployment" not in entries or entries["deployment"].value is None:
        return {}
    assert at is not None
    chosen = at.child("deployment", entries["deployment"])
    name = chosen.read(NAME, None)
    if name is None:
        return {}
    if name not in deployments:
        said = msg("Default deployment {name} does not exist.", name=clip(name))
        chosen.problem(said, guess(name, deployments), rule="reference", expected=name)
        return {}
    return deployments[name]


def _role_names(top: Fields) -> list[str]:
    at = top.get("taskRoles")
    return list(at.node.value) if at and isinstance(at.node.value, dict) else []


def _read_deployments(roles: Collection[str], at: At) -> dict[str, Mapping[str, Mapping[str, At]]]:
    found: dict[str, Mapping[str, Mapping[str, At]]] = {}
    items = at.items()
    if not items:
        raise Wrong(msg("must have at least one item"), rule="minItems", expected=1)
    for item in items:
        name, deployed = item.apply(partial(_read_deployment, roles), ("", {}))
        if name in found:
            item.problem(msg("Duplicate deployments {name}.", name=name), rule="uniqueNames", expected=name)
        found[name] = deployed
    return found


def _read_deployment(roles: Collection[str], at: At) -> tuple[str, Mapping[str, Mapping[str, At]]]:
    """Beside these two, OpenPAI tolerates any keys."""
    fields = Fields(at)
    name = fields.need("name", NAME, "")
    listed = fields.get("taskRoles")
    if listed is None:
        fields.missing("taskRoles")
    entries = listed.apply(At.entries, {}) if listed else {}
    if listed and listed.node.value == {}:
        listed.problem(msg("must have at least one entry"), rule="minProperties", expected=1)
    fields.take("protocolVersion", _PROTOCOL, 2)
    known = set(roles)
    for role, entry in entries.items():
        if role not in known:
            said = msg("is not a task role of this job, so its commands are never run")
            entry.warn(said, partial(guess_or_list, role, roles))
    return name, {role: entry.apply(_read_deployed, {}) for role, entry in entries.items()}


def _read_deployed(at: At) -> Mapping[str, At]:
    fields = Fields(at)
    found = {key: value for key in _DEPLOYED if (value := fields.get(key))}
    for value in found.values():
        value.read(_LINES, ())
    fields.close()
    return found


# -- task roles -------------------------------------------------------------------------------------------------------


def _role(name: str, scope: _Scope, at: At) -> Role:
    fields = Fields(at)
    fields.take("protocolVersion", _PROTOCOL, 2)
    instances = fields.take("instances", rules.INSTANCES, 1)
    image = fields.get("dockerImage")
    if image is None:
        fields.missing("dockerImage")
    found = image.apply(partial(scope.prerequisites.find, "dockerimage"), None) if image else None
    resources, ports = _read_resources(fields)
    role = Role(
        name=name,
        commands=_script(name, fields, scope),
        instances=instances,
        image=found.uri if found else "",
        resources=resources,
        ports=with_standard_ports(ports),
        completion=_completion(fields.get("completion"), instances),
        max_task_retries=_task_retries(fields),
        shell_options=SHELL_OPTIONS,
    )
    fields.close()
    return role


def _task_retries(fields: Fields) -> int:
    """-1: every failure for ever; -2: even successes. OpenPAI takes any number; below that it never tries again."""
    asked = fields.take("taskRetryCount", _ANY_COUNT, 0)
    return asked if asked >= rules.EVEN_SUCCESSES else 0


def with_standard_ports(ports: Mapping[str, int]) -> dict[str, int]:
    """Every task gets a port for ssh and one for http."""
    asked = {label: count for label, count in ports.items() if count}
    return {**asked, **{label: 1 for label in ("ssh", "http") if label not in asked}}


def _completion(at: At | None, instances: int) -> Completion:
    """0 and nothing mean the default; below 1 switches the condition off."""
    failed, succeeded = at.apply(_read_completion, (0, 0)) if at else (0, 0)
    failed, succeeded = failed or 1, succeeded or instances
    return Completion(min_failed=failed if failed >= 1 else None, min_succeeded=succeeded if succeeded >= 1 else None)


def _read_completion(at: At) -> tuple[int, int]:
    fields = Fields(at)
    failed = fields.take("minFailedInstances", _ANY_COUNT, 0)
    succeeded = fields.take("minSucceededInstances", _ANY_COUNT, 0)
    fields.close()
    return failed, succeeded


def _read_resources(fields: Fields) -> tuple[Resources, dict[str, int]]:
    options = fields.get("extraContainerOptions")
    shm = options.apply(_read_options, DEFAULT_SHM) if options else DEFAULT_SHM
    asked = fields.get("resourcePerInstance")
    if asked is None:
        fields.missing("resourcePerInstance")
        return Resources(), {}
    return asked.apply(lambda at: _read_asked(at, shm), (Resources(), {}))


def _read_options(at: At) -> int:
    fields = Fields(at)
    fields.take("infiniband", BOOLEAN, False)
    return fields.take("shmMB", integer(least=0, most=2**40), DEFAULT_SHM) or DEFAULT_SHM


def _read_asked(at: At, shm: int) -> tuple[Resources, dict[str, int]]:
    fields = Fields(at)
    resources = Resources(
        cpu=float(fields.need("cpu", rules.WHOLE_CPU, 1)),
        memory=fields.need("memoryMB", rules.MEBIBYTES, 1) * MIB,
        gpu=fields.need("gpu", rules.GPU, 0),
        shm=shm * MIB,
    )
    ports = fields.take("ports", _PORTS, {})
    fields.close()
    return resources, ports


# -- commands ---------------------------------------------------------------------------------------------------------


def _script(role: str, fields: Fields, scope: _Scope) -> tuple[str, ...]:
    """preCommands, commands and postCommands: one script, with its references filled in."""
    own = fields.get("commands")
    if own is None:
        fields.missing("commands")
    commands = own.read(rules.COMMANDS, ()) if own else ()
    filler = Filler(_references(role, fields, scope))
    around = scope.deployment.get(role, {})
    parts = (around.get("preCommands"), own, around.get("postCommands"))
    script = tuple(_fill(line, filler, scope) for part in parts if part for line in _quiet_items(part))
    if own and commands and not any(line.strip() for line in script):
        own.problem(msg("has nothing to run once its references are filled in"), rule="contains")
    return script


def _quiet_items(at: At) -> list[At]:
    """The lines of a list whose problems have been reported already."""
    items = at.items() if isinstance(at.node.value, list) else []
    return [item for item in items if isinstance(item.node.value, str) or item.node.written is not None]


def _references(role: str, fields: Fields, scope: _Scope) -> dict[str, Any]:
    values: dict[str, Any] = {"parameters": scope.parameters}
    for kind in ("script", "output", "data"):
        at = fields.get(kind)
        found = at.apply(partial(scope.prerequisites.find, kind), None) if at else None
        if found:
            values[kind] = found.values
    listed = fields.get("prerequisites")
    for item in listed.apply(At.items, []) if listed else ():
        for prerequisite in item.apply(scope.prerequisites.find_any, []):
            _call_plugin(prerequisite, role, scope)
    return values


def _call_plugin(prerequisite: Prerequisite, role: str, scope: _Scope) -> None:
    key = prerequisite.type, prerequisite.name
    call = scope.plugins.get(key) or plugin_call(prerequisite)
    if call and role not in call["taskroles"]:
        call["taskroles"].append(role)
        scope.plugins[key] = call


def _fill(at: At, filler: Filler, scope: _Scope) -> str:
    written = rules.LINE.read(at).strip()
    if scope.room < 0:
        return ""
    scope.room -= filler.size(written)
    if scope.room < 0:
        rules.too_large(scope.root)
        return ""
    rendered = filler.render(written)
    for reference in rendered.unresolved:
        fate = msg("at the launch it vanishes from the text") if scope.secrets else msg("it stays in the text as it is")
        at.warn(msg("refers to <% {reference} %>, which is not defined; {fate}", reference=reference, fate=fate))
    return rendered.text


def _leftovers(scope: _Scope, extras: Extras, secrets: dict[str, Any]) -> dict[str, Any]:
    registries = hide_passwords(scope.prerequisites, secrets)
    config = scope.root.node.plain()
    config.pop("secrets", None)
    if isinstance(config.get("prerequisites"), list) and registries:
        config["prerequisites"] = [item.values for item in scope.prerequisites.all.values()]
    kept = {"registries": registries, "plugins": [*scope.plugins.values(), *extras.plugins]}
    leftovers = {"protocol": 2, "config": config, **{key: value for key, value in kept.items() if value}}
    return leftovers if extras.storages is None else {**leftovers, "storages": extras.storages}
