"""Checks of the server's machine: the commands, their version, the shared folder. Blocking: run in a thread."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
_MIN_VERSION = (20, 11)  # the first with `srun --overlap`
_TASK_FOLDERS = ("tasks", "logs", "trash")  # of every installation


def check_setup(home: Path, path: str, config: Mapping[str, str]) -> list[Condition]:
    """Return what is missing. `path`: where the commands are looked up; `config`: of Slurm, empty if not known."""
    checks = (_check_commands(path), _check_version(config.get("SLURM_VERSION", "")), check_folder(home))
    return [condition for condition in checks if condition is not None]


def list_missing_commands(path: str) -> list[str]:
    return [name for name in COMMANDS if shutil.which(name, path=path) is None]


def _check_commands(path: str) -> Condition | None:
    missing = list_missing_commands(path)
    if not missing:
        return None
    return Condition(
        kind=ConditionKind.ENGINE,
        message=msg("Commands of Slurm are missing on the server's machine: {names}.", names=", ".join(missing)),
        hint=msg("Install Slurm's client programs, such as the package slurm-client, and check the server's PATH."),
        blocks_starts=True,
    )


def _check_version(version: str) -> Condition | None:
    found = re.match(r"([0-9]+)\.([0-9]+)", version)
    if found is None or (int(found[1]), int(found[2])) >= _MIN_VERSION:
        return None
    return Condition(
        kind=ConditionKind.ENGINE,
        message=msg("Sessions do not work with Slurm {version}.", version=version),
        hint=msg("Use Slurm 20.11 or newer."),
        warning=True,
    )


def check_folder(home: Path) -> Condition | None:
    """Return why the engine's folder cannot be used, if so."""
    outer = next((parent for parent in home.parents if all((parent / name).is_dir() for name in _TASK_FOLDERS)), None)
    if outer is not None:
        return _make_folder_condition(
            msg("The shared folder is inside the folder of another installation."),
            msg("Set `slurm.folder` to a folder that is not inside another one's."),
            str(outer),
        )
    draft = home / f"check.{os.urandom(4).hex()}"
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        draft.unlink()
    except OSError as error:
        return _make_folder_condition(
            msg("The server cannot write to the shared folder: {why}.", why=error.strerror or str(error)),
            msg("Check that `slurm.folder` is mounted, has free space, and belongs to the server's user."),
            str(home),
        )
    return None


def _make_folder_condition(message: str, hint: str, detail: str) -> Condition:
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, detail=detail, blocks_starts=True)
