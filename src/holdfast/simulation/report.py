"""What a simulation found: remarks, and how each task went."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.core.verdicts import Diagnosis


class Level(StrEnum):
    PROBLEM = "problem"  # the real run would break
    WARNING = "warning"  # it may
    NOTE = "note"  # what this simulation did differently, or did not check


class About(StrEnum):
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
    level: Level
    about: About
    text: str
    hint: str = ""
    role: str | None = None
    evidence: tuple[str, ...] = ()  # lines as the task wrote them


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task as it went."""

    task: str
    state: str
    seconds: float | None  # None: it never started
    code: int | None
    message: str


class Ending(StrEnum):
    ENDED = "ended"  # by itself
    TIMEOUT = "timeout"  # cut by the simulation
    INTERRUPTED = "interrupted"
    NOT_RUN = "not-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    job: str
    dialect: str
    engine: str  # sandbox, docker or podman
    ending: Ending
    seconds: float = 0.0
    tasks: tuple[TaskRun, ...] = ()
    remarks: tuple[Remark, ...] = ()
    diagnosis: Diagnosis | None = None
    server: str = ""  # the one that was asked what only it knows; empty: none was

    @property
    def would_break(self) -> bool:
        return any(remark.level is Level.PROBLEM for remark in self.remarks)


@dataclass(slots=True)
class Remarks:
    """Remarks as they are gathered, each once."""

    found: list[Remark] = field(default_factory=list)

    def add(self, remark: Remark) -> None:
        if remark not in self.found:
            self.found.append(remark)

    def drop(self, about: About, text: str) -> None:
        """What was said before in other words."""
        self.found = [remark for remark in self.found if remark.about is not about or text not in remark.text]

    def on(self, role: str, chosen: Collection[str]) -> Remarks:
        """Where to put what is said of a role: nobody wants to hear of one that was not chosen."""
        return self if role in chosen else Remarks()

    def problem(self, about: About, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=Level.PROBLEM, about=about, text=text, hint=hint, role=role))

    def warn(self, about: About, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=Level.WARNING, about=about, text=text, hint=hint, role=role))

    def note(self, about: About, text: str, hint: str = "", role: str | None = None) -> None:
        self.add(Remark(level=Level.NOTE, about=about, text=text, hint=hint, role=role))
