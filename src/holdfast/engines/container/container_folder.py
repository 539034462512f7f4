"""The folder of a task in a container. The server's claim says which process it is and how it ended; the runner's own
claim is in `report`, the only folder besides the notes and the home that the task can write to."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass

from holdfast.engines.embedded.descriptors import closing_fd
from holdfast.engines.embedded.processes import read_start_ticks
from holdfast.engines.embedded.task_folder import TaskFolder
from holdfast.engines.runner_report import RunnerReport, parse_report
from holdfast.engines.task_program import REPORT_FOLDER, SECRET_FILES

INSIDE_FOLDER = "inside"  # read-only in the container: the runner, the commands, the variables
HOME_FOLDER = "place.home.jovyan"  # where lifecycle.task_paths expects the home
_MAX_REPORT_SIZE = 16 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class ContainerFolder(TaskFolder):
    def create(self) -> None:
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def is_alive(self) -> bool:
        """Return whether the recorded first process of the container runs."""
        claim = self.read_claim()
        return bool(
            claim.code is None
            and not claim.lost
            and claim.pid
            and claim.started is not None
            and read_start_ticks(claim.pid) == claim.started
        )

    def read_report(self) -> RunnerReport:
        return parse_report(self.read_head(f"{REPORT_FOLDER}/claim", _MAX_REPORT_SIZE))

    def record_start(self, pid: int, started: int, namespace: int) -> None:
        """Record its first process, as the embedded engine's runner does."""
        pids = json.dumps({"child-pid": pid, "pid-namespace": namespace})
        self._append_to_claim(f"run {pid} {started}\n{pids}\n")

    def record_end(self, code: int, ended: float) -> None:
        claim = self.read_claim()
        if claim.code is None:
            first = "" if claim.pid is not None else f"run 0 {self.read_report().started or int(ended * 100)}\n"
            self._append_to_claim(f"{first}{json.dumps({'exit-code': code})}\nend {code} {ended:.2f}\n")

    def delete_commands(self) -> None:
        """Delete what may contain secrets, once the task has ended."""
        for name in SECRET_FILES:
            with suppress(OSError):
                os.unlink(self[f"{INSIDE_FOLDER}/{name}"])

    def record_loss(self, why: str) -> None:
        if not self.read_claim().lost:
            self._append_to_claim(f"lost {why}\n")

    def _append_to_claim(self, text: str) -> None:
        with closing_fd(self.open_claim()) as fd:
            os.write(fd, text.encode())
