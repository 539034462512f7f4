"""Finds the task of a process. Blocking."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.core.attempt_id import AttemptId
from holdfast.core.messages import msg

from ..processes import COOKIE_VARIABLE, read_process_variable
from ..task_folder import TaskFolder
from .live_tasks import get_sandbox_pids
from .task_folders import REVIVED_FOLDER, TaskFolders


def find_attempt_id_of_process(home: Path, pid: int) -> str | None:
    """Return the attempt id of the process's task in this state folder; None if there is none."""
    places = TaskFolders(home)
    try:
        namespace, names = os.stat(f"/proc/{pid}/ns/pid").st_ino, places.list_attempt_ids()
    except OSError:
        return None
    cookie = read_process_variable(pid, COOKIE_VARIABLE)  # of a task without a PID namespace
    for name in names:
        if cookie == places.get_machine_wide_name(name) or namespace in _read_pid_namespaces(places.get_folder(name)):
            return name
    return None


def describe_task_of_process(home: Path, pid: int) -> str | None:
    """Return text such as `task main-0 of job 7`."""
    try:
        found = AttemptId.parse(find_attempt_id_of_process(home, pid) or "")
    except ValueError:
        return None
    return msg("task {task} of job {job_id}", task=found.task, job_id=found.job_id)


def _read_pid_namespaces(folder: TaskFolder) -> set[int]:
    found = (get_sandbox_pids(each.read_claim()) for each in (folder, TaskFolder(folder[REVIVED_FOLDER])))
    return {pids[1] for pids in found if pids is not None}
