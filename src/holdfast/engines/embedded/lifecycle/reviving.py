"""Ended tasks whose files are still there, made so that they can be entered once more. Blocking: runs in a thread.

A fresh sandbox is laid over what the task left, with a command in it that only stands still. All that is its own
(claim, start note) lies in the folder `revived` within the task's, so what is known of the task stays as it is; and by
that folder a later server finds it.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from holdfast.core.errors import quoted
from holdfast.core.job import GIB, HOST_IMAGE, MIB, Resources
from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused, Launch

from .. import cgroups
from ..folder_content import StartNote
from ..processes import children, open_namespace_init
from ..sandbox.render import Bind, Overlay, Root
from ..sandbox.spawning import spawn
from ..task_folder import TaskFolder, is_safe_id, try_lock
from ..tree_removal import remove_tree
from . import ending
from .live_tasks import pids_of
from .places import REVIVED
from .starting import Refusal, Starter

_ENTRY = """trap 'exit 0' TERM INT HUP
while :; do kill -STOP "$$"; done
"""
_MAX_RESOURCES = Resources(cpu=1.0, memory=2 * GIB)
_MIN_MEMORY = 256 * MIB  # bytes; a shell and what one looks around with
_SET_UP = 30.0  # seconds
_END = 10.0  # seconds its last processes may take to go
_AGAIN = 0.005
_REDIRECTS = ("trusted.overlay.redirect", "user.overlay.redirect")


def revived_of(folder: TaskFolder) -> TaskFolder:
    return TaskFolder(folder[REVIVED])


class Reviver(Starter):
    """Starts them as `Starter` does tasks."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._turns: dict[str, threading.Lock] = {}  # one that is going must have gone before it comes again
        self._runners: dict[str, int] = {}  # those that are our children

    def _turn(self, attempt_id: str) -> threading.Lock:
        return self._turns.setdefault(attempt_id, threading.Lock())

    def revive(self, launch: Launch) -> None:
        """ExecRefused when it cannot be done, or the task still runs. Harmless when it is done."""
        with self._turn(launch.attempt_id):
            self._revive(launch)

    def _revive(self, launch: Launch) -> None:
        folder = self._places.folder(launch.attempt_id)
        note = folder.read_start() if is_safe_id(launch.attempt_id) else None
        if note is None or launch.attempt_id not in self._places.tasks():
            raise ExecRefused(msg("Nothing is left of the task's files."))
        if folder.is_alive():
            raise ExecRefused(msg("The task is still being stopped. Try again in a moment."))
        revived = revived_of(folder)
        with suppress(FileExistsError):
            os.mkdir(revived.path, 0o700)
        claim = revived.open_claim()
        try:
            if try_lock(claim):
                self._clear(launch.attempt_id, revived, claim)
                self._revive_locked(replace(launch, entry=_ENTRY, hold=False, gpus=()), note, folder, claim)
        except Refusal as refusal:
            raise ExecRefused(refusal.message) from refusal
        except OSError as error:
            raise ExecRefused(
                msg("The task's files cannot be entered: {strerror}.", strerror=error.strerror or error)
            ) from error
        finally:
            os.close(claim)
        _wait_until_up(revived)

    def _clear(self, attempt_id: str, revived: TaskFolder, claim: int) -> None:
        """What one that has ended left there."""
        self._bury(attempt_id)
        old = revived.read_start()
        if old is not None:
            cgroups.remove(old.cgroups)
        for name in os.listdir(revived.path):
            if name != "claim":
                remove_tree(revived[name])
        os.ftruncate(claim, 0)

    def _revive_locked(self, launch: Launch, note: StartNote, folder: TaskFolder, claim: int) -> None:
        revived = revived_of(folder)
        root = self._with_library(self._same_root(launch, note, folder))  # its folders were made when it started
        groups = self._make_groups(f"{self._places.machine_name(launch.attempt_id)}~{REVIVED}", _limits(launch))
        try:
            with ExitStack() as opened:
                order = self._order(replace(launch, resources=_limits(launch)), folder, root, groups, opened)
                _check_ways(order.args, folder, root)
                revived.write_start(replace(self._note(launch, root, groups), scratch=0))
                self._runners[launch.attempt_id] = spawn(revived, claim, order)
        except BaseException:
            cgroups.remove(groups)
            raise

    def _same_root(self, launch: Launch, note: StartNote, folder: TaskFolder) -> Root:
        """As the task had it: on the same files of its image, also where another has taken the image's name since."""
        if note.warning:  # its image was not here
            launch = replace(launch, image=HOST_IMAGE)
        root = self._root(launch, folder)
        if root.warning:
            raise ExecRefused(
                msg("The image {image}, which the task ran on, is not here any more.", image=repr(launch.image))
            )
        if root.env is None or not note.stands_on or note.stands_on[0] == root.lower:
            return root
        return _on_files(root, note.stands_on[0])

    def known(self) -> list[str]:
        """Attempts that were revived, by us or by an earlier server."""
        return [name for name in self._places.tasks() if self._places.folder(name).holds(REVIVED)]

    # --- ending ---------------------------------------------------------------------------------------------------

    def end(self, attempt_id: str) -> None:
        """Whoever started it. Returns when all of it has gone. Harmless when there is none."""
        with self._turn(attempt_id):
            self._end(attempt_id)

    def _end(self, attempt_id: str) -> None:
        revived = revived_of(self._places.folder(attempt_id))
        note = revived.read_start() if is_safe_id(attempt_id) else None
        if note is None:
            return
        claim = revived.read_claim()
        until = time.monotonic() + _END
        while revived.is_alive() and time.monotonic() < until:
            found = pids_of(revived.read_claim())
            handle = open_namespace_init(*found) if found is not None else None
            target = ending.Target(self._places.machine_name(attempt_id), revived, note, claim.pid or 0)
            ending.kill(target)
            if handle is not None:
                select.select([handle], [], [], max(0.0, until - time.monotonic()))
                os.close(handle)
            time.sleep(_AGAIN)
        self._bury(attempt_id)
        cgroups.remove(note.cgroups)

    def _bury(self, attempt_id: str) -> None:
        """Two may come at a time."""
        runner = self._runners.get(attempt_id, 0)
        lives = False
        with suppress(ChildProcessError):
            lives = bool(runner) and os.waitpid(runner, os.WNOHANG)[0] == 0
        if not lives:
            self._runners.pop(attempt_id, None)


