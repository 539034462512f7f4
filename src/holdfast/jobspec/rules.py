"""Limits, names and checks that hold for a job however it was written."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from holdfast.core.codec import MASK
from holdfast.core.job import FILES, MIB, Dialect, Job, Mount, Role
from holdfast.core.messages import msg

from .fields import At, Key, Kind, Wrong, describe
from .kinds import BOOLEAN, choice, integer, list_of, number, object_of, size, spelled, text
from .paths import clip, join_path
from .templates import Filler, has_secrets, secrets_in, value_text

MAX_TASKS = 10_000
MAX_ROLES = 256
MAX_VARIABLES = 1_000
MAX_JOB_CHARS = 4 * MIB  # of commands and variables, with everything filled in and repeated
MAX_NAMED = 20  # secrets that are masked still, named in one message
MAX_VARIABLE_BYTES = 120_000  # Linux passes no longer string to a program

JOB_NAME = text(most=255, line=True)
GROUP_NAME = text(most=255, line=True)
DESCRIPTION = text(least=0)
ROLE_NAME = text(
    most=63,
    pattern=r"^(?![.-])[A-Za-z0-9_.~-]+$",
    rule=msg("must be made of letters, digits and _ . ~ - and not start with . or -"),
)
ENV_NAME = text(
    most=255, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", rule=msg("must be letters, digits and _ and not start with a digit")
)
PORT_LABEL = text(most=63, pattern=r"^[A-Za-z0-9_.~-]+$", rule=msg("must be made of letters, digits and _ . ~ -"))
IMAGE = text(most=512, pattern=r"^[^\s\u0000-\u001f\u007f-\u009f]+$", rule=msg("must be an image name without spaces"))
INSTANCE_TYPE = text(most=255, line=True)
TAG = text(most=255, line=True)
DATASET = text(
    most=63,
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    rule=msg("must be made of letters, digits and . _ - and start with a letter or digit"),
)
INSTANCES = integer(least=1, most=MAX_TASKS)
PORT_COUNT = integer(least=1, most=1_000)
EVEN_SUCCESSES = -2  # the number of retries that asks for them
RETRIES = integer(least=EVEN_SUCCESSES, most=1_000_000)
PRIORITY = integer(least=-(2**31), most=2**31 - 1)
CPU = number(least=0.01, most=1_000_000)
WHOLE_CPU = integer(least=1, most=1_000_000)
GPU = integer(least=0, most=10_000)
MEMORY = size(least=MIB)
SHM = size(least=0)
MEBIBYTES = integer(least=1, most=2**40)

SHELL_OPTION = choice(
    "allexport", "braceexpand", "errexit", "errtrace", "functrace", "hashall", "keyword", "monitor", "noclobber",
    "noglob", "nounset", "physical", "pipefail", "posix", "verbose", "xtrace",
)  # fmt: skip


_TEXT_TYPES = ["string", "number", "boolean"]


def _read_lines(at: At) -> str:
    # Forms sent by browsers and files made on Windows end lines with CR LF, which shells do not understand.
    return spelled(at).replace("\r\n", "\n")


def _read_command(at: At) -> str:
    command = _read_lines(at)
    if not command.strip():
        raise Wrong(msg("must not be empty"), rule="minLength", expected=1)
    return command


def _read_commands(at: At) -> tuple[str, ...]:
    commands = _LINES.read(at)
    if at.node.value and not any(command.strip() for command in commands):
        raise Wrong(msg("has nothing to run"), rule="contains")
    return commands


COMMAND = Kind(_read_command, {"type": _TEXT_TYPES, "pattern": r"\S"})
LINE = Kind(_read_lines, {"type": _TEXT_TYPES})
_LINES = list_of(LINE, least=1)
COMMANDS = Kind(_read_commands, {**_LINES.schema, "contains": COMMAND.schema})


def _read_env_value(at: At) -> str:
    value = at.node.value
    if isinstance(value, dict | list):
        raise Wrong(msg("must be text, not {node}", node=describe(at.node)), rule="type", expected="string")
    written = at.node.written if at.node.written is not None and value is not None else value_text(value)
    if len(written.encode()) > MAX_VARIABLE_BYTES:
        said = msg(
            "is too long: a variable holds at most {max_variable_bytes} bytes", max_variable_bytes=MAX_VARIABLE_BYTES
        )
        raise Wrong(said, msg("Use a file instead."), rule="maxLength", expected=MAX_VARIABLE_BYTES)
    return written


ENV_VALUE = Kind(_read_env_value, {"type": _TEXT_TYPES})


def _read_path(at: At) -> str:
    path = _PATH_TEXT.read(at)
    if ".." in path.split("/"):
        raise Wrong(msg("must not hold '..', as {path} does", path=repr(path)), rule="pattern", expected=_PATH_PATTERN)
    return path


_PATH_PATTERN = r"^/[^\u0000-\u001f\u007f]*$"
_PATH_TEXT = text(most=4096, pattern=_PATH_PATTERN, rule=msg("must be an absolute path"))
PATH = Kind(_read_path, _PATH_TEXT.schema)

_MOUNT_KEYS = {
    "source": Key(PATH, msg("Folder or file on the machine.")),
    "target": Key(PATH, msg("Where the task sees it. Default: the same path.")),
    "read_only": Key(BOOLEAN, msg("Whether the task may only read it. Default: true.")),
}
_MOUNT_OBJECT = object_of(_MOUNT_KEYS)
_MOUNT_PATTERN = r"^/[^:\u0000-\u001f\u007f]*(:/[^:\u0000-\u001f\u007f]*)?(:(ro|rw))?$"
_MOUNT_TEXT = text(
    most=8200, pattern=_MOUNT_PATTERN, rule=msg("must look like /data, /data:/inside or /data:/inside:rw")
)


def _read_mount(at: At) -> Mount:
    if not isinstance(at.node.value, dict):
        return _mount_from_text(_MOUNT_TEXT.read(at))
    values = _MOUNT_OBJECT.read(at)
    if "source" not in values:
        raise Wrong(
            msg("needs a source"), msg("Write source: /path/on/the/machine."), rule="required", expected="source"
        )
    target = values.get("target", values["source"])
    return _mount(values["source"], target, values.get("read_only", True))


def _mount_from_text(written: str) -> Mount:
    parts = written.split(":")
    mode = parts.pop() if parts[-1] in ("ro", "rw") else "ro"
    return _mount(parts[0], parts[-1], mode == "ro")


def _mount(source: str, target: str, read_only: bool) -> Mount:
    if ".." in source.split("/") or ".." in target.split("/"):
        raise Wrong(msg("must not hold '..'"), rule="pattern", expected=_PATH_PATTERN)
    if not target.strip("/"):
        raise Wrong(msg("must not cover the whole file system"), rule="not", expected="/")
    return Mount(source=source, target=target, read_only=read_only)


MOUNT = Kind(_read_mount, {"anyOf": [dict(_MOUNT_TEXT.schema), {**_MOUNT_OBJECT.schema, "required": ["source"]}]})


_FILL_IN = msg("Secrets are never shown: fill them in again.")


def _read_secrets(at: At) -> dict[str, Any]:
    """Messages about secrets never show one."""
    masked = list(islice(_masked(at.node.plain()), MAX_NAMED + 1))
    if not isinstance(at.node.value, dict):
        said = (
            msg("holds {mask} in place of all secrets", mask=MASK)
            if masked
            else msg("must be a mapping of names to values")
        )
        raise Wrong(said, _FILL_IN if masked else None, rule="type", expected="object")
    if masked:
        raise Wrong(
            msg("holds {mask} in place of {masked}", mask=MASK, masked=_name_masked(masked)), _FILL_IN, rule="not"
        )
    plain: dict[str, Any] = at.node.plain()
    return plain


def _masked(value: Any, path: str = "") -> Iterator[str]:
    """Where the mask still stands."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _masked(inner, join_path(path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _masked(inner, f"{path}[{number}]")
    elif value == MASK:
        yield path


