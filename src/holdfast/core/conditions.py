"""Problems of the installation itself: what is wrong now, what to do, and whether tasks may start meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ConditionKind(StrEnum):
    SANDBOX = "sandbox"  # tasks cannot be isolated as they must be
    DATABASE = "database"  # it does not answer, or changes cannot be saved
    DISK_FULL = "disk-full"  # the reserve is reached: nothing new is written for jobs
    DISK_LOW = "disk-low"  # it will be reached soon
    FILES_DISK_FULL = "files-disk-full"  # another disk, of the groups' files: uploads and artifacts are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    kind: ConditionKind
    message: str  # one or two sentences, for anyone to read: no paths, no names of users or jobs
    hint: str = ""  # what an admin does about it; for anyone to read, too
    detail: str = ""  # the error itself, for admins alone
    blocks_starts: bool = False  # no task starts while it lasts; jobs stay Pending
    warning: bool = False  # everything still works


def find_blocking(conditions: Iterable[Condition]) -> list[Condition]:
    return [condition for condition in conditions if condition.blocks_starts]
