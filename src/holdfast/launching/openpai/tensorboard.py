"""The plugin `tensorboard`: a TensorBoard beside the first task of the job."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from ..context import LaunchContext
from ..shell import fill_script, read_script
from .entry import PluginStep
from .log_messages import SAY_FUNCTION
from .parameters import InvalidParameters, get_number
from .variables import TaskContext


def make_tensorboard_step(
    scene: TaskContext, context: LaunchContext, parameters: Mapping[str, Any]
) -> PluginStep | None:
    if not parameters or scene.task.role != scene.snapshot.job.roles[0].name or scene.task.index != 0:
        return None
    port = get_number(parameters, "port", least=1, most=65535)
    folders = _parse_folders(parameters.get("logdir"))
    script = fill_script(
        _START_SCRIPT,
        folders=" ".join(quote(path) for path in folders.values()),
        logdir=quote(_render_logdir_option(folders)),
        port=port,
    )
    return PluginStep(plugin="tensorboard", before=SAY_FUNCTION + script)


def _parse_folders(logdir: Any) -> dict[str, str]:
    if isinstance(logdir, str) and logdir:
        return {"default": logdir}
    if isinstance(logdir, Mapping) and logdir and all(isinstance(path, str) and path for path in logdir.values()):
        return {str(label): path for label, path in logdir.items()}
    raise InvalidParameters("its parameter logdir must be a mapping of labels to folders")


def _render_logdir_option(folders: Mapping[str, str]) -> str:
    """Render one folder as is, several with labels."""
    if len(folders) == 1:
        return f"--logdir={next(iter(folders.values()))}"
    return "--logdir_spec=" + ",".join(f"{label}:{path}" for label, path in folders.items())


_START_SCRIPT = read_script(__package__, "tensorboard.sh")