def _name_masked(paths: list[str]) -> str:
    named = ", ".join(clip(path) for path in paths[:MAX_NAMED])
    more = msg(" and others") if len(paths) > MAX_NAMED else ""
    return msg("the value{plural} of {named}{more}", plural="s" if len(paths) > 1 else "", named=named, more=more)


SECRETS = Kind(_read_secrets, {"type": "object"})


def too_large(root: At) -> None:
    root.problem(
        msg(
            "The job is too large: its commands and variables, with everything filled in for each "
            "role, hold more than {x1} MiB of text",
            x1=MAX_JOB_CHARS // MIB,
        ),
        msg("Put programs and data into files the job reads."),
        rule="maxLength",
        expected=MAX_JOB_CHARS,
    )


def check_job(job: Job, root: At, roles: Mapping[str, At]) -> None:
    """What can only be said of the whole."""
    if job.task_count > MAX_TASKS:
        said = msg(
            "The job asks for {task_count} tasks; at most {max_tasks} are accepted",
            task_count=job.task_count,
            max_tasks=MAX_TASKS,
        )
        root.problem(said, rule="maximum", expected=MAX_TASKS)
    filler = Filler({"secrets": job.secrets})
    if _is_too_large(job, filler):
        too_large(root)
        return

    @cache  # roles share much of their text
    def unknown(written: str) -> tuple[str, ...]:
        return tuple(name for name in secrets_in(written) if filler.resolve(name) is None)

    for role in job.roles:
        if role.name in roles:
            _check_role(job, role, roles[role.name])
            _check_secrets(job, role, roles[role.name], unknown)
    for name in dict.fromkeys(name for notify in job.notify for name in unknown(notify.address)):
        said = msg("refers to <% {name} %>, which is not among the secrets", name=clip(name))
        root.child("notify", root.node).problem(said, rule="not")


