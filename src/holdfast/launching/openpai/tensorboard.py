"""The plugin `tensorboard`: a TensorBoard beside the first task of the job."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from ..context import LaunchContext
from .entry import Step
from .parameters import BadParameters, number_of
from .saying import SAY
from .variables import Scene


def tensorboard_step(scene: Scene, surroundings: LaunchContext, parameters: Mapping[str, Any]) -> Step | None:
    if not parameters or scene.task.role != scene.snapshot.job.roles[0].name or scene.task.index != 0:
        return None
    port = number_of(parameters, "port", least=1, most=65535)
    folders = _folders(parameters.get("logdir"))
    script = _START.format(
        folders=" ".join(quote(path) for path in folders.values()), logdir=quote(_option(folders)), port=port
    )
    return Step(plugin="tensorboard", before=SAY + script)


def _folders(logdir: Any) -> dict[str, str]:
    if isinstance(logdir, str) and logdir:
        return {"default": logdir}
    if isinstance(logdir, Mapping) and logdir and all(isinstance(path, str) and path for path in logdir.values()):
        return {str(label): path for label, path in logdir.items()}
    raise BadParameters("its parameter logdir must be a mapping of labels to folders")


def _option(folders: Mapping[str, str]) -> str:
    """One folder is watched as it grows; several have labels."""
    if len(folders) == 1:
        return f"--logdir={next(iter(folders.values()))}"
    return "--logdir_spec=" + ",".join(f"{label}:{path}" for label, path in folders.items())


_START = """\
mkdir -p {folders} || :
if ! command -v tensorboard >/dev/null; then
    say INFO 'There is no tensorboard in the image; trying to install it with pip.'
    pip=$(command -v pip3 || command -v pip || :)
    if [ -z "$pip" ] || ! "$pip" install tensorboard >&2; then
        say ERROR 'The runtime plugin tensorboard needs tensorboard in the image, or pip and a network to get it from.'
        exit 1
    fi
fi
nohup tensorboard {logdir} --port={port} --bind_all >"$PAI_RUNTIME_DIR/logs/tensorboard.log" 2>&1 &
say INFO 'TensorBoard starts on port {port}.'
"""
