"""The plugin `cmd`: commands before and after those of the job, each list in its own script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..context import LaunchContext
from .entry import PluginStep
from .parameters import InvalidParameters, get_lines
from .variables import TaskContext

_CALLBACK_EVENTS = ("taskStarts", "taskSucceeds")


def make_cmd_step(scene: TaskContext, context: LaunchContext, parameters: Mapping[str, Any]) -> PluginStep:
    if "callbacks" in parameters:
        before, after = _parse_callbacks(parameters["callbacks"])
    else:
        before, after = get_lines(parameters, "preCommands"), get_lines(parameters, "postCommands")
    return PluginStep(plugin="cmd", before=_join_lines(before), after=_join_lines(after))


def _parse_callbacks(callbacks: Any) -> tuple[list[str], list[str]]:
    found: dict[str, list[str]] = {event: [] for event in _CALLBACK_EVENTS}
    if not isinstance(callbacks, list | tuple) or not all(isinstance(each, Mapping) for each in callbacks):
        raise InvalidParameters("its parameter callbacks must be a list of events with their commands")
    for callback in callbacks:
        event = callback.get("event")
        if event not in _CALLBACK_EVENTS:
            raise InvalidParameters(f"its callbacks support the events {' and '.join(_CALLBACK_EVENTS)}")
        found[event] += get_lines(callback, "commands")
    before, after = found.values()
    return before, after


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
