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

from holdfast.core.job import MIB, Completion, Hold, Job, JobFormat, Resources, Role
from holdfast.core.messages import msg

from . import rules
from .defaults import Defaults
from .fields import FieldKind, Fields, FieldValue
from .kinds import check_count, check_name, make_integer_kind, make_map_kind, make_text_kind
from .openpai_extras import OpenpaiExtras, add_slurm_options, read_holdfast_extras
from .openpai_v2 import add_standard_ports

_JOB_NAME_KIND = make_text_kind(
    most=255, pattern=r"^[A-Za-z0-9._~-]+$", rule=msg("must contain only letters, digits and - . _ ~")
)
_LABEL_RULE = msg("must contain only letters, digits and . _ ~")
_ROLE_NAME_KIND = make_text_kind(
    most=63,
    pattern=r"^(?!\.)[A-Za-z0-9._~]+$",
    rule=msg("{label_rule} and must not start with .", label_rule=_LABEL_RULE),
)
_PORT_LABEL_KIND = make_text_kind(most=63, pattern=r"^[A-Za-z0-9._~]+$", rule=_LABEL_RULE)
_EXTRA_NAME_KIND = make_text_kind(
    most=255, pattern=r"^[A-Za-z0-9._]+$", rule=msg("must contain only letters, digits, . and _")
)
_TEXT_KIND = make_text_kind(least=0)


def _make_quoted_kind(kind: FieldKind[int]) -> FieldKind[int]:
    """Accept a number in quotes too, as OpenPAI does."""

    def parse_quoted(at: FieldValue) -> int:
        value = at.node.value
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,15}\s*", value, re.ASCII):
            at = FieldValue(replace(at.node, value=int(value)), at.path, at.report)
        return kind.read(at)

    return FieldKind(parse_quoted, kind.schema)


_COUNT_KIND = _make_quoted_kind(make_integer_kind(least=1, most=rules.MAX_TASKS))
_SHM_KIND = _make_quoted_kind(make_integer_kind(least=0, most=2**40))
_PORT_COUNT_KIND = _make_quoted_kind(make_integer_kind(least=0, most=1_000))
_PORT_KIND = _make_quoted_kind(make_integer_kind(least=0, most=65535))
_INSTANCES_KIND, _CPU_KIND, _GPU_KIND = (
    _make_quoted_kind(rules.INSTANCES_KIND),
    _make_quoted_kind(rules.WHOLE_CPU_KIND),
    _make_quoted_kind(rules.GPU_KIND),
)
_MEBIBYTES_KIND, _RETRIES_KIND = _make_quoted_kind(rules.MEBIBYTES_KIND), _make_quoted_kind(rules.RETRIES_KIND)

_PATH_VARIABLES = {
    "dataDir": "PAI_DATA_DIR",
    "outputDir": "PAI_OUTPUT_DIR",
    "codeDir": "PAI_CODE_DIR",
}  # and the variable
_PATH_VARIABLE_PATTERN = re.compile(r"\$(PAI_DEFAULT_FS_URI|PAI_JOB_NAME|PAI_USER_NAME|PAI_USERNAME)\b")


def read_openpai_v1_job(root: FieldValue, defaults: Defaults) -> Job:
    top = Fields(root)
    name = top.read_required("jobName", _JOB_NAME_KIND, "")
    image = top.read_required("image", rules.IMAGE_KIND, "")
    paths = _read_paths(top, name, defaults)
    env, hold = _read_env_and_hold(top)
    folders = {_PATH_VARIABLES[key]: path for key, path in paths.items() if key in _PATH_VARIABLES}
    extras = _read_extras(top)
    roles = _read_roles(top, image, {**folders, **env})
    _warn_about_ignored_fields(top)
    job = Job(
        name=name,
        roles=add_slurm_options((role for role, _ in roles.values()), extras),
        group=_read_group(top, defaults),
        max_retries=top.read_optional("retryCount", _RETRIES_KIND, 0),
        hold=extras.hold or hold,  # it can specify a duration
        time_limit=extras.time_limit,
        grace=extras.grace,
        notify=extras.notify,
        engine=extras.engine,
        dialect=JobFormat.OPENPAI_V1,
        extras={"openpai": {"protocol": 1, "config": root.node.to_plain(), **({"paths": paths} if paths else {})}},
    )
    top.report_unknown_keys()
    rules.check_job(job, root, {role_name: at for role_name, (_, at) in roles.items()})
    return job


def _read_group(top: Fields, defaults: Defaults) -> str:
    """Read the group; forms send an empty field if it is not filled in."""
    at = top.get_field("virtualCluster")
    return (
        defaults.group if at is None or at.node.value == "" else at.read_as_kind(rules.GROUP_NAME_KIND, defaults.group)
    )


def _read_roles(top: Fields, image: str, env: Mapping[str, str]) -> dict[str, tuple[Role, FieldValue]]:
    at = top.get_field("taskRoles")
    if at is None:
        top.report_missing_key("taskRoles")
        return {}
    items = at.apply_reader(_list_role_items, [])
    roles: dict[str, tuple[Role, FieldValue]] = {}
    for item in items:
        role = item.apply_reader(lambda item: _read_role(item, image, env), None)
        if role and role.name in roles:
            message = msg("has the same name as another task role: {name}", name=repr(role.name))
            item.add_problem(message, rule="uniqueNames", expected=role.name)
        elif role:
            roles[role.name] = role, item
    return roles


def _list_role_items(at: FieldValue) -> list[FieldValue]:
    items = at.list_items()
    check_count(len(items), msg("task roles"), 1, rules.MAX_ROLES, ("minItems", "maxItems"))
    return items


