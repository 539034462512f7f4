"""How many variables a task can take, and what becomes of the rest.

A machine gives a program neither endlessly many variables nor long ones, and in a job of many tasks each has a few for
every other. Those that are too many for the environment stand in a file that is read before the commands run; where
even that would be too much for a program to be started with, they are left out, and the task is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ..context import LaunchContext
from ..intra_job_ssh import prepare_neighbours
from ..shell import exports
from .saying import warning
from .variables import JobTasks, Scene, own_variables, task_variables

MAX_VARIABLES = 1900  # engines take 2000, and add some
MAX_BYTES = 900_000  # of names and values together
MAX_LENGTH = 120_000  # bytes of one value
MAX_TASKS = 2000

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    env: dict[str, str]
    exports: tuple[str, ...]  # the same for a shell, and more where that is too much for `env`
    left_out: tuple[str, ...] = ()  # each a sentence


class Shared:
    """Variables that all tasks of an attempt have alike."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.values, self.left_out = _short_enough(variables)
        self.size = _size(self.values)
        named = {name: value for name, value in self.values.items() if _SHELL_NAME.fullmatch(name)}
        self.exports = exports(named)
        self.nameless = len(self.values) - len(named)
        # What only the environment can hold comes before what a file can.
        self._ordered = {name: value for name, value in self.values.items() if name not in named} | named

    def first(self, room: int) -> dict[str, str]:
        return dict(islice(self._ordered.items(), max(room, 0)))


class SharedLaunchData:
    """What one attempt's tasks are told of each other, worked out once and not for each."""

    def __init__(self, crowd: JobTasks) -> None:
        self.crowd = crowd
        self.count = sum(map(len, crowd.placed.values()))
        self._neighbours: dict[bool, str] = {}

    @cached_property
    def alone(self) -> Shared:
        return Shared(self.crowd.variables)

    @cached_property
    def together(self) -> Shared | None:
        """Also with where each of them is; None when they are too many for that."""
        if self.count > MAX_TASKS:
            return None
        everyone = [task for tasks in self.crowd.placed.values() for task in tasks]
        return Shared({**self.crowd.variables, **task_variables(self.crowd, everyone)})

    def neighbours(self, surroundings: LaunchContext, *, tell: bool) -> str:
        """How they reach each other by ssh, and if `tell`, a line in the log where they do not."""
        if tell not in self._neighbours:
            snapshot = self.crowd.snapshot
            say = warning if tell else None
            self._neighbours[tell] = prepare_neighbours(snapshot.id, snapshot.job, surroundings, say, once=True)
        return self._neighbours[tell]


def fit_variables(scene: Scene, company: SharedLaunchData, given: Mapping[str, str]) -> Fitted:
    """The task's variables besides those already given, which win."""
    own, left_out = _short_enough(own_variables(scene))
    shared = company.together
    if shared is None or shared.size + _size(own) + _size(given) > MAX_BYTES:
        shared = company.alone
        left_out.append(_too_many(company.count))
    left_out += shared.left_out
    own = {name: value for name, value in own.items() if name not in given}
    room = MAX_VARIABLES - len(given) - len(own)
    fitting = shared.first(room)
    lost = shared.nameless - len(fitting)
    if lost > 0:
        left_out.append(f"{lost} variables are left out: no shell can set them, and there are too many of them.")
    again = {name: value for name, value in given.items() if name in shared.values} | own
    ours = exports({name: value for name, value in again.items() if _SHELL_NAME.fullmatch(name)})
    return Fitted(env={**fitting, **own, **given}, exports=(shared.exports, ours), left_out=tuple(left_out))


def _too_many(tasks: int) -> str:
    return (
        f"The variables that say where the other tasks are (PAI_HOST_IP_*, PAI_PORT_LIST_*, PAI_*_PORT) are left out: "
        f"for {tasks} tasks they would be too much to start a program with. "
        "PAI_TASK_ROLE_*_HOST_LIST has the addresses."
    )


def _short_enough(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    kept = {name: value for name, value in variables.items() if len(value) <= MAX_LENGTH}
    longer = "is left out: it would be longer than a variable can be."
    return kept, [f"{name} {longer}" for name in variables if name not in kept]


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode("utf-8", "surrogateescape")) + 2 for name, value in variables.items())
