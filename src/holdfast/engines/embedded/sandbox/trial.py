"""Runs an empty task in a sandbox to see whether that sandbox works here. Blocking.

The trial's own files lie in memory where that is possible, so that a job which fills the disk cannot make it fail. A
failure is temporary when it says nothing about what the kernel can do: a full disk, too many open files, no time.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.job import Resources
from holdfast.core.messages import msg
from holdfast.engines.base import Launch

from ..task_folder import TaskFolder
from ..temporary_errors import TEMPORARY_ERRORS
from ..tree_removal import remove_tree
from . import roots
from .bubblewrap import Bwrap
from .render import Guard, Root, render_args, render_command, task_env
from .spawning import Order, spawn

TRIAL_TIMEOUT = 30.0  # seconds
_POLL_INTERVAL = 0.001  # seconds
_PREFIX = "holdfast-trial-"
_MEMORY = ("/dev/shm", "/run")
_LEFTOVER_AGE = 3600.0  # seconds after which a folder was left by a server that died
_SHM_SIZE = 1 << 20

_TEMPORARY_TEXTS = tuple(os.strerror(number) for number in TEMPORARY_ERRORS)
_NAMESPACE_LIMIT = msg("max_*_namespaces exceeded")  # how bubblewrap words an ENOSPC of clone or unshare
_NAMESPACE_LIMITS = Path("/proc/sys/user")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sandbox did not come up."""

    reason: str  # of the program or the system, for admins
    temporary: bool

    @property
    def summary(self) -> str:
        """The last words of it, which name no path."""
        return self.reason.splitlines()[-1].rpartition(": ")[2].strip(". ")

    @classmethod
    def from_error(cls, error: OSError) -> Failure:
        return cls(str(error), error.errno in TEMPORARY_ERRORS)

    @classmethod
    def from_output(cls, text: str) -> Failure:
        if _NAMESPACE_LIMIT in text:
            return cls(text, not _namespaces_disabled())
        return cls(text, any(known in text for known in _TEMPORARY_TEXTS))


class TemporaryFailure(Exception):
    """Whether a sandbox is possible cannot be found out now."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def _namespaces_disabled() -> bool:
    """An admin set a limit of 0: the same error as for a limit that is used up."""
    for path in _NAMESPACE_LIMITS.glob("max_*_namespaces"):
        with suppress(OSError, ValueError):
            if int(path.read_text()) == 0:
                return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What of a site a trial needs."""

    bwrap: Bwrap | None
    guard: Guard
    seccomp: bytes


MakeRoot = Callable[[TaskFolder], Root]


def run_trial(sandbox: Sandbox, make_root: MakeRoot, base: Path) -> Failure | None:
    """None when an empty task ran in this sandbox, with its folder below `base`."""
    folder = TaskFolder(f"{base}/trial-{os.getpid()}/task")  # as deep as real ones
    try:
        remove_tree(os.path.dirname(folder.path))
        os.makedirs(folder.path, 0o700)
        return _run(sandbox, make_root(folder), folder, base)
    except OSError as error:
        return Failure.from_error(error)
    finally:
        with suppress(OSError):
            remove_tree(os.path.dirname(folder.path))


@contextmanager
def memory_folder(home: Path) -> Iterator[Path]:
    """A private folder in memory that no job can fill; `home` where there is none."""
    for place in _MEMORY:
        _remove_leftovers(Path(place))
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            break
    else:
        yield home
        return
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove_tree(str(folder))


def _remove_leftovers(place: Path) -> None:
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _LEFTOVER_AGE:
                remove_tree(str(left))


def _run(sandbox: Sandbox, root: Root, folder: TaskFolder, base: Path) -> Failure | None:
    """Start an empty task exactly as real ones are started."""
    launch = Launch(
        attempt_id="trial", job_id="trial", task="trial", user="", group="", image="host",
        script="", shell_options=(), env={}, resources=Resources(),
    )  # fmt: skip
    claim = folder.open_claim()
    try:
        roots.make_folders(folder, root)
        args = render_args(launch, root, sandbox.guard, task_env(launch, root, "/", {}), _SHM_SIZE, ())
        command = render_command(root, ())
        order = Order(
            bwrap=sandbox.bwrap,
            base=str(base),
            args=args,
            command=command,
            script="exit 0\n",
            seccomp=sandbox.seccomp,
        )
        pid = spawn(folder, claim, order)
    finally:
        os.close(claim)
    return _wait(pid, folder)


def _wait(pid: int, folder: TaskFolder) -> Failure | None:
    end = time.monotonic() + TRIAL_TIMEOUT
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)  # it leads a session of its own
            os.waitpid(pid, 0)
            return Failure(msg("a sandbox does not start in time"), temporary=True)
        time.sleep(_POLL_INTERVAL)
    claim = folder.read_claim()
    if claim.command_code == 0:
        return None
    said = folder.read_head("stderr", 1000).decode(errors="replace").strip()
    if said:
        return Failure.from_output(said)
    return Failure(msg("a sandbox does not start"), temporary=claim.code is None or claim.code > 128)
