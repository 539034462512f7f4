"""A job from command-line options: pure, no I/O."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any

from typer import BadParameter

MAX_NAME_LENGTH = 60


def compose_job(
    command: Sequence[str],
    *,
    name: str | None = None,
    image: str | None = None,
    instance_type: str | None = None,
    cpu: float | None = None,
    memory: str | None = None,
    gpu: int | None = None,
    env: Sequence[str] = (),
    mount: Sequence[str] = (),
    dataset: Sequence[str] = (),
    instances: int | None = None,
    time_limit: str | None = None,
    retry: int | None = None,
    priority: int | None = None,
    files: bool = False,
) -> dict[str, Any]:
    """A job in Holdfast's own form; what was not asked for is left to the server."""
    resources = _given(cpu=cpu, memory=memory, gpu=gpu)
    return _given(
        name=name or name_of(command),
        command=shell_text(command),
        image=image,
        instance_type=instance_type,
        resources=resources or None,
        env=dict(_variable(text) for text in env) or None,
        mounts=list(mount) or None,
        datasets=list(dataset) or None,
        instances=instances,
        time_limit=time_limit,
        retry=retry,
        priority=priority,
        files=True if files else None,
    )


def shell_text(command: Sequence[str]) -> str:
    """One argument is shell text as it is; several are words, quoted so that the shell sees them as they were."""
    return command[0] if len(command) == 1 else shlex.join(command)


def name_of(command: Sequence[str]) -> str:
    """The program's name, and the script's when an interpreter runs one: `python train.py` -> python-train."""
    words = command[0].split() if len(command) == 1 else list(command)
    parts = [PurePosixPath(word).stem for word in words[:2] if not word.startswith("-")]
    kept = [part for part in parts if part.replace("-", "").replace("_", "").replace(".", "").isalnum()]
    return "-".join(kept[:2])[:MAX_NAME_LENGTH] or "job"


def absolute_mount(text: str, folder: PurePath) -> str:
    """SRC[:DST][:ro|rw] with SRC as seen from `folder`: a server elsewhere does not know where we are."""
    source, colon, rest = text.partition(":")
    if not source or source.startswith("/"):
        return text
    return posixpath.normpath(folder / source) + colon + rest


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadParameter(f"{text!r} must look like NAME=VALUE", param_hint="--env")
    return name, value


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
