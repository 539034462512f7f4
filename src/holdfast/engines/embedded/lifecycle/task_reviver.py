"""Revives ended tasks whose files still exist, so that sessions are possible. Blocking: runs in a thread.

A new sandbox is mounted over the task's files, with a command that only waits. Its own files (claim, start note) are in
the folder `revived` within the task's, so the task's record stays unchanged; a later server finds it by that folder.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from holdfast.core.errors import sanitize_output
from holdfast.core.job import GIB, HOST_IMAGE, MIB, Resources
from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused, LaunchSpec
from holdfast.engines.start_refusal import StartRefused

from .. import cgroups
from ..folder_content import StartNote
from ..metrics.process_metrics import read_process_stat
from ..processes import list_children, open_namespace_init_pidfd
from ..sandbox.bubblewrap import is_link_to
from ..sandbox.render import Bind, Overlay, SandboxRoot
from ..sandbox.spawning import spawn_runner
from ..task_folder import TaskFolder, is_safe_id, try_lock
from ..tree_removal import remove_tree
from . import killing
from .live_tasks import get_sandbox_pids
from .task_folders import REVIVED_FOLDER
from .task_starter import TaskStarter

IDLE_SCRIPT = """trap 'exit 0' TERM INT HUP
while :; do kill -STOP "$$"; done
"""
_MAX_RESOURCES = Resources(cpu=1.0, memory=2 * GIB)
_MIN_MEMORY = 256 * MIB  # bytes; for a shell and common tools
_SETUP_TIMEOUT = 30.0  # seconds
_END_TIMEOUT = 10.0  # seconds for its last processes to exit
_POLL_INTERVAL = 0.005  # seconds
_REDIRECT_XATTRS = ("trusted.overlay.redirect", "user.overlay.redirect")


def get_revived_folder(folder: TaskFolder) -> TaskFolder:
    return replace(folder, path=folder[REVIVED_FOLDER])


@dataclass(eq=False)
class TaskReviver(TaskStarter):
    # By attempt: it must have ended before it is revived again.
    _locks: dict[str, threading.Lock] = field(default_factory=dict, init=False)
    _runners: dict[str, int] = field(default_factory=dict, init=False)  # our child processes

    def _get_or_create_lock(self, attempt_id: str) -> threading.Lock:
        return self._locks.setdefault(attempt_id, threading.Lock())

    def revive_task(self, launch: LaunchSpec) -> None:
        """Revive it. ExecRefused if that fails, or the task still runs. Idempotent."""
        with self._get_or_create_lock(launch.attempt_id):
            self._revive_locked_task(launch)

    def _revive_locked_task(self, launch: LaunchSpec) -> None:
        folder = self.folders.get_folder(launch.attempt_id)
        note = folder.read_start_note() if is_safe_id(launch.attempt_id) else None
        if note is None or launch.attempt_id not in self.folders.list_attempt_ids():
            raise ExecRefused(msg("The task's files were deleted."))
        if folder.is_alive():
            raise ExecRefused(msg("The task is still stopping. Try again in a few seconds."))
        revived = get_revived_folder(folder)
        with suppress(FileExistsError):
            os.mkdir(revived.path, 0o700)
        claim = revived.open_claim()
        try:
            if try_lock(claim):
                self._delete_earlier_revival(launch.attempt_id, revived, claim)
                self._start_revived_task(replace(launch, entry=IDLE_SCRIPT, hold=False, gpus=()), note, folder, claim)
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal
        except OSError as error:
            raise ExecRefused(
                msg("Cannot open a shell to access the task's files: {error}.", error=error.strerror or error)
            ) from error
        finally:
            os.close(claim)
        _wait_until_started(revived)

    def _delete_earlier_revival(self, attempt_id: str, revived: TaskFolder, claim: int) -> None:
        self._reap_runner(attempt_id)
        old = revived.read_start_note()
        if old is not None:
            cgroups.remove_cgroup(old.cgroups)
        for name in os.listdir(revived.path):
            if name != "claim":
                remove_tree(revived[name])
        os.ftruncate(claim, 0)

    def _start_revived_task(self, launch: LaunchSpec, note: StartNote, folder: TaskFolder, claim: int) -> None:
        revived = get_revived_folder(folder)
        root = self._add_library(self._rebuild_root(launch, note, folder))  # its folders were created at its start
        groups = self._create_cgroups(
            f"{self.folders.get_machine_wide_name(launch.attempt_id)}~{REVIVED_FOLDER}", limit_resources(launch)
        )
        try:
            with ExitStack() as opened:
                order = self._make_runner_spec(
                    replace(launch, resources=limit_resources(launch)), folder, root, groups, opened
                )
                _check_mount_targets(order.args, folder, root)
                revived.write_start_note(replace(self._make_start_note(launch, root, groups), scratch=0))
                self._runners[launch.attempt_id] = spawn_runner(revived, claim, order)
        except BaseException:
            cgroups.remove_cgroup(groups)
            raise

    def _rebuild_root(self, launch: LaunchSpec, note: StartNote, folder: TaskFolder) -> SandboxRoot:
        """Build the task's root on the same image files, even if the image's name now means another image."""
        if note.replaces_image:
            launch = replace(launch, image=HOST_IMAGE)
        root = self._make_root(launch, folder)
        if root.replaces_image and not note.replaces_image:
            raise ExecRefused(msg("The task's image {image} no longer exists.", image=repr(launch.image)))
        if root.env is not None:
            root = replace(root, task_user=note.user, user=note.user.name if note.user else "root")
        if root.env is None or not note.lower_folders or note.lower_folders[0] == root.lower:
            return root
        return _replace_lower(root, note.lower_folders[0])

    def list_revived_tasks(self) -> list[str]:
        """Return the revived attempts, by us or by an earlier server."""
        return [
            name for name in self.folders.list_attempt_ids() if self.folders.get_folder(name).has_file(REVIVED_FOLDER)
        ]

    # --- ending ---------------------------------------------------------------------------------------------------

    def end_task(self, attempt_id: str) -> None:
        """End it, whichever server started it. Returns when all processes have exited. Idempotent."""
        with self._get_or_create_lock(attempt_id):
            self._end_locked_task(attempt_id)

    def _end_locked_task(self, attempt_id: str) -> None:
        revived = get_revived_folder(self.folders.get_folder(attempt_id))
        note = revived.read_start_note() if is_safe_id(attempt_id) else None
        if note is None:
            return
        claim = revived.read_claim()
        until = time.monotonic() + _END_TIMEOUT
        while revived.is_alive() and time.monotonic() < until:
            found = get_sandbox_pids(revived.read_claim())
            handle = open_namespace_init_pidfd(*found) if found is not None else None
            target = killing.KillTarget(self.folders.get_machine_wide_name(attempt_id), revived, note, claim.pid or 0)
            killing.kill_task(target)
            if handle is not None:
                select.select([handle], [], [], max(0.0, until - time.monotonic()))
                os.close(handle)
            time.sleep(_POLL_INTERVAL)
        self._reap_runner(attempt_id)
        cgroups.remove_cgroup(note.cgroups)

    def _reap_runner(self, attempt_id: str) -> None:
        """Reap the runner. Two threads may call it at a time."""
        runner = self._runners.get(attempt_id, 0)
        lives = False
        with suppress(ChildProcessError):
            lives = bool(runner) and os.waitpid(runner, os.WNOHANG)[0] == 0
        if not lives:
            self._runners.pop(attempt_id, None)


def limit_resources(launch: LaunchSpec) -> Resources:
    """Limit it to at most the task's resources, since its usage counts for no quota."""
    asked = launch.resources
    memory = min(max(asked.memory, _MIN_MEMORY), _MAX_RESOURCES.memory)
    return Resources(cpu=min(asked.cpu, _MAX_RESOURCES.cpu), memory=memory, shm=asked.shm)


