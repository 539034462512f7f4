"""Limits, names and checks of jobs in all file formats."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from holdfast.core.codec import MASK
from holdfast.core.job import MIB, SHARED_FILES_PATH, Job, JobFormat, Mount, Role
from holdfast.core.messages import msg
from holdfast.core.slurm_options import MAX_OPTION_LENGTH, OPTION_PATTERN, OPTION_RULE
from holdfast.core.volumes import HostFolder

from .fields import FieldKind, FieldSpec, FieldValue, InvalidValue, describe_node
from .kinds import (
    BOOLEAN_KIND,
    make_choice_kind,
    make_integer_kind,
    make_list_kind,
    make_number_kind,
    make_object_kind,
    make_size_kind,
    make_text_kind,
    read_text_scalar,
)
from .paths import clip_text, join_path
from .templates import TemplateFiller, format_value, has_secrets, list_secret_references

MAX_TASKS = 10_000
MAX_ROLES = 256
MAX_VARIABLES = 1_000
MAX_JOB_CHARS = 4 * MIB  # characters of resolved commands and variables
MAX_LISTED_SECRETS = 20  # masked secrets listed in one message
MAX_VARIABLE_BYTES = 120_000  # Linux's limit for one string

JOB_NAME_KIND = make_text_kind(most=255, line=True)
GROUP_NAME_KIND = make_text_kind(most=255, line=True)
DESCRIPTION_KIND = make_text_kind(least=0)
ROLE_NAME_KIND = make_text_kind(
    most=63,
    pattern=r"^(?![.-])[A-Za-z0-9_.~-]+$",
    rule=msg("must contain only letters, digits and _ . ~ - and must not start with . or -"),
)
ENV_NAME_KIND = make_text_kind(
    most=255,
    pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
    rule=msg("must contain only letters, digits and _ and must not start with a digit"),
)
PORT_LABEL_KIND = make_text_kind(
    most=63, pattern=r"^[A-Za-z0-9_.~-]+$", rule=msg("must contain only letters, digits and _ . ~ -")
)
IMAGE_KIND = make_text_kind(
    most=512, pattern=r"^[^\s\u0000-\u001f\u007f-\u009f]+$", rule=msg("must be an image name without spaces")
)
INSTANCE_TYPE_KIND = make_text_kind(most=255, line=True)
TAG_KIND = make_text_kind(most=255, line=True)
ENGINE_KIND = make_text_kind(
    most=63,
    pattern=r"^[a-z][a-z0-9-]*$",
    rule=msg("must contain only lowercase letters, digits and - and must start with a letter"),
)
ENGINE_OPTION_KIND = make_text_kind(most=MAX_OPTION_LENGTH, pattern=OPTION_PATTERN, rule=OPTION_RULE)
DATASET_KIND = make_text_kind(
    most=63,
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    rule=msg("must contain only letters, digits and . _ - and must start with a letter or digit"),
)
INSTANCES_KIND = make_integer_kind(least=1, most=MAX_TASKS)
PORT_COUNT_KIND = make_integer_kind(least=1, most=1_000)
RETRY_ALWAYS = -2  # retries also after success
RETRIES_KIND = make_integer_kind(least=RETRY_ALWAYS, most=1_000_000)
PRIORITY_KIND = make_integer_kind(least=-(2**31), most=2**31 - 1)
CPU_KIND = make_number_kind(least=0.01, most=1_000_000)
WHOLE_CPU_KIND = make_integer_kind(least=1, most=1_000_000)
MAX_GPUS = 10_000
GPU_KIND = make_integer_kind(least=0, most=MAX_GPUS)
MEMORY_KIND = make_size_kind(least=MIB)
SHM_KIND = make_size_kind(least=0)
MEBIBYTES_KIND = make_integer_kind(least=1, most=2**40)

SHELL_OPTION_KIND = make_choice_kind(
    "allexport", "braceexpand", "errexit", "errtrace", "functrace", "hashall", "keyword", "monitor", "noclobber",
    "noglob", "nounset", "physical", "pipefail", "posix", "verbose", "xtrace",
)  # fmt: skip


_TEXT_TYPES = ["string", "number", "boolean"]


def _read_multiline_text(at: FieldValue) -> str:
    # Browser forms and Windows files end lines with CR LF, which shells do not accept.
    return read_text_scalar(at).replace("\r\n", "\n")


def _read_command(at: FieldValue) -> str:
    command = _read_multiline_text(at)
    if not command.strip():
        raise InvalidValue(msg("must not be empty"), rule="minLength", expected=1)
    if isinstance(at.node.value, int | float) and not isinstance(at.node.value, bool):  # true and false are commands
        at.add_warning(msg("is a number; it is run as the command `{command}`", command=command))
    return command


def _read_commands(at: FieldValue) -> tuple[str, ...]:
    commands = _LINES_KIND.read(at)
    if at.node.value and not any(command.strip() for command in commands):
        raise InvalidValue(msg("has no commands to run"), rule="contains")
    return commands


COMMAND_KIND = FieldKind(_read_command, {"type": _TEXT_TYPES, "pattern": r"\S"})
LINE_KIND = FieldKind(_read_multiline_text, {"type": _TEXT_TYPES})
_LINES_KIND = make_list_kind(LINE_KIND, least=1)
COMMANDS_KIND = FieldKind(_read_commands, {**_LINES_KIND.schema, "contains": COMMAND_KIND.schema})


def _read_env_value(at: FieldValue) -> str:
    value = at.node.value
    if isinstance(value, dict | list):
        raise InvalidValue(msg("must be text, not {node}", node=describe_node(at.node)), rule="type", expected="string")
    written = at.node.source_text if at.node.source_text is not None and value is not None else format_value(value)
    if len(written.encode()) > MAX_VARIABLE_BYTES:
        message = msg(
            "is too long: the limit for a variable is {max_variable_bytes} bytes", max_variable_bytes=MAX_VARIABLE_BYTES
        )
        raise InvalidValue(message, msg("Use a file instead."), rule="maxLength", expected=MAX_VARIABLE_BYTES)
    return written


ENV_VALUE_KIND = FieldKind(_read_env_value, {"type": _TEXT_TYPES})


def _read_path(at: FieldValue) -> str:
    path = _PATH_TEXT_KIND.read(at)
    if ".." in path.split("/"):
        raise InvalidValue(
            msg("must not contain '..', but is {path}", path=repr(path)), rule="pattern", expected=_PATH_PATTERN
        )
    return path


_PATH_PATTERN = r"^/[^\u0000-\u001f\u007f]*$"
_PATH_TEXT_KIND = make_text_kind(most=4096, pattern=_PATH_PATTERN, rule=msg("must be an absolute path"))
PATH_KIND = FieldKind(_read_path, _PATH_TEXT_KIND.schema)

_MOUNT_KEYS = {
    "source": FieldSpec(PATH_KIND, msg("Folder or file on the host.")),
    "target": FieldSpec(PATH_KIND, msg("Path in the task. Default: the same path.")),
    "read_only": FieldSpec(BOOLEAN_KIND, msg("Mount it read-only. Default: true.")),
}
_MOUNT_OBJECT_KIND = make_object_kind(_MOUNT_KEYS)
_MOUNT_PATTERN = r"^/[^:\u0000-\u001f\u007f]*(:/[^:\u0000-\u001f\u007f]*)?(:(ro|rw))?$"
_MOUNT_TEXT_KIND = make_text_kind(
    most=8200, pattern=_MOUNT_PATTERN, rule=msg("must have the form /data, /data:/inside or /data:/inside:rw")
)


def _read_mount(at: FieldValue) -> Mount:
    if not isinstance(at.node.value, dict):
        return _parse_mount(_MOUNT_TEXT_KIND.read(at))
    values = _MOUNT_OBJECT_KIND.read(at)
    if "source" not in values:
        raise InvalidValue(
            msg("requires a source"), msg("Write source: /path/on/the/machine."), rule="required", expected="source"
        )
    target = values.get("target", values["source"])
    return _build_mount(values["source"], target, values.get("read_only", True))


def _parse_mount(written: str) -> Mount:
    parts = written.split(":")
    mode = parts.pop() if parts[-1] in ("ro", "rw") else "ro"
    return _build_mount(parts[0], parts[-1], mode == "ro")


def _build_mount(source: str, target: str, read_only: bool) -> Mount:
    if ".." in source.split("/") or ".." in target.split("/"):
        raise InvalidValue(msg("must not contain '..'"), rule="pattern", expected=_PATH_PATTERN)
    if not target.strip("/"):
        raise InvalidValue(msg("must not replace the root filesystem"), rule="not", expected="/")
    return Mount(volume=HostFolder(source), target=target, read_only=read_only)


MOUNT_KIND = FieldKind(
    _read_mount, {"anyOf": [dict(_MOUNT_TEXT_KIND.schema), {**_MOUNT_OBJECT_KIND.schema, "required": ["source"]}]}
)


_FILL_IN_HINT = msg("Enter the secrets again: they are never shown.")


def _read_secrets(at: FieldValue) -> dict[str, Any]:
    """Read secrets; messages never show their values."""
    masked = list(islice(_iter_masked_paths(at.node.to_plain()), MAX_LISTED_SECRETS + 1))
    if not isinstance(at.node.value, dict):
        message = (
            msg("contains {mask} instead of the secrets", mask=MASK)
            if masked
            else msg("must be a mapping of names to values")
        )
        raise InvalidValue(message, _FILL_IN_HINT if masked else None, rule="type", expected="object")
    if masked:
        raise InvalidValue(
            msg("contains {mask} instead of {masked}", mask=MASK, masked=_format_masked_paths(masked)),
            _FILL_IN_HINT,
            rule="not",
        )
    plain: dict[str, Any] = at.node.to_plain()
    return plain


def _iter_masked_paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _iter_masked_paths(inner, join_path(path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _iter_masked_paths(inner, f"{path}[{number}]")
    elif value == MASK:
        yield path


def _format_masked_paths(paths: list[str]) -> str:
    named = ", ".join(clip_text(path) for path in paths[:MAX_LISTED_SECRETS])
    more = msg(" and others") if len(paths) > MAX_LISTED_SECRETS else ""
    return msg("the value{plural} of {named}{more}", plural="s" if len(paths) > 1 else "", named=named, more=more)


SECRETS_KIND = FieldKind(_read_secrets, {"type": "object"})


def report_job_too_large(root: FieldValue) -> None:
    root.add_problem(
        msg("The job is too large: its resolved commands and variables exceed {limit} MiB", limit=MAX_JOB_CHARS // MIB),
        msg("Move programs and data to files that the job reads."),
        rule="maxLength",
        expected=MAX_JOB_CHARS,
    )


def check_job(job: Job, root: FieldValue, roles: Mapping[str, FieldValue]) -> None:
    if job.task_count > MAX_TASKS:
        message = msg(
            "The job requests {task_count} tasks; the limit is {max_tasks}",
            task_count=job.task_count,
            max_tasks=MAX_TASKS,
        )
        root.add_problem(message, rule="maximum", expected=MAX_TASKS)
    filler = TemplateFiller({"secrets": job.secrets})
    if _is_too_large(job, filler):
        report_job_too_large(root)
        return

    @cache  # roles share much of their text
    def find_unknown_secrets(written: str) -> tuple[str, ...]:
        return tuple(name for name in list_secret_references(written) if filler.resolve_reference(name) is None)

    for role in job.roles:
        if role.name in roles:
            _check_role(job, role, roles[role.name])
            _check_secrets(job, role, roles[role.name], find_unknown_secrets)
    for name in dict.fromkeys(name for notify in job.notify for name in find_unknown_secrets(notify.address)):
        message = msg("refers to <% {name} %>, which is not defined in secrets", name=clip_text(name))
        root.get_child("notify", root.node).add_problem(message, rule="not")


def _check_role(job: Job, role: Role, at: FieldValue) -> None:
    if role.max_task_retries and job.gang:
        at.add_warning(
            msg("sets task retries, which have no effect with gang scheduling"),
            msg("Set gang: false to place tasks one by one, or retry the whole job."),
        )
    wanted = (role.completion.min_failed, role.completion.min_succeeded)
    if any(count is not None and count > role.instances for count in wanted):
        at.add_warning(
            msg(
                "has a completion rule that never applies: the rule requires more tasks than the {instances} "
                "of this role",
                instances=role.instances,
            )
        )
    targets = [mount.target.rstrip("/") for mount in role.mounts]
    if len(set(targets)) < len(targets):
        at.add_problem(msg("mounts two folders at the same path"), rule="uniqueItems")
    if job.files and any(_is_under_shared_files(target) for target in targets):
        hint = msg("Mount the folder at another path, or remove files: true.")
        at.add_problem(
            msg("mounts a folder at {files}, where files: true mounts the group's files", files=SHARED_FILES_PATH),
            hint,
            rule="not",
        )


def _is_under_shared_files(target: str) -> bool:
    return f"/{posixpath.normpath(target).strip('/')}/".startswith(f"{SHARED_FILES_PATH}/")


def _check_secrets(job: Job, role: Role, at: FieldValue, unknown: Callable[[str], tuple[str, ...]]) -> None:
    names = (name for written in (*role.commands, *role.env.values()) for name in unknown(written))
    vanishes = job.dialect is JobFormat.OPENPAI_V2 and has_secrets(job.secrets)
    fate = msg("it is removed from the text at launch") if vanishes else msg("the text stays unchanged")
    for name in dict.fromkeys(names):
        at.add_warning(
            msg(
                "refers to <% {name} %>, which is not defined in secrets; {consequence}",
                name=clip_text(name),
                consequence=fate,
            )
        )


def _is_too_large(job: Job, filler: TemplateFiller) -> bool:
    size = cache(filler.measure_size)
    room = MAX_JOB_CHARS
    for role in job.roles:
        for written in (*role.commands, *role.env, *role.env.values()):
            room -= size(written)
            if room < 0:
                return True
    return False
