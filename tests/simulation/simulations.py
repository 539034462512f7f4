"""Simulates job files in this process, on a state folder of the tests' own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.settings import load_settings
from holdfast.simulation import (
    Remark,
    RemarkLevel,
    Remarks,
    RemarkTopic,
    ServerView,
    SimulationOptions,
    SimulationReport,
    parse_job_file,
    run_simulation,
)

NO_SERVER = ServerView(why="none for this test")


@dataclass(frozen=True)
class Simulated:
    report: SimulationReport
    lines: tuple[str, ...]  # task | line

    def remarks(self, about: RemarkTopic, *levels: RemarkLevel) -> list[Remark]:
        wanted = levels or (RemarkLevel.PROBLEM, RemarkLevel.WARNING)
        return [each for each in self.report.remarks if each.about is about and each.level in wanted]

    @property
    def alarms(self) -> list[str]:
        """Whatever was said that is more than a note."""
        return [
            f"{each.level} {each.about}: {each.text}" for each in self.report.remarks if each.level != RemarkLevel.NOTE
        ]


class Place:
    def __init__(self, state: Path) -> None:
        self.state = state

    def run(
        self,
        job: str | dict[str, Any],
        *,
        view: ServerView = NO_SERVER,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Simulated:
        """`environment`: settings; by default no image is pulled."""
        text = job if isinstance(job, str) else json.dumps(job)
        settings = load_settings(self.state, environment or {"HOLDFAST_IMAGES_UNKNOWN": "fail"})
        remarks, lines = Remarks(), list[str]()
        read = parse_job_file(text.encode(), settings, remarks, user=view.user or None)
        report = run_simulation(
            read,
            SimulationOptions(**options),
            state=self.state,
            settings=settings,
            view=view,
            remarks=remarks,
            say=lambda task, line: lines.append(f"{task} | {line}"),
        )
        return Simulated(report, tuple(lines))
