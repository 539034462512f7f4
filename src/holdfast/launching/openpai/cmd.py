"""The plugin `cmd`: commands before and after those of the job, each list a script of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..context import LaunchContext
from .entry import Step
from .parameters import BadParameters, lines_of
from .variables import Scene

_EVENTS = ("taskStarts", "taskSucceeds")


def cmd_step(scene: Scene, surroundings: LaunchContext, parameters: Mapping[str, Any]) -> Step:
    if "callbacks" in parameters:
        before, after = _callbacks(parameters["callbacks"])
    else:
        before, after = lines_of(parameters, "preCommands"), lines_of(parameters, "postCommands")
    return Step(plugin="cmd", before=_script(before), after=_script(after))


def _callbacks(callbacks: Any) -> tuple[list[str], list[str]]:
    found: dict[str, list[str]] = {event: [] for event in _EVENTS}
    if not isinstance(callbacks, list | tuple) or not all(isinstance(each, Mapping) for each in callbacks):
        raise BadParameters("its parameter callbacks must be a list of events with their commands")
    for callback in callbacks:
        event = callback.get("event")
        if event not in _EVENTS:
            raise BadParameters(f"its callbacks know the events {' and '.join(_EVENTS)}")
        found[event] += lines_of(callback, "commands")
    before, after = found.values()
    return before, after


def _script(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