def _read_paths(top: Fields, job_name: str, defaults: Defaults) -> dict[str, str]:
    variables = {"PAI_DEFAULT_FS_URI": defaults.file_system, "PAI_JOB_NAME": job_name}
    if defaults.user is not None:
        variables |= {"PAI_USER_NAME": defaults.user, "PAI_USERNAME": defaults.user}
    paths = {key: top.read_optional(key, _TEXT_KIND, "") for key in ("authFile", *_PATH_VARIABLES)}
    if not paths["outputDir"] and defaults.user is not None:
        paths["outputDir"] = "$PAI_DEFAULT_FS_URI/Output/$PAI_USER_NAME/$PAI_JOB_NAME"
    return {
        key: _PATH_VARIABLE_PATTERN.sub(lambda found: variables.get(found[1], found[0]), path)
        for key, path in paths.items()
        if path
    }


_ENVS_KIND = make_map_kind(rules.ENV_VALUE_KIND, name=rules.ENV_NAME_KIND, most=rules.MAX_VARIABLES, empty="")


def _read_env_and_hold(top: Fields) -> tuple[dict[str, str], Hold | None]:
    """Read variables for every role. isDebug is effective only as JSON true, but always a variable."""
    at = top.get_field("jobEnvs")
    if at is None:
        return {}, None
    env = at.read_as_kind(_ENVS_KIND, {})
    debug = at.node.value.get("isDebug") if isinstance(at.node.value, dict) else None
    return env, Hold() if debug is not None and debug.value is True else None


def _read_extras(top: Fields) -> OpenpaiExtras:
    extras = OpenpaiExtras()
    at = top.get_field("extras")
    entries = at.apply_reader(FieldValue.get_entries, {}) if at else {}
    for key, entry in entries.items():
        check_name(entry, key, _EXTRA_NAME_KIND)
    if at and entries:
        read_holdfast_extras(Fields(at), extras)
    return extras


def _warn_about_ignored_fields(top: Fields) -> None:
    obsolete = top.get_field("killAllOnCompletedTaskNumber")
    if obsolete is not None:
        obsolete.add_warning(
            msg("is obsolete and has no effect"), msg("Use minFailedTaskCount and minSucceededTaskCount.")
        )
    gpu_type = top.get_field("gpuType")
    if gpu_type is not None and gpu_type.read_as_kind(_TEXT_KIND, ""):
        gpu_type.add_warning(msg("is stored but has no effect: GPU types are not supported"))


# -- task roles -------------------------------------------------------------------------------------------------------


def _read_role(at: FieldValue, image: str, env: Mapping[str, str]) -> Role:
    fields = Fields(at)
    name = fields.read_required("name", _ROLE_NAME_KIND, "")
    count = fields.read_optional("taskNumber", _INSTANCES_KIND, 1)
    role = Role(
        name=name,
        commands=(fields.read_required("command", rules.COMMAND_KIND, ""),),
        instances=count,
        image=image,
        resources=_read_resources(fields),
        ports=add_standard_ports(_read_ports(fields)),
        env=env,
        completion=_read_completion(fields, count),
        shell_options=(),
    )
    fields.report_unknown_keys()
    return role


def _read_resources(fields: Fields) -> Resources:
    memory = fields.read_optional("memoryMB", _MEBIBYTES_KIND, 100)
    shm = fields.read_optional("shmMB", _SHM_KIND, min(64, memory))
    at = fields.get_field("shmMB")
    if at is not None and shm > memory:
        at.add_problem(
            msg("must not exceed memoryMB, which is {memory}", memory=memory), rule="maximum", expected=memory
        )
    return Resources(
        cpu=float(fields.read_optional("cpuNumber", _CPU_KIND, 1)),
        memory=memory * MIB,
        gpu=fields.read_optional("gpuNumber", _GPU_KIND, 0),
        shm=shm * MIB,
    )


def _read_completion(fields: Fields, count: int) -> Completion:
    """Read completion rules. Null disables one; an absent one has its default, which for success is disabled."""
    failed_off = fields.has_key("minFailedTaskCount") and fields.get_field("minFailedTaskCount") is None
    failed = None if failed_off else fields.read_optional("minFailedTaskCount", _COUNT_KIND, 1)
    succeeded = fields.read_optional("minSucceededTaskCount", _COUNT_KIND, None)
    for key, wanted in (("minFailedTaskCount", failed), ("minSucceededTaskCount", succeeded)):
        at = fields.get_field(key)
        if at is not None and wanted is not None and wanted > count:
            at.add_problem(
                msg("must not exceed taskNumber, which is {count}", count=count), rule="maximum", expected=count
            )
    return Completion(min_failed=failed, min_succeeded=succeeded)


def _read_ports(fields: Fields) -> dict[str, int]:
    at = fields.get_field("portList")
    pairs = (
        [item.apply_reader(_read_port, ("", 0)) for item in at.apply_reader(FieldValue.list_items, [])] if at else []
    )
    return {label: count for label, count in pairs if label}


def _read_port(at: FieldValue) -> tuple[str, int]:
    fields = Fields(at)
    label = fields.read_required("label", _PORT_LABEL_KIND, "")
    count = fields.read_optional("portNumber", _PORT_COUNT_KIND, 1)
    begin = fields.get_field("beginAt")
    if begin is not None and begin.read_as_kind(_PORT_KIND, 0):
        begin.add_warning(msg("is stored but has no effect: ports are assigned automatically"))
    fields.report_unknown_keys()
    return label, count