def _limits(launch: Launch) -> Resources:
    """Nobody counts it: so never more than the task had, and no more than looking around takes."""
    asked = launch.resources
    memory = min(max(asked.memory, _MIN_MEMORY), _MAX_RESOURCES.memory)
    return Resources(cpu=min(asked.cpu, _MAX_RESOURCES.cpu), memory=memory, shm=asked.shm)


def _on_files(root: Root, lower: str) -> Root:
    """The same root, on another folder of the image's unchanged files."""
    if not os.path.isdir(lower):
        raise ExecRefused(msg("The image that the task ran on is not here any more."))

    def moved(path: str) -> str:
        return lower if path == root.lower else path

    def overlay(old: Overlay) -> Overlay:
        return replace(old, lowers=tuple(map(moved, old.lowers)))

    def bind(old: Bind) -> Bind:
        return replace(old, source=moved(old.source))

    return replace(
        root,
        overlays=tuple(map(overlay, root.overlays)),
        binds=tuple(map(bind, root.binds)),
        lower=lower,
        stands_on=tuple(map(moved, root.stands_on)),
    )


def _wait_until_up(revived: TaskFolder) -> None:
    """Whoever starts it: us, or somebody who came a moment before."""
    until = time.monotonic() + _SET_UP
    while revived.is_alive() and time.monotonic() < until:
        claim, note = revived.read_claim(), revived.read_start()
        first = claim.pid if note is not None and not note.sandbox else claim.init_pid
        if note is not None and first is not None and claim.code is None and children(first):
            return
        time.sleep(_AGAIN)
    said = quoted(revived.read_head("stderr", 500))
    raise ExecRefused(msg("The task's files cannot be entered: {said}", said=said or msg("a sandbox does not come up")))


# --- ways that a task may have bent -------------------------------------------------------------------------------


def _check_ways(args: Sequence[str], folder: TaskFolder, root: Root) -> None:
    """Bubblewrap follows links when it lays things in place, out of the sandbox too; and this time the task had its
    hands on all the places. ExecRefused when one of them lies behind a link of the task's."""
    layers = [(overlay.target, overlay.upper) for overlay in root.overlays if overlay.upper]
    layers += [(bind.target, bind.source) for bind in root.binds if not bind.read_only]
    own = [(target, source) for target, source in layers if source.startswith(f"{folder.path}/")]
    for path in sorted(set(_paths(args)) - _links_in_place(own, root)):
        for target, source in own:
            rest = os.path.relpath(path, target)
            if not rest.startswith("..") and _is_bent(source, rest.split("/")):
                raise ExecRefused(
                    msg("The task's files cannot be entered: it has put a link in the way of {path}.", path=path)
                )


def _links_in_place(own: Sequence[tuple[str, str]], root: Root) -> set[str]:
    """Links that bubblewrap itself made the first time, and finds again."""
    places = [source for target, source in own if target == "/"]
    return {name for target, name in root.links for place in places if _leads_to(f"{place}{name}", target)}


def _leads_to(path: str, target: str) -> bool:
    try:
        return os.readlink(path) == target
    except OSError:
        return False


def _paths(args: Sequence[str]) -> Iterable[str]:
    """Of what is laid in place; some are places on the machine, which does no harm."""
    words = iter(args)
    found = set()
    for word in words:
        if word == "--setenv":
            next(words)
            next(words)
        elif word.startswith("/"):
            found.add(os.path.normpath(word))
    return found


def _is_bent(layer: str, parts: Sequence[str]) -> bool:
    """What is missing here lies in the layers below, which no task has changed."""
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
        if any(_has(place, name) for name in _REDIRECTS):  # a folder that was moved here from elsewhere
            return True
    return False


def _has(path: str, name: str) -> bool:
    try:
        os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return False
    return True
