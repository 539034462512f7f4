"""Folder of one simulation. It is locked while the simulation runs; an unlocked one was left by a killed simulation."""

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

from .engine_choice import EngineChoice, parse_choice

SIMULATIONS_FOLDER = "simulations"
STAND_INS_FOLDER = "stand-ins"  # in the folder of a simulation
_MAX_CREATE_ATTEMPTS = 20  # another simulation can remove the parent folder at any time
_ENGINE_FILE = "engine-choice"


class SimulationHome:
    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @property
    def engine(self) -> EngineChoice:
        with suppress(OSError):
            return parse_choice((self.path / _ENGINE_FILE).read_text())
        return EngineChoice()

    def save_engine(self, engine: EngineChoice) -> None:
        """Save the choice for a later cleanup."""
        (self.path / _ENGINE_FILE).write_text(str(engine))

    def remove(self) -> bool:
        """Return False if something remains."""
        removed = remove_tree(str(self.path))
        self._lock.close()
        return removed


@contextmanager
def create_home(state: Path) -> Iterator[SimulationHome]:
    """Create a folder in the state folder, where images are and sandboxes work; it is removed afterwards."""
    existed = state.exists()
    try:
        home = _create_locked_home(state)
    except OSError as error:
        raise UserError(
            f"Cannot create a folder for the simulation in {state}: {error.strerror}",
            hint="Choose another state folder with HOLDFAST_HOME.",
        ) from None
    try:
        yield home
    finally:
        home.remove()
        with suppress(OSError):
            (state / SIMULATIONS_FOLDER).rmdir()
            if not existed:
                state.rmdir()


def iter_leftover_homes(state: Path) -> Iterator[SimulationHome]:
    """Return the folders of killed simulations, locked for the caller."""
    folder, locked = state / SIMULATIONS_FOLDER, []
    with suppress(OSError), _lock_folder(folder):
        locked = [home for path in sorted(folder.iterdir()) if (home := _lock_home(path)) is not None]
    yield from locked


def _create_locked_home(state: Path) -> SimulationHome:
    folder = state / SIMULATIONS_FOLDER
    for last in (number == _MAX_CREATE_ATTEMPTS for number in range(1, _MAX_CREATE_ATTEMPTS + 1)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _lock_folder(folder):
                path = folder / secrets.token_hex(4)
                path.mkdir(mode=0o700)
                home = _lock_home(path)
        except FileNotFoundError:
            if last:
                raise
            continue
        if home is not None:
            return home
    raise UserError(f"Cannot lock a folder in {folder}", hint="Choose another state folder with HOLDFAST_HOME.")


def _lock_home(path: Path) -> SimulationHome | None:
    try:
        lock = open(path / "lock", "a")  # noqa: SIM115 - open as long as the home exists
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return SimulationHome(path, lock)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that a home under construction is not taken for a leftover."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
