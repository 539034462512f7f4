"""Problems of the installation: what is wrong, what to do, and whether tasks can start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ConditionKind(StrEnum):
    SANDBOX = "sandbox"  # tasks cannot be isolated as they must be
    ENGINE = "engine"  # the daemon that runs the tasks does not respond
    DATABASE = "database"  # it does not respond, or changes cannot be saved
    DISK_FULL = "disk-full"  # the reserve is reached: nothing new is written for jobs
    DISK_LOW = "disk-low"  # it will be reached soon
    FILES_DISK_FULL = "files-disk-full"  # the disk for shared files: uploads and artifacts are rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    kind: ConditionKind
    message: str  # one or two sentences, visible to all users: no paths, no names of users or jobs
    hint: str = ""  # what an admin can do; visible to all users
    detail: str = ""  # the error itself, visible to admins only
    blocks_starts: bool = False  # no task starts while it lasts; jobs stay Pending
    warning: bool = False  # everything still works
    engine: str = ""  # whose problem it is, if there are several engines


def list_blocking_conditions(conditions: Iterable[Condition]) -> list[Condition]:
    return [condition for condition in conditions if condition.blocks_starts]
