"""The folder of one simulation. It is locked while its simulation lives; one that is not was left by a killed one."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from holdfast.core.errors import UserError
from holdfast.engines.embedded.tree_removal import remove_tree

FOLDER = "simulations"
_TRIES = 20  # others may remove the folder of all simulations just when one is to be made in it
_STAGE = "stage"  # a file: what ran its tasks


class SimulationHome:
    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @property
    def stage(self) -> str:
        with suppress(OSError):
            return (self.path / _STAGE).read_text()
        return ""

    def remember(self, stage: str) -> None:
        """For whoever has to clean up."""
        (self.path / _STAGE).write_text(stage)

    def remove(self) -> None:
        remove_tree(str(self.path))
        self._lock.close()


@contextmanager
def new_home(state: Path) -> Iterator[SimulationHome]:
    """Below the state folder, for there images lie and sandboxes work; nothing of it is left afterwards."""
    existed = state.exists()
    try:
        home = _make(state)
    except OSError as error:
        raise UserError(
            f"Cannot make a folder for the simulation in {state}: {error.strerror}",
            hint="Choose another state folder with HOLDFAST_HOME.",
        ) from None
    try:
        yield home
    finally:
        home.remove()
        with suppress(OSError):
            (state / FOLDER).rmdir()
            if not existed:
                state.rmdir()


def left_homes(state: Path) -> Iterator[SimulationHome]:
    """Of simulations that were killed; whoever takes one has it locked."""
    folder, locked = state / FOLDER, []
    with suppress(OSError), _held(folder):
        locked = [home for path in sorted(folder.iterdir()) if (home := _try(path)) is not None]
    yield from locked


def _make(state: Path) -> SimulationHome:
    folder = state / FOLDER
    for last in (number == _TRIES for number in range(1, _TRIES + 1)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _held(folder):
                path = folder / secrets.token_hex(4)
                path.mkdir(mode=0o700)
                home = _try(path)
        except FileNotFoundError:
            if last:
                raise
            continue
        if home is not None:
            return home
    raise UserError(f"Cannot lock a folder in {folder}", hint="Choose another state folder with HOLDFAST_HOME.")


def _try(path: Path) -> SimulationHome | None:
    try:
        lock = open(path / "lock", "a")  # noqa: SIM115 - held as long as the home is
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return SimulationHome(path, lock)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """So that nobody takes a home that is just being made for one that was left."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