def _replace_lower(root: SandboxRoot, lower: str) -> SandboxRoot:
    """Return the same root, on another folder of the image's unchanged files."""
    if not os.path.isdir(lower):
        raise ExecRefused(msg("The task's image no longer exists."))

    def replace_path(path: str) -> str:
        return lower if path == root.lower else path

    def replace_in_overlay(old: Overlay) -> Overlay:
        return replace(old, lowers=tuple(map(replace_path, old.lowers)))

    def replace_in_bind(old: Bind) -> Bind:
        return replace(old, source=replace_path(old.source))

    return replace(
        root,
        overlays=tuple(map(replace_in_overlay, root.overlays)),
        binds=tuple(map(replace_in_bind, root.binds)),
        lower=lower,
        lower_folders=tuple(map(replace_path, root.lower_folders)),
    )


def _wait_until_started(revived: TaskFolder) -> None:
    """Wait until it has started, by us or by a concurrent caller."""
    until = time.monotonic() + _SETUP_TIMEOUT
    while revived.is_alive() and time.monotonic() < until:
        claim, note = revived.read_claim(), revived.read_start_note()
        first = claim.pid if note is not None and not note.sandbox else claim.init_pid
        if note is not None and first is not None and claim.code is None and any(map(_is_idle, list_children(first))):
            return
        time.sleep(_POLL_INTERVAL)
    output = sanitize_output(revived.read_head("stderr", 500))
    raise ExecRefused(
        msg(
            "Cannot open a shell to access the task's files: {detail}",
            detail=output or msg("the sandbox does not start"),
        )
    )


