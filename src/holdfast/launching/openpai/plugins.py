"""The runtime plugins of a task: what each of them does before and after the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any

from ..surroundings import Surroundings, plugin_calls
from .cmd import cmd_step
from .entry import Step
from .filling import fill_parameters
from .git import git_step
from .parameters import BadParameters
from .shell import SAY
from .ssh import ssh_step
from .tensorboard import tensorboard_step
from .variables import Scene


def _storages_are_mounts(scene: Scene, surroundings: Surroundings, parameters: Mapping[str, Any]) -> None:
    return None


_MAKERS: Mapping[str, Callable[[Scene, Surroundings, Mapping[str, Any]], Step | None]] = {
    "cmd": cmd_step,
    "git": git_step,
    "ssh": ssh_step,
    "tensorboard": tensorboard_step,
    "teamwise_storage": _storages_are_mounts,
}


def plugin_steps(scene: Scene, surroundings: Surroundings) -> tuple[Step, ...]:
    """In the order of the file, those of this task's role."""
    role = scene.task.role
    calls = [call for call in plugin_calls(scene.snapshot.job) if role in call.get("taskroles", (role,))]
    steps = (_step(call, scene, surroundings) for call in calls)
    return tuple(step for step in steps if step is not None)


def _step(call: Mapping[str, Any], scene: Scene, surroundings: Surroundings) -> Step | None:
    name = str(call.get("plugin", ""))
    make = _MAKERS.get(name)
    try:
        if make is None:
            raise BadParameters(f"there is none of that name here; known are {', '.join(_MAKERS)}")
        given = call.get("parameters")
        parameters = fill_parameters(scene.snapshot.job, scene.task.role, given if isinstance(given, Mapping) else {})
        step = make(scene, surroundings, parameters)
    except BadParameters as bad:
        step = _failing(name, str(bad))
    return step and replace(step, ignore=call.get("failurePolicy") == "ignore")


def _failing(name: str, why: str) -> Step:
    return Step(
        plugin=name, before=f"{SAY}say ERROR {quote(f'The runtime plugin {name} cannot run: {why}.')}\nexit 1\n"
    )
