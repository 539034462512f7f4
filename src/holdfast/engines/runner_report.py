"""What the runner of a task (`runtime/task_runner.sh`) reports in its claim. Pure.

The report was written inside the task: it is only trusted about the task itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

START_REFUSED_CODE = 125  # exit code of a runner that did not get the claim: the task's commands did not run
_MAX_REPORT_SIZE = 16 * 1024  # bytes
_RUN_PATTERN = re.compile(rb"run [0-9]{1,10} ([0-9]{1,18})\Z")
_END_PATTERN = re.compile(rb"end ([0-9]{1,3}) ([0-9]{1,9}(?:\.[0-9]{1,6})?) (-|[0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """What the runner wrote."""

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
