"""Derives how a task ended from what its runner reported and what the daemon says. Pure.

The runner's report comes first, then the daemon's exit code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.engines.runner_report import START_REFUSED_CODE, RunnerReport

RUNNING_STATUSES = ("running", "paused", "restarting")
NO_PROGRAM_CODES = (126, 127)  # of a container whose first program cannot be executed
_INIT_CODES = (1, *NO_PROGRAM_CODES)  # of an init that cannot execute it: 1 with Podman's, 127 with Docker's
_KILL_CODE = 137
CREATED_STATUS = "created"  # of a container that was not started, as far as the daemon knows


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """What the daemon says about a container."""

    id: str
    status: str  # created, running, paused, exited ...
    pid: int = 0  # of its first process, on this machine; 0: none
    code: int = 0
    oom: bool = False
    started: bool = False  # it was started at least once
    error: str = ""  # why it could not start
    own: bool = True  # created by this installation

    @property
    def is_running(self) -> bool:
        return self.status in RUNNING_STATUSES or self.pid > 0

    @property
    def was_started(self) -> bool:
        """Whether the daemon knows that it was started. It may have been started without that."""
        return self.started or self.status in RUNNING_STATUSES


class EndKind(StrEnum):
    EXITED = "exited"
    REMOVED = "removed"  # the container was removed, so the exit is unknown
    KILLED = "killed"  # from outside the task, and not by us
    NO_SHELL = "no-shell"
    NOT_RUN = "not-run"  # the runner could not take the claim
    ABSENT = "absent"  # never started


@dataclass(frozen=True, slots=True)
class TaskEnd:
    kind: EndKind
    code: int = 0
    oom: bool = False


def decide_end(
    report: RunnerReport, container: ContainerState | None, *, started: bool, stopped: bool, oom: bool
) -> TaskEnd:
    """Return how a task ended that certainly does not run. `started`: the server saw it run. `stopped`: the server
    signalled or killed it. `oom`: its cgroup counted a process that was killed for its memory."""
    oom = oom or bool(report.oom) or (container is not None and container.oom)
    if report.code is not None:
        return TaskEnd(EndKind.EXITED, report.code, oom and report.code != 0)
    if container is None:
        return TaskEnd(EndKind.REMOVED if report.claimed or started else EndKind.ABSENT)
    if not container.started and not report.claimed and not started:
        return TaskEnd(EndKind.ABSENT)
    if not container.started:  # the daemon was killed meanwhile, and does not know how it ended
        return TaskEnd(EndKind.EXITED, _KILL_CODE, oom) if stopped or oom else TaskEnd(EndKind.KILLED, container.code)
    by_signal = container.code > 128
    no_program = container.code in _INIT_CODES  # at most the daemon's init was seen running
    if not report.claimed and not by_signal and (no_program or not (started and container.code)):  # not a success
        kind = EndKind.NOT_RUN if container.code == START_REFUSED_CODE else EndKind.NO_SHELL
        return TaskEnd(kind, container.code)
    if by_signal and not (stopped or oom):
        return TaskEnd(EndKind.KILLED, container.code)
    return TaskEnd(EndKind.EXITED, container.code, oom and container.code != 0)
