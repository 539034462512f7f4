"""Checks for tasks that run as other Unix users than the server. Blocking: run in a thread."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg

from ..users.file_access import check_file_access
from ..users.user_commands import SUDO_COMMANDS

_SUDO_TIMEOUT = 10.0  # seconds


def check_users(home: Path, config: Mapping[str, str], path: str, users: Mapping[str, int]) -> list[Condition]:
    """Return what is missing. `config`: of Slurm, empty if not known; `path`: of commands; `users`: the
    uids of users whose tasks have run, by name."""
    is_root = os.geteuid() == 0
    found = [_check_program("setpriv" if is_root else "sudo"), _check_access(home, is_root), _check_changed(users)]
    if not is_root and shutil.which("sudo"):
        found.append(_check_rule(path) or _check_members(path, users))
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


def _check_changed(users: Mapping[str, int]) -> Condition | None:
    names = [name for name, uid in users.items() if _find_uid(name) != uid]
    if not names:
        return None
    message = msg("These Unix users were deleted or have other uids now: {names}.", names=", ".join(names))
    hint = msg("Restore them if their tasks still run. Until then, these tasks do not support sessions.")
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, warning=True)


def _find_uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _check_rule(path: str) -> Condition | None:
    """Look for the commands in what sudo allows. Whom they can run as, only sudo knows."""
    allowed = _run_sudo("-l")
    missing = [name for name in SUDO_COMMANDS if (shutil.which(name, path=path) or name) not in allowed]
    if not missing:
        return None
    message = msg("sudo does not let the server run these commands as other users: {names}.", names=", ".join(missing))
    return _make_condition(message, msg("Install the rule for sudo, or set `slurm.run_as` to `service`."))


def _check_members(path: str, users: Mapping[str, int]) -> Condition | None:
    command = shutil.which("sbatch", path=path) or "sbatch"
    names = [name for name, uid in users.items() if _find_uid(name) == uid and not _run_sudo("-l", "-u", name, command)]
    if not names:
        return None
    message = msg("sudo does not let the server run commands as these Unix users: {names}.", names=", ".join(names))
    hint = msg("Add them to the group of the rule for sudo.")
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, warning=True)


def _run_sudo(*arguments: str) -> str:
    """Return what it prints; empty if it fails, as it does for what is not allowed."""
    try:
        done = subprocess.run(
            ["sudo", "-n", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SUDO_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _check_access(home: Path, is_root: bool) -> Condition | None:
    problem = check_file_access(str(home))
    if not problem:
        return None
    if is_root:
        return _make_condition(problem, msg("Export it with no_root_squash, or run the server as another user."))
    return _make_condition(problem, msg("Use a file system with access control lists, or run the server as root."))


def _make_condition(message: str, hint: str) -> Condition:
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, blocks_starts=True)
