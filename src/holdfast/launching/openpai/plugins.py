"""The runtime plugins of a task: what each of them does before and after the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any

from holdfast.core.job import Job

from ..context import LaunchContext, plugin_calls
from .cmd import cmd_step
from .entry import Step
from .filling import ParameterFiller, listed_prerequisites
from .git import git_step
from .parameters import BadParameters
from .saying import SAY
from .ssh import ssh_step
from .tensorboard import tensorboard_step
from .variables import Scene

MAX_CALLS = 100  # for one role


def _storages_are_mounts(scene: Scene, surroundings: LaunchContext, parameters: Mapping[str, Any]) -> None:
    return None


_MAKERS: Mapping[str, Callable[[Scene, LaunchContext, Mapping[str, Any]], Step | None]] = {
    "cmd": cmd_step,
    "git": git_step,
    "ssh": ssh_step,
    "tensorboard": tensorboard_step,
    "teamwise_storage": _storages_are_mounts,
}


def plugin_steps(scene: Scene, surroundings: LaunchContext) -> tuple[Step, ...]:
    """Those of this task's role: its prerequisites as it lists them, then the others in the order of the file."""
    job, role = scene.snapshot.job, scene.task.role
    calls = _calls(job, role)
    if len(calls) > MAX_CALLS:
        return (_failing(_name(calls[MAX_CALLS]), f"the job has {len(calls)} plugins, and {MAX_CALLS} is the most"),)
    filler = ParameterFiller(job, role)
    steps: list[Step] = []
    for call in calls:
        step = _step(call, scene, surroundings, filler, steps)
        if step is not None:
            steps.append(replace(step, ignore=call.get("failurePolicy") == "ignore"))
    return tuple(steps)


def _calls(job: Job, role: str) -> list[Mapping[str, Any]]:
    calls = [call for call in plugin_calls(job) if role in call.get("taskroles", (role,))]
    places = {name: number for number, name in enumerate(listed_prerequisites(job, role))}
    return sorted(calls, key=lambda call: places.get(str(call.get("prerequisite", "")), len(places)))


def _step(
    call: Mapping[str, Any], scene: Scene, surroundings: LaunchContext, filler: ParameterFiller, before: list[Step]
) -> Step | None:
    name = _name(call)
    make = _MAKERS.get(name)
    try:
        if make is None:
            raise BadParameters(f"there is none of that name here; known are {', '.join(_MAKERS)}")
        if name == "ssh" and any(step.plugin == name for step in before):  # a second sshd would find its port taken
            raise BadParameters("the task has it already")
        given = call.get("parameters")
        return make(scene, surroundings, filler.fill(given if isinstance(given, Mapping) else {}))
    except BadParameters as bad:
        return _failing(name, str(bad))


def _name(call: Mapping[str, Any]) -> str:
    return str(call.get("plugin", ""))


def _failing(name: str, why: str) -> Step:
    return Step(
        plugin=name, before=f"{SAY}say ERROR {quote(f'The runtime plugin {name} cannot run: {why}.')}\nexit 1\n"
    )
