"""The runtime plugins of a task: their scripts before and after the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any

from holdfast.core.job import Job

from ..context import LaunchContext, list_plugin_calls
from .cmd import make_cmd_step
from .entry import PluginStep
from .git import make_git_step
from .log_messages import SAY_FUNCTION
from .parameters import InvalidParameters
from .references import ParameterFiller, list_prerequisites
from .ssh import make_ssh_step
from .tensorboard import make_tensorboard_step
from .variables import TaskContext

MAX_PLUGIN_CALLS = 100  # for one role


_STEP_MAKERS: Mapping[str, Callable[[TaskContext, LaunchContext, Mapping[str, Any]], PluginStep | None]] = {
    "cmd": make_cmd_step,
    "git": make_git_step,
    "ssh": make_ssh_step,
    "tensorboard": make_tensorboard_step,
    "teamwise_storage": lambda scene, context, parameters: None,  # its mounts are part of the launch
}


def make_plugin_steps(scene: TaskContext, context: LaunchContext) -> tuple[PluginStep, ...]:
    """Return the role's prerequisites in their order, then the others in the order of the file."""
    job, role = scene.snapshot.job, scene.task.role
    calls = _list_role_calls(job, role)
    if len(calls) > MAX_PLUGIN_CALLS:
        return (
            _make_failing_step(
                _get_plugin_name(calls[MAX_PLUGIN_CALLS]),
                f"the job has {len(calls)} plugins; the limit is {MAX_PLUGIN_CALLS}",
            ),
        )
    filler = ParameterFiller(job, role)
    steps: list[PluginStep] = []
    for call in calls:
        step = _make_step(call, scene, context, filler, steps)
        if step is not None:
            steps.append(replace(step, ignore=call.get("failurePolicy") == "ignore"))
    return tuple(steps)


def _list_role_calls(job: Job, role: str) -> list[Mapping[str, Any]]:
    calls = [call for call in list_plugin_calls(job) if role in call.get("taskroles", (role,))]
    places = {name: number for number, name in enumerate(list_prerequisites(job, role))}
    return sorted(calls, key=lambda call: places.get(str(call.get("prerequisite", "")), len(places)))


def _make_step(
    call: Mapping[str, Any],
    scene: TaskContext,
    context: LaunchContext,
    filler: ParameterFiller,
    before: list[PluginStep],
) -> PluginStep | None:
    name = _get_plugin_name(call)
    make = _STEP_MAKERS.get(name)
    try:
        if make is None:
            raise InvalidParameters(f"it is not supported; supported plugins: {', '.join(_STEP_MAKERS)}")
        if name == "ssh" and any(step.plugin == name for step in before):  # a second sshd would find its port in use
            raise InvalidParameters("the task already has this plugin")
        given = call.get("parameters")
        return make(scene, context, filler.fill_parameters(given if isinstance(given, Mapping) else {}))
    except InvalidParameters as bad:
        return _make_failing_step(name, str(bad))


def _get_plugin_name(call: Mapping[str, Any]) -> str:
    return str(call.get("plugin", ""))


def _make_failing_step(name: str, why: str) -> PluginStep:
    return PluginStep(
        plugin=name,
        before=f"{SAY_FUNCTION}say ERROR {quote(f'The runtime plugin {name} cannot run: {why}.')}\nexit 1\n",
    )
