"""OpenPAI job config v1 (JSON) -> Job.

What a Job has no field for is kept under extras.openpai:
    protocol  1
    config    the file as written
    paths     authFile, dataDir, outputDir, codeDir with their variables filled in, where given
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from holdfast.core.job import MIB, Completion, Dialect, Hold, Job, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import At, Fields, Kind
from .kinds import check_count, check_name, integer, map_of, text
from .openpai_extras import Extras, read_our_extras
from .openpai_v2 import with_standard_ports

_JOB_NAME = text(most=255, pattern=r"^[A-Za-z0-9._~-]+$", rule=msg("must be made of letters, digits and - . _ ~"))
_LABEL_RULE = msg("must be made of letters, digits and . _ ~")
_ROLE_NAME = text(
    most=63, pattern=r"^(?!\.)[A-Za-z0-9._~]+$", rule=msg("{label_rule} and not start with .", label_rule=_LABEL_RULE)
)
_PORT_LABEL = text(most=63, pattern=r"^[A-Za-z0-9._~]+$", rule=_LABEL_RULE)
_EXTRA_NAME = text(most=255, pattern=r"^[A-Za-z0-9._]+$", rule=msg("must be made of letters, digits, . and _"))
_TEXT = text(least=0)


def _or_quoted(kind: Kind[int]) -> Kind[int]:
    """A number, which may stand in quotes: OpenPAI took those for numbers too."""

    def read(at: At) -> int:
        value = at.node.value
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,15}\s*", value, re.ASCII):
            at = At(replace(at.node, value=int(value)), at.path, at.report)
        return kind.read(at)

    return Kind(read, kind.schema)


_COUNT = _or_quoted(integer(least=1, most=rules.MAX_TASKS))
_SHM = _or_quoted(integer(least=0, most=2**40))
_PORT_COUNT = _or_quoted(integer(least=0, most=1_000))
_PORT = _or_quoted(integer(least=0, most=65535))
_INSTANCES, _CPU, _GPU = _or_quoted(rules.INSTANCES), _or_quoted(rules.WHOLE_CPU), _or_quoted(rules.GPU)
_MEBIBYTES, _RETRIES = _or_quoted(rules.MEBIBYTES), _or_quoted(rules.RETRIES)

_PATHS = {"dataDir": "PAI_DATA_DIR", "outputDir": "PAI_OUTPUT_DIR", "codeDir": "PAI_CODE_DIR"}  # and the variable
_PATH_VARIABLE = re.compile(r"\$(PAI_DEFAULT_FS_URI|PAI_JOB_NAME|PAI_USER_NAME|PAI_USERNAME)\b")


def read_openpai_v1(root: At, defaults: Defaults) -> Job:
    top = Fields(root)
    name = top.need("jobName", _JOB_NAME, "")
    image = top.need("image", rules.IMAGE, "")
    paths = _read_paths(top, name, defaults)
    env, hold = _read_envs(top)
    folders = {_PATHS[key]: path for key, path in paths.items() if key in _PATHS}
    extras = _read_extras(top)
    roles = _read_roles(top, image, {**folders, **env})
    _warn_ignored(top)
    job = Job(
        name=name,
        roles=tuple(role for role, _ in roles.values()),
        group=_group(top, defaults),
        max_retries=top.take("retryCount", _RETRIES, 0),
        hold=extras.hold or hold,  # the one that can say how long
        time_limit=extras.time_limit,
        grace=extras.grace,
        notify=extras.notify,
        dialect=Dialect.OPENPAI_V1,
        extras={"openpai": {"protocol": 1, "config": root.node.plain(), **({"paths": paths} if paths else {})}},
    )
    top.close()
    rules.check_job(job, root, {role_name: at for role_name, (_, at) in roles.items()})
    return job


def _group(top: Fields, defaults: Defaults) -> str:
    """Forms send an empty field for what was not filled in."""
    at = top.get("virtualCluster")
    return defaults.group if at is None or at.node.value == "" else at.read(rules.GROUP_NAME, defaults.group)


def _read_roles(top: Fields, image: str, env: Mapping[str, str]) -> dict[str, tuple[Role, At]]:
    at = top.get("taskRoles")
    if at is None:
        top.missing("taskRoles")
        return {}
    items = at.apply(_count_roles, [])
    roles: dict[str, tuple[Role, At]] = {}
    for item in items:
        role = item.apply(lambda item: _role(item, image, env), None)
        if role and role.name in roles:
            said = msg("has the same name as another task role: {name}", name=repr(role.name))
            item.problem(said, rule="uniqueNames", expected=role.name)
        elif role:
            roles[role.name] = role, item
    return roles


def _count_roles(at: At) -> list[At]:
    items = at.items()
    check_count(len(items), msg("task roles"), 1, rules.MAX_ROLES, ("minItems", "maxItems"))
    return items


def _read_paths(top: Fields, job_name: str, defaults: Defaults) -> dict[str, str]:
    variables = {"PAI_DEFAULT_FS_URI": defaults.file_system, "PAI_JOB_NAME": job_name}
    if defaults.user is not None:
        variables |= {"PAI_USER_NAME": defaults.user, "PAI_USERNAME": defaults.user}
    paths = {key: top.take(key, _TEXT, "") for key in ("authFile", *_PATHS)}
    if not paths["outputDir"] and defaults.user is not None:
        paths["outputDir"] = "$PAI_DEFAULT_FS_URI/Output/$PAI_USER_NAME/$PAI_JOB_NAME"
    return {key: _substitute(path, variables) for key, path in paths.items() if path}


def _substitute(path: str, variables: Mapping[str, str]) -> str:
    return _PATH_VARIABLE.sub(lambda found: variables.get(found[1], found[0]), path)


_ENVS = map_of(rules.ENV_VALUE, name=rules.ENV_NAME, most=rules.MAX_VARIABLES, empty="")


def _read_envs(top: Fields) -> tuple[dict[str, str], Hold | None]:
    """Variables for every role. isDebug counts only as a JSON true, but is a variable either way."""
    at = top.get("jobEnvs")
    if at is None:
        return {}, None
    env = at.read(_ENVS, {})
    debug = at.node.value.get("isDebug") if isinstance(at.node.value, dict) else None
    return env, Hold() if debug is not None and debug.value is True else None


def _read_extras(top: Fields) -> Extras:
    extras = Extras()
    at = top.get("extras")
    entries = at.apply(At.entries, {}) if at else {}
    for key, entry in entries.items():
        check_name(entry, key, _EXTRA_NAME)
    if at and entries:
        read_our_extras(Fields(at), extras)
    return extras


def _warn_ignored(top: Fields) -> None:
    obsolete = top.get("killAllOnCompletedTaskNumber")
    if obsolete is not None:
        obsolete.warn(msg("is obsolete and has no effect"), msg("Use minFailedTaskCount and minSucceededTaskCount."))
    gpu_type = top.get("gpuType")
    if gpu_type is not None and gpu_type.read(_TEXT, ""):
        gpu_type.warn(msg("is kept but has no effect: GPUs are not told apart by type"))


# -- task roles -------------------------------------------------------------------------------------------------------


def _role(at: At, image: str, env: Mapping[str, str]) -> Role:
    fields = Fields(at)
    name = fields.need("name", _ROLE_NAME, "")
    count = fields.take("taskNumber", _INSTANCES, 1)
    role = Role(
        name=name,
        commands=(fields.need("command", rules.COMMAND, ""),),
        instances=count,
        image=image,
        resources=_read_resources(fields),
        ports=with_standard_ports(_read_ports(fields)),
        env=env,
        completion=_read_completion(fields, count),
        shell_options=(),
    )
    fields.close()
    return role


def _read_resources(fields: Fields) -> Resources:
    memory = fields.take("memoryMB", _MEBIBYTES, 100)
    shm = fields.take("shmMB", _SHM, min(64, memory))
    at = fields.get("shmMB")
    if at is not None and shm > memory:
        at.problem(
            msg("must not be more than memoryMB, which is {memory}", memory=memory), rule="maximum", expected=memory
        )
    return Resources(
        cpu=float(fields.take("cpuNumber", _CPU, 1)),
        memory=memory * MIB,
        gpu=fields.take("gpuNumber", _GPU, 0),
        shm=shm * MIB,
    )


def _read_completion(fields: Fields, count: int) -> Completion:
    """Null switches a condition off; an absent one has its default, which for success is off as well."""
    failed_off = fields.has("minFailedTaskCount") and fields.get("minFailedTaskCount") is None
    failed = None if failed_off else fields.take("minFailedTaskCount", _COUNT, 1)
    succeeded = fields.take("minSucceededTaskCount", _COUNT, None)
    for key, wanted in (("minFailedTaskCount", failed), ("minSucceededTaskCount", succeeded)):
        at = fields.get(key)
        if at is not None and wanted is not None and wanted > count:
            at.problem(
                msg("must not be more than taskNumber, which is {count}", count=count), rule="maximum", expected=count
            )
    return Completion(min_failed=failed, min_succeeded=succeeded)


def _read_ports(fields: Fields) -> dict[str, int]:
    at = fields.get("portList")
    pairs = [item.apply(_read_port, ("", 0)) for item in at.apply(At.items, [])] if at else []
    return {label: count for label, count in pairs if label}


def _read_port(at: At) -> tuple[str, int]:
    fields = Fields(at)
    label = fields.need("label", _PORT_LABEL, "")
    count = fields.take("portNumber", _PORT_COUNT, 1)
    begin = fields.get("beginAt")
    if begin is not None and begin.read(_PORT, 0):
        begin.warn(msg("is kept but has no effect: ports are chosen among those free"))
    fields.close()
    return label, count
