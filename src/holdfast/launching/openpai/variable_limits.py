"""Limits the variables of a task, and moves or drops the rest.

The kernel limits the number and size of a program's variables, and in a job of many tasks each has a few for every
other. Those that exceed the environment are in a file that is read before the commands run; if even that is too much to
start a program, they are left out, and a warning is logged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ..context import LaunchContext
from ..intra_job_ssh import render_ssh_setup
from ..shell import render_exports
from .log_messages import render_warning
from .variables import JobTasks, TaskContext, make_address_variables, make_own_variables

MAX_VARIABLES = 1900  # engines accept 2000, and add some
MAX_ENV_SIZE = 900_000  # of names and values together
MAX_VALUE_SIZE = 120_000  # bytes of one value
MAX_TASKS = 2000

_SHELL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedVariables:
    env: dict[str, str]
    exports: tuple[str, ...]  # commands for a shell, with those that do not fit into `env`
    left_out: tuple[str, ...] = ()  # each a sentence


class SharedVariables:
    """Variables that are the same for all tasks of an attempt."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.values, self.left_out = _split_by_length(variables)
        self.size = _measure_variables(self.values)
        named = {name: value for name, value in self.values.items() if _SHELL_NAME_PATTERN.fullmatch(name)}
        self.exports = render_exports(named)
        self.unexportable_count = len(self.values) - len(named)
        # Variables that only the environment can contain come first.
        self._ordered = {name: value for name, value in self.values.items() if name not in named} | named

    def get_first_variables(self, room: int) -> dict[str, str]:
        return dict(islice(self._ordered.items(), max(room, 0)))


class SharedLaunchData:
    """The shared launch data of one attempt's tasks, computed once."""

    def __init__(self, job_tasks: JobTasks) -> None:
        self.job_tasks = job_tasks
        self.count = sum(map(len, job_tasks.placed_tasks.values()))
        self._ssh_setups: dict[bool, str] = {}

    @cached_property
    def job_variables(self) -> SharedVariables:
        return SharedVariables(self.job_tasks.variables)

    @cached_property
    def task_variables(self) -> SharedVariables | None:
        """With the address of each task; None if they are too many."""
        if self.count > MAX_TASKS:
            return None
        everyone = [task for tasks in self.job_tasks.placed_tasks.values() for task in tasks]
        return SharedVariables({**self.job_tasks.variables, **make_address_variables(self.job_tasks, everyone)})

    def render_ssh_setup(self, context: LaunchContext, *, tell: bool) -> str:
        """Render the ssh setup, with a log line if `tell` and it is not available."""
        if tell not in self._ssh_setups:
            snapshot = self.job_tasks.snapshot
            say = render_warning if tell else None
            self._ssh_setups[tell] = render_ssh_setup(snapshot.id, snapshot.job, context, say, once=True)
        return self._ssh_setups[tell]


def fit_variables(scene: TaskContext, shared_data: SharedLaunchData, given: Mapping[str, str]) -> FittedVariables:
    """Return the task's variables besides those already given, which win."""
    own, left_out = _split_by_length(make_own_variables(scene))
    shared = shared_data.task_variables
    if shared is None or shared.size + _measure_variables(own) + _measure_variables(given) > MAX_ENV_SIZE:
        shared = shared_data.job_variables
        left_out.append(_describe_too_many_variables(shared_data.count))
    left_out += shared.left_out
    own = {name: value for name, value in own.items() if name not in given}
    room = MAX_VARIABLES - len(given) - len(own)
    fitting = shared.get_first_variables(room)
    lost = shared.unexportable_count - len(fitting)
    if lost > 0:
        left_out.append(f"{lost} variables are left out: their names are not valid in a shell, and there are too many.")
    again = {name: value for name, value in given.items() if name in shared.values} | own
    ours = render_exports({name: value for name, value in again.items() if _SHELL_NAME_PATTERN.fullmatch(name)})
    return FittedVariables(env={**fitting, **own, **given}, exports=(shared.exports, ours), left_out=tuple(left_out))


def _describe_too_many_variables(tasks: int) -> str:
    return (
        f"The variables PAI_HOST_IP_*, PAI_PORT_LIST_* and PAI_*_PORT are left out: "
        f"for {tasks} tasks they exceed the size limit of the environment. "
        "Use the addresses in PAI_TASK_ROLE_*_HOST_LIST."
    )


def _split_by_length(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    kept = {name: value for name, value in variables.items() if len(value) <= MAX_VALUE_SIZE}
    longer = "is left out: it exceeds the length limit of a variable."
    return kept, [f"{name} {longer}" for name in variables if name not in kept]


def _measure_variables(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode("utf-8", "surrogateescape")) + 2 for name, value in variables.items())
