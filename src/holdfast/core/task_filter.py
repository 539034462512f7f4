"""Filter of a job's tasks. Stores apply the same filter in their database."""

from __future__ import annotations

from dataclasses import dataclass

from .attempt import TaskAttempt
from .exits.exit import ExitKind
from .states import TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Filters combined with AND; None, or an empty text: any."""

    role: str | None = None
    state: TaskState | None = None
    kind: ExitKind | None = None
    code: int | None = None  # exit code
    node: str | None = None  # or the host on it
    text: str = ""  # part of its name, such as worker-1, or of its node's name

    def matches(self, task: TaskAttempt) -> bool:
        exit = task.exit
        return (
            self.role in (None, task.role)
            and self.state in (None, task.state)
            and (self.kind is None or (exit is not None and exit.kind is self.kind))
            and (self.code is None or (exit is not None and exit.code == self.code))
            and self.node in (None, task.node, task.host or None)
            and self.text.lower() in f"{task.task} {task.node or ''} {task.host}".lower()
        )

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self != TaskFilter()
