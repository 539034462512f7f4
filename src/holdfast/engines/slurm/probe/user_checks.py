"""Checks for tasks that run as other Unix users than the server. Blocking: run in a thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg

from ..users.file_access import check_file_access


def check_users(home: Path, config: Mapping[str, str]) -> list[Condition]:
    """Return what is missing. `config`: of Slurm, empty if not known."""
    is_root = os.geteuid() == 0
    found = [_check_program("setpriv" if is_root else "sudo"), _check_access(home, is_root)]
    if not is_root and "jobs" in config.get("PrivateData", "").split(","):
        found.append(
            _make_condition(
                msg("Slurm hides the jobs of users from the server: PrivateData contains `jobs`."),
                msg("Run the server as root or SlurmUser, or make its user an operator in Slurm's accounting."),
            )
        )
    return [condition for condition in found if condition is not None]


def _check_program(name: str) -> Condition | None:
    if shutil.which(name):
        return None
    message = msg("Tasks cannot run as the Unix users of their owners: {name} is missing.", name=name)
    return _make_condition(message, msg("Install {name}, or set `slurm.run_as` to `service`.", name=name))


def _check_access(home: Path, is_root: bool) -> Condition | None:
    problem = check_file_access(str(home))
    if not problem:
        return None
    if is_root:
        return _make_condition(problem, msg("Export it with no_root_squash, or run the server as another user."))
    return _make_condition(problem, msg("Use a file system with access control lists, or run the server as root."))


def _make_condition(message: str, hint: str) -> Condition:
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, blocks_starts=True)
