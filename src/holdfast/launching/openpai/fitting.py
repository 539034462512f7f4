"""How many variables a task can take, and what becomes of the rest.

A machine gives a program neither endlessly many variables nor long ones, and in a job of many tasks each has a few for
every other. Those that are too many for the environment stand in a file that is read before the commands run; where
even that would be too much for a program to be started with, they are left out, and the task is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .variables import Scene, own_variables, role_variables, task_variables

MOST_VARIABLES = 1900  # engines take 2000, and add some
MOST_BYTES = 900_000  # of names and values together
LONGEST = 120_000  # bytes of one value
MOST_TASKS = 2000

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    env: dict[str, str]
    file: dict[str, str]  # what a shell can export, of ours; more than fits into `env` where that is too much
    left_out: tuple[str, ...] = ()  # each a sentence


def fit_variables(scene: Scene, given: Mapping[str, str]) -> Fitted:
    """The task's variables besides those already given, which win."""
    left_out: list[str] = []
    ours = {**own_variables(scene), **role_variables(scene), **task_variables(scene, [scene.task])}
    ours.update(_others(scene, ours, given, left_out))
    for name in [name for name, value in ours.items() if len(value) > LONGEST]:
        left_out.append(f"{name} is left out: it would be longer than a variable can be.")
        del ours[name]
    ours = {name: value for name, value in ours.items() if name not in given}
    env = {**given, **_first(ours, MOST_VARIABLES - len(given))}
    file = {name: value for name, value in ours.items() if _SHELL_NAME.fullmatch(name)}
    lost = sum(name not in env and name not in file for name in ours)
    if lost:
        left_out.append(f"{lost} variables are left out: no shell can set them, and there are too many of them.")
    return Fitted(env=env, file=file, left_out=tuple(left_out))


def _others(scene: Scene, ours: dict[str, str], given: Mapping[str, str], left_out: list[str]) -> dict[str, str]:
    tasks = [task for tasks in scene.placed.values() for task in tasks]
    if len(tasks) <= MOST_TASKS:
        others = task_variables(scene, tasks)
        if sum(map(_size, (ours, given, others))) <= MOST_BYTES:
            return others
    left_out.append(
        f"The variables that say where the other tasks are (PAI_HOST_IP_*, PAI_PORT_LIST_*, PAI_*_PORT) are left out: "
        f"for {len(tasks)} tasks they would be too much to start a program with. "
        "PAI_TASK_ROLE_*_HOST_LIST has the addresses."
    )
    return {}


def _first(ours: dict[str, str], room: int) -> dict[str, str]:
    """As many as there is room for; those that only the environment can hold come before those a file can."""
    if len(ours) <= room:
        return ours
    names = sorted(ours, key=lambda name: _SHELL_NAME.fullmatch(name) is not None)
    kept = set(names[: max(room, 0)])
    return {name: value for name, value in ours.items() if name in kept}


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode("utf-8", "surrogateescape")) + 2 for name, value in variables.items())