def _check_role(job: Job, role: Role, at: At) -> None:
    if role.max_task_retries and job.gang:
        at.warn(
            msg("asks for its tasks to be tried again, which has no effect while all tasks are placed together"),
            msg("Allow tasks to be placed one by one (gang: false), or retry the whole job."),
        )
    wanted = (role.completion.min_failed, role.completion.min_succeeded)
    if any(count is not None and count > role.instances for count in wanted):
        at.warn(
            msg(
                "has a completion rule for more tasks than its {instances}: it can never apply",
                instances=role.instances,
            )
        )
    targets = [mount.target.rstrip("/") for mount in role.mounts]
    if len(set(targets)) < len(targets):
        at.problem(msg("mounts two folders at the same place"), rule="uniqueItems")
    if job.files and any(_is_among_files(target) for target in targets):
        hint = msg("Mount it elsewhere, or leave out files.")
        at.problem(
            msg("mounts a folder at {files}, where files: true shows those of the group", files=FILES), hint, rule="not"
        )


def _is_among_files(target: str) -> bool:
    return f"/{posixpath.normpath(target).strip('/')}/".startswith(f"{FILES}/")


def _check_secrets(job: Job, role: Role, at: At, unknown: Callable[[str], tuple[str, ...]]) -> None:
    names = (name for written in (*role.commands, *role.env.values()) for name in unknown(written))
    vanishes = job.dialect is Dialect.OPENPAI_V2 and has_secrets(job.secrets)
    fate = msg("at the launch it vanishes from the text") if vanishes else msg("the text stays as it is")
    for name in dict.fromkeys(names):
        at.warn(msg("refers to <% {name} %>, which is not among the secrets; {fate}", name=clip(name), fate=fate))


def _is_too_large(job: Job, filler: Filler) -> bool:
    size = cache(filler.size)
    room = MAX_JOB_CHARS
    for role in job.roles:
        for written in (*role.commands, *role.env, *role.env.values()):
            room -= size(written)
            if room < 0:
                return True
    return False
