"""Limits by control groups, version 2 or 1, wherever we may make them. Blocking: call it from a thread.

All paths hang on what `find_cgroups` is given, so a tree of plain folders serves the tests as well as the kernel's.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.core.job import Resources
from holdfast.core.messages import join_messages, msg

from .mount_table import Mount, parse_mounts
from .sandbox_paths import CGROUP_POINT

logger = logging.getLogger(__name__)

PARENT = "holdfast"
_CONTROLLERS = ("cpu", "memory", "pids")
_ACCOUNTS = "cpuacct"  # of version 1: counts processor time; mostly, but not everywhere, mounted with cpu
_PERIOD = 100_000  # microseconds
_BUSY_TRIES = 200


class GroupsGone(Exception):
    """The folder that groups are made in is no longer there, and there is no other; says which, and why."""


@dataclass(slots=True, kw_only=True)
class Cgroups:
    """Where groups of tasks are made: version 2 has one folder for all, version 1 one for each controller."""

    version: int
    parents: tuple[tuple[str, str], ...]  # (controller, or "" for a folder of version 2; folder)
    search: Callable[[], tuple[Cgroups | None, str]] | None = None  # finds them anew

    @property
    def label(self) -> str:
        return msg("cgroup v{version}", version=self.version)

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(_CONTROLLERS if self.version == 2 else (name for name, _ in self.parents if name))

    def folders(self, name: str) -> tuple[str, ...]:
        return tuple(f"{parent}/{name}" for _, parent in self.parents)

    def make(self, name: str, resources: Resources, pids_max: int) -> tuple[str, ...]:
        """A group with its limits set; answers its folders. Made before: set again.

        Where the folder for them is gone, removed or unmounted, it is looked for anew. GroupsGone if there is none."""
        try:
            return self._make(name, resources, pids_max)
        except FileNotFoundError as error:
            lost = error.filename
        for folder in self.folders(name):  # made before the one that failed
            with suppress(OSError):
                os.rmdir(folder)
        self._find_again(lost)
        try:
            return self._make(name, resources, pids_max)
        except FileNotFoundError as error:
            raise GroupsGone(msg("{filename} does not exist", filename=error.filename)) from error

    def _find_again(self, lost: str) -> None:
        lost = next((parent for _, parent in self.parents if not os.path.isdir(parent)), lost)
        found, why = self.search() if self.search is not None else (None, "")
        if found is None:
            raise GroupsGone(join_messages(": ", filter(None, (msg("{lost} does not exist any more", lost=lost), why))))
        logger.warning("The control group %s is gone; tasks now use %s", lost, found.parents[0][1])
        self.version, self.parents = found.version, found.parents

    def _make(self, name: str, resources: Resources, pids_max: int) -> tuple[str, ...]:
        for controller, parent in self.parents:
            folder = f"{parent}/{name}"
            with suppress(FileExistsError):
                os.mkdir(folder)
            for file, value in _limits(self.version, controller, resources, pids_max):
                write(f"{folder}/{file}", value, optional=file in _OPTIONAL)
        return self.folders(name)

    def shown(self, folders: Iterable[str]) -> list[tuple[str, str]]:
        """Each of a group's folders, and where the group itself finds it: as if there was no other."""
        if self.version == 2:
            return [(folder, CGROUP_POINT) for folder in folders]
        named = zip(self.parents, folders, strict=False)
        return [(folder, f"{CGROUP_POINT}/{controller}") for (controller, _), folder in named if controller]

    def sweep(self, prefix: str, known: Collection[str]) -> None:
        """Remove empty groups whose names begin so and are not among the known: left by a server that died."""
        for _, parent in self.parents:
            with suppress(OSError):
                left = [name for name in os.listdir(parent) if name.startswith(prefix) and name not in known]
                for name in left:
                    with suppress(OSError):
                        os.rmdir(f"{parent}/{name}")


# Absent where swap, or the memory of sockets, is not accounted.
_OPTIONAL = frozenset({"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.kmem.tcp.limit_in_bytes"})


