"""Jobs made of a command and of options. No I/O."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Any

from typer import BadParameter, Option

from ..catalogue.instance_types import complete_instance_type

MAX_NAME_LENGTH = 60
PANEL = "Job options (only with a command after --)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of submit and plan for a command after `--`."""

    name: Annotated[str | None, Option(help="Job name. Default: from the command.", rich_help_panel=PANEL)] = None
    image: Annotated[str | None, Option(help="Image of the tasks.", rich_help_panel=PANEL)] = None
    instance_type: Annotated[
        str | None,
        Option(
            help="Instance type of each task: see `holdfast instance-type ls`.",
            rich_help_panel=PANEL,
            autocompletion=complete_instance_type,
        ),
    ] = None
    cpu: Annotated[float | None, Option(help="CPU cores of each task.", rich_help_panel=PANEL)] = None
    memory: Annotated[str | None, Option(help="Memory of each task: 512Mi, 2Gi.", rich_help_panel=PANEL)] = None
    gpu: Annotated[int | None, Option(help="GPUs of each task.", rich_help_panel=PANEL)] = None
    env: Annotated[
        list[str] | None,
        Option("--env", "-e", metavar="NAME=VALUE", help="Environment variable. Repeatable.", rich_help_panel=PANEL),
    ] = None
    mount: Annotated[
        list[str] | None,
        Option(metavar="SRC[:DST][:ro|rw]", help="Folder to mount. Repeatable.", rich_help_panel=PANEL),
    ] = None
    dataset: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Dataset to mount below /datasets. Repeatable.", rich_help_panel=PANEL),
    ] = None
    files: Annotated[
        bool, Option("--files", help="Mount the group's shared files at /phfs.", rich_help_panel=PANEL)
    ] = False
    instances: Annotated[int | None, Option(help="Number of tasks.", rich_help_panel=PANEL)] = None
    time_limit: Annotated[str | None, Option(help="Time limit: 90m, 2h, none.", rich_help_panel=PANEL)] = None
    retry: Annotated[int | None, Option(help="Number of retries after a failure.", rich_help_panel=PANEL)] = None
    priority: Annotated[int | None, Option(help="Priority; higher starts first.", rich_help_panel=PANEL)] = None
    engine: Annotated[str | None, Option(help="Engine that runs the job; overrides a file.")] = None


def compose_job(command: Sequence[str], options: JobOptions, folder: PurePath) -> dict[str, Any]:
    """Build a job in Holdfast format; the server fills in the defaults. Mounts are relative to `folder`."""
    found = {
        "name": options.name or derive_job_name(command),
        "command": join_shell_command(command),
        "image": options.image,
        "instance_type": options.instance_type,
        "resources": _drop_unset_options({"cpu": options.cpu, "memory": options.memory, "gpu": options.gpu}),
        "env": dict(_parse_variable(text) for text in options.env or ()),
        "mounts": [make_mount_absolute(text, folder) for text in options.mount or ()],
        "datasets": list(options.dataset or ()),
        "instances": options.instances,
        "time_limit": options.time_limit,
        "retry": options.retry,
        "priority": options.priority,
        "engine": options.engine,
        "files": options.files,
    }
    return _drop_unset_options(found)


def join_shell_command(command: Sequence[str]) -> str:
    """Return a single argument unchanged as shell text; quote several arguments for the shell."""
    return command[0] if len(command) == 1 else shlex.join(command)


def derive_job_name(command: Sequence[str]) -> str:
    """Return a job name made of the program and its script: `python train.py` -> python-train."""
    words = command[0].split() if len(command) == 1 else list(command)
    parts = [PurePosixPath(word).stem for word in words[:2] if not word.startswith("-")]
    kept = [part for part in parts if part.replace("-", "").replace("_", "").replace(".", "").isalnum()]
    return "-".join(kept[:2])[:MAX_NAME_LENGTH] or "job"


def make_mount_absolute(text: str, folder: PurePath) -> str:
    """Make SRC of SRC[:DST][:ro|rw] absolute: the server does not know the current folder."""
    source, colon, rest = text.partition(":")
    if not source or source.startswith("/"):
        return text
    return posixpath.normpath(folder / source) + colon + rest


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--env")
    return name, value


def _drop_unset_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop options that were not given. A zero was: the server uses or rejects it."""
    return {key: value for key, value in values.items() if value or (value == 0 and value is not False)}
