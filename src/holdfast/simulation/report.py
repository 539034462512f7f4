"""Report of a simulation: remarks, and the result of each task."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.core.verdicts import Diagnosis


class RemarkLevel(StrEnum):
    PROBLEM = "problem"  # the real run would fail
    WARNING = "warning"  # the real run may fail
    NOTE = "note"  # differences from the real run, and skipped checks


class RemarkTopic(StrEnum):
    IMAGE = "image"
    COMMAND = "command"
    SYNTAX = "syntax"
    TEMPLATE = "template"
    VARIABLE = "variable"
    FILE = "file"
    PATH = "path"
    MOUNT = "mount"
    DATASET = "dataset"
    PORT = "port"
    PLUGIN = "plugin"
    EXIT = "exit"
    RESOURCES = "resources"
    INSTANCES = "instances"
    SERVER = "server"
    ENGINE = "engine"
    FORMAT = "format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    level: RemarkLevel
    about: RemarkTopic
    text: str
    hint: str = ""
    role: str | None = None
    evidence: tuple[str, ...] = ()  # lines of the task's output


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Result of one task."""

    task: str
    state: str
    seconds: float | None  # None: it never started
    code: int | None
    message: str


class SimulationEnding(StrEnum):
    ENDED = "ended"  # by itself
    TIMEOUT = "timeout"  # stopped by the simulation
    INTERRUPTED = "interrupted"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    job: str
    dialect: str
    engine: str  # sandbox, docker or podman
    ending: SimulationEnding
    seconds: float = 0.0
    tasks: tuple[TaskResult, ...] = ()
    remarks: tuple[Remark, ...] = ()
    diagnosis: Diagnosis | None = None
    server: str = ""  # URL of the server that checked the job; empty: none

    @property
    def has_problems(self) -> bool:
        return any(remark.level is RemarkLevel.PROBLEM for remark in self.remarks)


@dataclass(slots=True)
class Remarks:
    """Collected remarks, without duplicates."""

    found: list[Remark] = field(default_factory=list)

    def add(self, remark: Remark) -> None:
        if remark not in self.found:
            self.found.append(remark)

    def remove_matching(self, about: RemarkTopic, text: str) -> None:
        """Remove earlier remarks on the same subject."""
        self.found = [remark for remark in self.found if remark.about is not about or text not in remark.text]

    def for_role(self, role: str, chosen: Collection[str]) -> Remarks:
        """Return where to add remarks on a role: those on roles that were not chosen are discarded."""
        return self if role in chosen else Remarks()

    def add_problem(self, about: RemarkTopic, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=RemarkLevel.PROBLEM, about=about, text=text, hint=hint, role=role))

    def add_warning(self, about: RemarkTopic, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=RemarkLevel.WARNING, about=about, text=text, hint=hint, role=role))

    def add_note(self, about: RemarkTopic, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=RemarkLevel.NOTE, about=about, text=text, hint=hint, role=role))