def _limits(version: int, controller: str, resources: Resources, pids_max: int) -> Iterable[tuple[str, str]]:
    quota = max(1000, int(resources.cpu * _PERIOD))
    if version == 2:
        yield "cpu.max", f"{quota} {_PERIOD}"
        yield "memory.max", str(resources.memory)
        yield "memory.swap.max", "0"
        yield "pids.max", str(pids_max)
    elif controller == "cpu":
        yield "cpu.cfs_quota_us", str(quota)
    elif controller == "memory":
        yield "memory.limit_in_bytes", str(resources.memory)
        yield "memory.memsw.limit_in_bytes", str(resources.memory)
        yield "memory.kmem.tcp.limit_in_bytes", str(resources.memory)  # not part of the others in version 1
    elif controller == "pids":
        yield "pids.max", str(pids_max)


def write(path: str, value: str, *, optional: bool = False) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if optional:
            return
        raise
    try:
        os.write(fd, value.encode())
    except OSError:
        if not optional:
            raise
    finally:
        os.close(fd)


def find_own_procs(mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> str | None:
    """The cgroup.procs file of a group that this process is in, if it may write there."""
    try:
        mounted, paths = _mounted(parse_mounts(mounts.read_bytes())), _own_paths(own.read_text())
    except OSError:
        return None
    for controller, (point, root) in mounted.items():
        file = _own_folder(point, root, paths.get(controller, "/")) / "cgroup.procs"
        with suppress(OSError):
            if os.access(file, os.W_OK) and str(os.getpid()) in file.read_text().split():
                return str(file)
    return None


# --- looking at and ending a group, by the folders kept in the task's start note ----------------------------------


def was_out_of_memory(folders: Iterable[str]) -> bool:
    """The kernel killed at least one process of the group for its memory."""
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            if _count(f"{folder}/{file}", "oom_kill") > 0:
                return True
    return False


def _count(path: str, key: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def pids_in(folders: Iterable[str]) -> list[int]:
    """Every process of the group; all folders of a group hold the same."""
    for folder in folders:
        try:
            return [int(pid) for pid in Path(f"{folder}/cgroup.procs").read_text().split()]
        except OSError:
            continue
    return []


def kill(folders: Iterable[str]) -> None:
    """Kill all of a group, also one that forks as fast as it can."""
    folders = tuple(folders)
    for folder in folders:
        if Path(f"{folder}/cgroup.kill").exists():
            with suppress(OSError):
                write(f"{folder}/cgroup.kill", "1")
            return
    for pid in pids_in(folders):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def remove(folders: Iterable[str]) -> bool:
    """Remove a group; False when something in it lives on. The dead may linger there for a moment."""
    done = True
    for folder in folders:
        done = _remove_folder(folder) and done
    return done


def _remove_folder(folder: str) -> bool:
    for attempt in range(_BUSY_TRIES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(0.001 * min(attempt + 1, 20))
        else:
            return True
    return False


# --- finding where groups may be made -----------------------------------------------------------------------------


def find_cgroups(
    mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup"), *, name: str = PARENT
) -> tuple[Cgroups | None, str]:
    """The best place there is for groups below one of that name; or None and why. A hybrid machine has its controllers
    in version 1."""
    try:
        mounted = _mounted(parse_mounts(mounts.read_bytes()))
        paths = _own_paths(own.read_text())
    except OSError as error:
        return None, msg("control groups cannot be read: {error}", error=error)
    reasons = []
    for attempt in (_find_v2, _find_v1):
        try:
            found = attempt(mounted, paths, name)
            found.search = partial(find_cgroups, mounts, own, name=name)
            return found, ""
        except _NoCgroups as no:
            reasons.append(str(no))
    return None, "; ".join(reasons)


class _NoCgroups(Exception):
    """This version cannot be used here, and why."""


def _mounted(mounts: Sequence[Mount]) -> dict[str, tuple[str, str]]:
    """Controller (or "" for version 2) -> (mount point, what of the hierarchy is mounted there).

    The same hierarchy may be mounted elsewhere too, for a chroot or a container: such a mount may go at any time."""
    found: dict[str, tuple[str, str]] = {}
    usual = [mount for mount in mounts if f"{mount.point}/".startswith(f"{CGROUP_POINT}/")]
    for mount in (*usual, *mounts):
        if mount.kind == "cgroup2":
            found.setdefault("", (mount.point, mount.root))
        elif mount.kind == "cgroup":
            for name in mount.options:
                if name in (*_CONTROLLERS, _ACCOUNTS):
                    found.setdefault(name, (mount.point, mount.root))
    return found


def _own_paths(text: str) -> dict[str, str]:
    """Controller (or "" for version 2) -> our own group."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            paths[name] = path
    return paths


def _own_folder(point: str, root: str, path: str) -> Path:
    """Where our own group appears below a mount point. In a container the mount may show only a part."""
    if root != "/" and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    folder = Path(point + path)
    return folder if folder.is_dir() else Path(point)


def _find_v1(mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str) -> Cgroups:
    parents = []
    for controller in _CONTROLLERS:
        if controller not in mounted:
            continue
        point, root = mounted[controller]
        own = _own_folder(point, root, paths.get(controller, "/"))
        parents.append((controller, str(_child(own, name))))
    if not any(controller == "memory" for controller, _ in parents):
        raise _NoCgroups(msg("no memory controller of control groups version 1"))
    return Cgroups(version=1, parents=(*parents, *_find_counting(mounted, paths, name)))


def _find_counting(mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str) -> Iterator[tuple[str, str]]:
    """A group that limits nothing, and counts. Version 2 counts processor time without any controller, and the kernel
    tells by it whose a socket is."""
    for controller in ("", _ACCOUNTS):
        if controller not in mounted or mounted[controller] == mounted.get("cpu"):
            continue
        point, root = mounted[controller]
        with suppress(_NoCgroups):
            yield controller, str(_child(_own_folder(point, root, paths.get(controller, "/")), name))
            return


def _child(own: Path, name: str) -> Path:
    """Our parent of all tasks' groups, seen to be writable."""
    folder = own / name
    try:
        folder.mkdir(exist_ok=True)
        probe = folder / f"probe-{os.getpid()}"
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError as error:
        raise _NoCgroups(
            msg("{folder} cannot be written ({strerror})", folder=folder, strerror=error.strerror)
        ) from error
    return folder


def _find_v2(mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str) -> Cgroups:
    if "" not in mounted:
        raise _NoCgroups(msg("control groups version 2 are not mounted"))
    point, root = mounted[""]
    own = _own_folder(point, root, paths.get("", "/"))
    # The top first, where we may: a service whose own group was divided could not be started again while jobs run.
    reason = ""
    for base in dict.fromkeys((Path(point), own)):
        try:
            return _use_v2(base, name)
        except OSError as error:
            reason = f"{base}: {error.strerror}"
        except _NoCgroups as no:
            reason = str(no)
    raise _NoCgroups(reason)


def _use_v2(base: Path, name: str) -> Cgroups:
    present = (base / "cgroup.controllers").read_text().split()
    missing = [name for name in _CONTROLLERS if name not in present]
    if missing:
        raise _NoCgroups(msg("{base} has no {missing} controller", base=base, missing=", ".join(missing)))
    _hand_down(base)
    parent = _child(base, name)
    _hand_down(parent)
    return Cgroups(version=2, parents=(("", str(parent)),))


def _hand_down(folder: Path) -> None:
    """Let the groups below use the controllers. Only a group without processes of its own may (save the root)."""
    control = folder / "cgroup.subtree_control"
    if set(_CONTROLLERS) <= set(control.read_text().split()):
        return
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
    try:
        write(str(control), wanted)
    except OSError:
        _move_down(folder)
        write(str(control), wanted)


def _move_down(folder: Path) -> None:
    """Move our own processes into a leaf. Others' processes are not ours to move, except in a container of our own."""
    pids = [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    foreign = [pid for pid in pids if pid != os.getpid() and os.getpid() != 1 and not _in_container()]
    if foreign:
        raise _NoCgroups(
            msg("{folder} holds other processes; start the server as a service with Delegate=yes", folder=folder)
        )
    leaf = folder / f"{PARENT}-server"
    leaf.mkdir(exist_ok=True)
    for pid in pids:
        with suppress(ProcessLookupError):
            write(str(leaf / "cgroup.procs"), str(pid))


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