def _is_idle(pid: int) -> bool:
    """Return whether it stopped itself as the idle script does: then it is in its working folder."""
    stat = read_process_stat(pid)
    return stat is not None and stat.is_stopped


# --- paths that the task may have replaced ----------------------------------------------------------------------------


def _check_mount_targets(args: Sequence[str], folder: TaskFolder, root: SandboxRoot) -> None:
    """Reject mount targets behind a link of the task. Bubblewrap follows links, even out of the sandbox, and the task
    could change all of these folders. ExecRefused if there is one."""
    layers = [(overlay.target, overlay.upper) for overlay in root.overlays if overlay.upper]
    layers += [(bind.target, bind.source) for bind in root.binds if not bind.read_only]
    own = [(target, source) for target, source in layers if source.startswith(f"{folder.path}/")]
    for path in sorted(set(_find_absolute_paths(args)) - _find_expected_links(own, root)):
        for target, source in own:
            rest = os.path.relpath(path, target)
            if not rest.startswith("..") and _is_redirected(source, rest.split("/")):
                raise ExecRefused(
                    msg(
                        "Cannot open a shell to access the task's files: the task replaced a part of {path} "
                        "with a link.",
                        path=path,
                    )
                )


def _find_expected_links(own: Sequence[tuple[str, str]], root: SandboxRoot) -> set[str]:
    """Return the links that bubblewrap itself created at the first start."""
    places = [source for target, source in own if target == "/"]
    return {name for target, name in root.links for place in places if is_link_to(f"{place}{name}", target)}


def _find_absolute_paths(args: Sequence[str]) -> Iterable[str]:
    """Return the paths in the arguments; some are the machine's, which is harmless."""
    words = iter(args)
    found = set()
    for word in words:
        if word == "--setenv":
            next(words)
            next(words)
        elif word.startswith("/"):
            found.add(os.path.normpath(word))
    return found


def _is_redirected(layer: str, parts: Sequence[str]) -> bool:
    """Return whether the task redirected the path. A missing part is in the lower layers, which no task changes."""
    place = layer
    for part in parts:
        if part == ".":
            continue
        place = f"{place}/{part}"
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            return True
        if not stat.S_ISDIR(mode):
            return False
        if any(_has_xattr(place, name) for name in _REDIRECT_XATTRS):  # a folder that was moved here
            return True
    return False


def _has_xattr(path: str, name: str) -> bool:
    try:
        os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return False
    return True
