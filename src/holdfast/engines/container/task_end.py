"""Derives how a task ended from what its runner reported and what the daemon says. Pure.

The runner's report comes first, then the daemon's exit code. The report was written inside the task: it is only trusted
about the task itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

START_REFUSED_CODE = 125  # exit code of a runner that did not get the claim: the task's commands did not run
RUNNING_STATUSES = ("running", "paused", "restarting")
_KILL_CODE = 137
CREATED_STATUS = "created"  # of a container that was not started, as far as the daemon knows
_MAX_REPORT_SIZE = 16 * 1024  # bytes
_RUN_PATTERN = re.compile(rb"run [0-9]{1,10} ([0-9]{1,18})\Z")
_END_PATTERN = re.compile(rb"end ([0-9]{1,3}) ([0-9]{1,12}(?:\.[0-9]{1,6})?) (-|[0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """What the runner inside the container wrote."""

    claimed: bool = False  # the task's commands may have run
    started: int | None = None  # ticks after boot
    code: int | None = None
    ended: float | None = None  # seconds after boot
    oom: bool | None = None  # whether a process was killed for its memory; None: unknown


def parse_report(data: bytes) -> RunnerReport:
    """Parse the claim of a runner, without an unfinished last line."""
    report = RunnerReport()
    for line in data[:_MAX_REPORT_SIZE].split(b"\n")[:-1]:
        if found := _RUN_PATTERN.match(line):
            report = RunnerReport(claimed=True, started=int(found[1]))
        elif (found := _END_PATTERN.match(line)) and report.claimed and int(found[1]) < 256:
            oom = None if found[3] == b"-" else int(found[3]) > 0
            report = RunnerReport(
                claimed=True, started=report.started, code=int(found[1]), ended=float(found[2]), oom=oom
            )
    return report


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
    if not container.started and not report.claimed:
        return TaskEnd(EndKind.ABSENT)
    if not container.started:  # the daemon was killed meanwhile, and does not know how it ended
        return TaskEnd(EndKind.EXITED, _KILL_CODE, oom) if stopped or oom else TaskEnd(EndKind.KILLED, container.code)
    by_signal = container.code > 128
    if not report.claimed and not by_signal:
        kind = EndKind.NOT_RUN if container.code == START_REFUSED_CODE else EndKind.NO_SHELL
        return TaskEnd(kind, container.code)
    if by_signal and not (stopped or oom):
        return TaskEnd(EndKind.KILLED, container.code)
    return TaskEnd(EndKind.EXITED, container.code, oom and container.code != 0)
