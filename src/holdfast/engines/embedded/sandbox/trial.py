"""Runs an empty task in a sandbox to check whether that sandbox works. Blocking.

The trial's own files are in memory if possible, so that a job which fills the disk cannot make it fail. A failure is
temporary if it does not depend on the kernel's features: a full disk, too many open files, a timeout.
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
from holdfast.engines.base import LaunchSpec
from holdfast.engines.sandbox_paths import NOTES_PATH
from holdfast.engines.task_program import make_command, make_command_files, make_task_env

from ..descriptors import closing_fd
from ..task_folder import TaskFolder
from ..temporary_errors import TEMPORARY_ERRORS
from ..tree_removal import remove_tree
from . import roots
from .bubblewrap import Bwrap
from .render import SandboxGuard, SandboxRoot, render_bwrap_args
from .spawning import RunnerSpec, spawn_runner

TRIAL_TIMEOUT = 30.0  # seconds
_POLL_INTERVAL = 0.001  # seconds
_TRIAL_PREFIX = "holdfast-trial-"
_MEMORY_FOLDERS = ("/dev/shm", "/run")
_MIN_LEFTOVER_AGE = 3600.0  # seconds after which a folder counts as left by a server that died
_SHM_SIZE = 1 << 20  # bytes

_TEMPORARY_ERROR_TEXTS = tuple(os.strerror(number) for number in TEMPORARY_ERRORS)
_NAMESPACE_LIMIT_TEXT = msg("max_*_namespaces exceeded")  # bubblewrap's text for an ENOSPC of clone or unshare
_NAMESPACE_LIMITS_FOLDER = Path("/proc/sys/user")


@dataclass(frozen=True, slots=True)
class SandboxFailure:
    """Why a sandbox did not start."""

    reason: str  # of the program or the system, for admins
    temporary: bool

    @property
    def summary(self) -> str:
        """The last part of the reason, without paths."""
        return self.reason.splitlines()[-1].rpartition(": ")[2].strip(". ")

    @classmethod
    def from_error(cls, error: OSError) -> SandboxFailure:
        return cls(str(error), error.errno in TEMPORARY_ERRORS)

    @classmethod
    def from_output(cls, text: str) -> SandboxFailure:
        if _NAMESPACE_LIMIT_TEXT in text:
            return cls(text, not _are_namespaces_disabled())
        return cls(text, any(known in text for known in _TEMPORARY_ERROR_TEXTS))


class TemporaryFailure(Exception):
    """Whether a sandbox is possible is unknown now."""

    def __init__(self, failure: SandboxFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def _are_namespaces_disabled() -> bool:
    """Return whether an admin set a limit to 0: the same error as for an exhausted limit."""
    for path in _NAMESPACE_LIMITS_FOLDER.glob("max_*_namespaces"):
        with suppress(OSError, ValueError):
            if int(path.read_text()) == 0:
                return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSandbox:
    """The parts of a site that a trial needs."""

    bwrap: Bwrap | None
    guard: SandboxGuard
    seccomp: bytes


RootFactory = Callable[[TaskFolder], SandboxRoot]


def run_trial(sandbox: TrialSandbox, make_root: RootFactory, base: Path) -> SandboxFailure | None:
    """Run an empty task in this sandbox, with its folder below `base`; return None if it succeeds."""
    folder = TaskFolder(f"{base}/trial-{os.getpid()}/task")  # as deep as real ones
    try:
        remove_tree(os.path.dirname(folder.path))
        os.makedirs(folder.path, 0o700)
        return _run_empty_task(sandbox, make_root(folder), folder, base)
    except OSError as error:
        return SandboxFailure.from_error(error)
    finally:
        with suppress(OSError):
            remove_tree(os.path.dirname(folder.path))


@contextmanager
def open_memory_folder(home: Path) -> Iterator[Path]:
    """Yield a private folder in memory that no job can fill; `home` if there is none."""
    for place in _MEMORY_FOLDERS:
        _delete_leftovers(Path(place))
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=_TRIAL_PREFIX, dir=place))
            break
    else:
        yield home
        return
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove_tree(str(folder))


def _delete_leftovers(place: Path) -> None:
    for left in place.glob(f"{_TRIAL_PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _MIN_LEFTOVER_AGE:
                remove_tree(str(left))


def _run_empty_task(sandbox: TrialSandbox, root: SandboxRoot, folder: TaskFolder, base: Path) -> SandboxFailure | None:
    """Start an empty task exactly like real ones."""
    launch = LaunchSpec(
        attempt_id="trial", job_id="trial", task="trial", user="", group="", image="host",
        script="exit 0\n", shell_options=(), env={}, resources=Resources(),
    )  # fmt: skip
    with closing_fd(folder.open_claim()) as claim:
        roots.create_root_folders(folder, root)
        env = make_task_env(launch, home="/", gpus={}, notes=NOTES_PATH, image_env=root.env, shell=root.shell)
        files = make_command_files(launch)
        order = RunnerSpec(
            bwrap=sandbox.bwrap,
            base=str(base),
            args=render_bwrap_args(launch, root, sandbox.guard, files, env, _SHM_SIZE, ()),
            command=make_command(launch, root.shell),
            files=files,
            seccomp=sandbox.seccomp,
        )
        pid = spawn_runner(folder, claim, order)
    return _wait_for_trial(pid, folder)


def _wait_for_trial(pid: int, folder: TaskFolder) -> SandboxFailure | None:
    end = time.monotonic() + TRIAL_TIMEOUT
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)  # it leads its own session
            os.waitpid(pid, 0)
            return SandboxFailure(msg("a sandbox does not start before the timeout"), temporary=True)
        time.sleep(_POLL_INTERVAL)
    claim = folder.read_claim()
    if claim.command_code == 0:
        return None
    output = folder.read_head("stderr", 1000).decode(errors="replace").strip()
    if output:
        return SandboxFailure.from_output(output)
    return SandboxFailure(msg("a sandbox does not start"), temporary=claim.code is None or claim.code > 128)
