"""Which task a process belongs to. Blocking."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import msg

from ..processes import COOKIE
from ..task_folder import TaskFolder
from .live_tasks import pids_of
from .places import REVIVED, Places


def find_task_of(home: Path, pid: int) -> str | None:
    """The attempt id of the task of this state folder that the process is in; None where it is in none."""
    places = Places(home)
    try:
        namespace, names = os.stat(f"/proc/{pid}/ns/pid").st_ino, places.tasks()
    except OSError:
        return None
    cookie = _cookie(pid)
    for name in names:
        if cookie == places.machine_name(name) or namespace in _namespaces(places.folder(name)):
            return name
    return None


def describe_task_of(home: Path, pid: int) -> str | None:
    """`task main-0 of job 7`, for messages."""
    try:
        found = AttemptId.parse(find_task_of(home, pid) or "")
    except ValueError:
        return None
    return msg("task {task} of job {job_id}", task=found.task, job_id=found.job_id)


def _namespaces(folder: TaskFolder) -> set[int]:
    found = (pids_of(each.read_claim()) for each in (folder, TaskFolder(folder[REVIVED])))
    return {pids[1] for pids in found if pids is not None}


def _cookie(pid: int) -> str:
    """What marks the processes of a task that has no namespace of its own."""
    with suppress(OSError):
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith(f"{COOKIE}=".encode()):
                return os.fsdecode(word.partition(b"=")[2])
    return ""
