"""Resource limits by cgroups, version 2 or 1, wherever we may create them. Blocking: call it from a thread.

All paths depend on the arguments of `find_cgroups`, so tests use a tree of plain folders.
"""

from __future__ import annotations

import errno
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
from holdfast.engines.sandbox_paths import CGROUP_PATH

from .mount_table import MOUNTINFO_PATH, Mount, parse_mounts

logger = logging.getLogger(__name__)

PARENT_NAME = "holdfast"
_CONTROLLERS = ("cpu", "memory", "pids")
_CPU_ACCOUNTING_CONTROLLER = "cpuacct"  # of version 1: counts CPU time; usually, but not everywhere, mounted with cpu
_CPU_PERIOD = 100_000  # microseconds
_MAX_BUSY_TRIES = 200


class CgroupLost(Exception):
    """The parent folder of the cgroups does not exist any more, and there is no other; the text names it."""


@dataclass(slots=True, kw_only=True)
class Cgroups:
    """The parents of the tasks' cgroups: version 2 has one folder for all, version 1 one for each controller."""

    version: int
    parents: tuple[tuple[str, str], ...]  # (controller, or "" for version 2; folder)
    search: Callable[[], tuple[Cgroups | None, str]] | None = None  # finds the parents again

    @property
    def label(self) -> str:
        return msg("cgroup v{version}", version=self.version)

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(_CONTROLLERS if self.version == 2 else (name for name, _ in self.parents if name))

    def list_folders(self, name: str) -> tuple[str, ...]:
        return tuple(f"{parent}/{name}" for _, parent in self.parents)

    def create_cgroup(self, name: str, resources: Resources, pids_max: int) -> tuple[str, ...]:
        """Create a group with its limits, or set them again, and return its folders.

        If the parent folder was removed or unmounted, it is searched again. CgroupLost if there is none.
        """
        try:
            return self._create_cgroup(name, resources, pids_max)
        except FileNotFoundError as error:
            lost = error.filename
        for folder in self.list_folders(name):  # created before the one that failed
            with suppress(OSError):
                os.rmdir(folder)
        self._replace_lost_parents(lost)
        try:
            return self._create_cgroup(name, resources, pids_max)
        except FileNotFoundError as error:
            raise CgroupLost(msg("{filename} does not exist", filename=error.filename)) from error

    def _replace_lost_parents(self, lost: str) -> None:
        lost = next((parent for _, parent in self.parents if not os.path.isdir(parent)), lost)
        found, why = self.search() if self.search is not None else (None, "")
        if found is None:
            raise CgroupLost(join_messages(": ", filter(None, (msg("{lost} no longer exists", lost=lost), why))))
        logger.warning("The cgroup %s no longer exists; tasks now use %s", lost, found.parents[0][1])
        self.version, self.parents = found.version, found.parents

    def _create_cgroup(self, name: str, resources: Resources, pids_max: int) -> tuple[str, ...]:
        for controller, parent in self.parents:
            folder = f"{parent}/{name}"
            with suppress(FileExistsError):
                os.mkdir(folder)
            for file, value in _iter_limits(self.version, controller, resources, pids_max):
                write_control_file(f"{folder}/{file}", value, optional=file in _OPTIONAL_FILES)
        return self.list_folders(name)

    def list_binds(self, folders: Iterable[str]) -> list[tuple[str, str]]:
        """Return each of a group's folders with its path inside the group's own view."""
        if self.version == 2:
            return [(folder, CGROUP_PATH) for folder in folders]
        named = zip(self.parents, folders, strict=False)
        return [(folder, f"{CGROUP_PATH}/{controller}") for (controller, _), folder in named if controller]

    def remove_orphans(self, prefix: str, known: Collection[str]) -> None:
        """Remove empty groups with this prefix that are not among the known: left by a server that died."""
        for _, parent in self.parents:
            with suppress(OSError):
                left = [name for name in os.listdir(parent) if name.startswith(prefix) and name not in known]
                for name in left:
                    with suppress(OSError):
                        os.rmdir(f"{parent}/{name}")


# Missing where swap or socket memory is not accounted.
_OPTIONAL_FILES = frozenset({"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.kmem.tcp.limit_in_bytes"})


def _iter_limits(version: int, controller: str, resources: Resources, pids_max: int) -> Iterable[tuple[str, str]]:
    quota = max(1000, int(resources.cpu * _CPU_PERIOD))
    if version == 2:
        yield "cpu.max", f"{quota} {_CPU_PERIOD}"
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


def write_control_file(path: str, value: str, *, optional: bool = False) -> None:
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


def find_own_procs_file(
    mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> str | None:
    """Return the cgroup.procs file of a group of this process, if it is writable."""
    try:
        mounted, paths = _map_controller_mounts(parse_mounts(mounts.read_bytes())), _parse_own_paths(own.read_text())
    except OSError:
        return None
    for controller in mounted:
        file = _find_own_folder(mounted, paths, controller) / "cgroup.procs"
        with suppress(OSError):
            if os.access(file, os.W_OK) and str(os.getpid()) in file.read_text().split():
                return str(file)
    return None


def find_process_cgroups(pid: int, mounts: Path = Path("/proc/self/mountinfo")) -> tuple[str, ...]:
    """Return the folders of a process's groups; the first ones limit its resources. Empty if it has exited."""
    try:
        mounted, paths = (
            _map_controller_mounts(parse_mounts(mounts.read_bytes())),
            _parse_own_paths(Path(f"/proc/{pid}/cgroup").read_text()),
        )
    except OSError:
        return ()
    wanted = [name for name in (*_CONTROLLERS, "", _CPU_ACCOUNTING_CONTROLLER) if name in mounted and name in paths]
    found = [str(_find_own_folder(mounted, paths, name)) for name in wanted]
    points = {point for point, _ in mounted.values()}
    return tuple(dict.fromkeys(folder for folder in found if folder not in points))  # never the root of all groups


def find_other_cgroups(pid: int) -> tuple[str, ...]:
    """Return the folders of all groups of a process that are not ours, of every controller: a process of ours that
    joins them has the same limits and, which only its groups enforce, the same access to devices. OSError if one cannot
    be found."""
    mounts = parse_mounts(Path(MOUNTINFO_PATH).read_bytes())
    ours = _parse_hierarchies(Path("/proc/self/cgroup").read_text())
    theirs = _parse_hierarchies(Path(f"/proc/{pid}/cgroup").read_text())
    differing = [(controllers, path) for controllers, path in theirs.items() if ours.get(controllers) != path]
    return tuple(_find_group_folder(mounts, controllers, path) for controllers, path in differing)


def _parse_hierarchies(text: str) -> dict[str, str]:
    """Map the controllers of each hierarchy, as the kernel lists them, to the group of the process in it."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {controllers: path for _, controllers, path in lines}


def _find_group_folder(mounts: Sequence[Mount], controllers: str, path: str) -> str:
    names = set(controllers.split(","))
    for mount in mounts:
        is_mounted = (
            mount.kind == "cgroup2" if not controllers else mount.kind == "cgroup" and names <= {*mount.options}
        )
        inner = path.removeprefix(mount.root) if mount.root != "/" else path
        if is_mounted and os.path.isfile(f"{mount.point}{inner}/cgroup.procs"):
            return f"{mount.point}{inner}"
    raise FileNotFoundError(errno.ENOENT, "the cgroup is not mounted", f"{controllers}:{path}")


# --- reading and killing a group, by the folders in the task's start note ---------------------------------------------


def has_oom_kill(folders: Iterable[str]) -> bool:
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            if _read_counter(f"{folder}/{file}", "oom_kill") > 0:
                return True
    return False


def _read_counter(path: str, key: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


def list_pids(folders: Iterable[str]) -> list[int]:
    """Return every process of the group; all folders of a group have the same."""
    for folder in folders:
        try:
            return [int(pid) for pid in Path(f"{folder}/cgroup.procs").read_text().split()]
        except OSError:
            continue
    return []


def kill_cgroup(folders: Iterable[str]) -> None:
    """Kill all processes of a group, even if they fork continuously."""
    folders = tuple(folders)
    for folder in folders:
        if Path(f"{folder}/cgroup.kill").exists():
            with suppress(OSError):
                write_control_file(f"{folder}/cgroup.kill", "1")
            return
    for pid in list_pids(folders):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def remove_cgroup(folders: Iterable[str]) -> bool:
    """Remove a group; False if it still has processes. Dead ones may stay there briefly."""
    done = True
    for folder in folders:
        done = _remove_folder(folder) and done
    return done


def _remove_folder(folder: str) -> bool:
    for attempt in range(_MAX_BUSY_TRIES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(0.001 * min(attempt + 1, 20))
        else:
            return True
    return False


# --- finding the parents ----------------------------------------------------------------------------------------------


def find_cgroups(
    mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup"), *, name: str = PARENT_NAME
) -> tuple[Cgroups | None, str]:
    """Return the best parent of groups below that name, or None and the reason. A hybrid machine has its controllers in
    version 1."""
    try:
        mounted = _map_controller_mounts(parse_mounts(mounts.read_bytes()))
        paths = _parse_own_paths(own.read_text())
    except OSError as error:
        return None, msg("cgroups cannot be read: {error}", error=error)
    reasons = []
    for attempt in (_create_v2_parent, _create_v1_parents):
        try:
            found = attempt(mounted, paths, name)
            found.search = partial(find_cgroups, mounts, own, name=name)
            return found, ""
        except _CgroupsUnusable as no:
            reasons.append(str(no))
    return None, "; ".join(reasons)


class _CgroupsUnusable(Exception):
    """This cgroup version cannot be used; the text says why."""


def _map_controller_mounts(mounts: Sequence[Mount]) -> dict[str, tuple[str, str]]:
    """Map controller (or "" for version 2) to (mount point, mounted part of the hierarchy).

    The same hierarchy may be mounted elsewhere too, for a chroot or a container: such a mount may disappear at any
    time.
    """
    found: dict[str, tuple[str, str]] = {}
    usual = [mount for mount in mounts if f"{mount.point}/".startswith(f"{CGROUP_PATH}/")]
    for mount in (*usual, *mounts):
        if mount.kind == "cgroup2":
            found.setdefault("", (mount.point, mount.root))
        elif mount.kind == "cgroup":
            for name in mount.options:
                if name in (*_CONTROLLERS, _CPU_ACCOUNTING_CONTROLLER):
                    found.setdefault(name, (mount.point, mount.root))
    return found


def _parse_own_paths(text: str) -> dict[str, str]:
    """Map controller (or "" for version 2) to our own group."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            paths[name] = path
    return paths


def _find_own_folder(mounted: dict[str, tuple[str, str]], paths: dict[str, str], controller: str) -> Path:
    """Return our own group's folder below its mount point. In a container the mount may show only a part."""
    (point, root), path = mounted[controller], paths.get(controller, "/")
    if root != "/" and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    folder = Path(point + path)
    return folder if folder.is_dir() else Path(point)


def _create_v1_parents(mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str) -> Cgroups:
    parents = []
    for controller in _CONTROLLERS:
        if controller in mounted:
            own = _find_own_folder(mounted, paths, controller)
            parents.append((controller, str(_create_parent(own, name))))
    if not any(controller == "memory" for controller, _ in parents):
        raise _CgroupsUnusable(msg("cgroup v1 has no memory controller"))
    return Cgroups(version=1, parents=(*parents, *_iter_accounting_parents(mounted, paths, name)))


def _iter_accounting_parents(
    mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str
) -> Iterator[tuple[str, str]]:
    """Find a group that only counts. Version 2 counts CPU time without any controller, and the kernel tells by it which
    task owns a socket."""
    for controller in ("", _CPU_ACCOUNTING_CONTROLLER):
        if controller not in mounted or mounted[controller] == mounted.get("cpu"):
            continue
        with suppress(_CgroupsUnusable):
            yield controller, str(_create_parent(_find_own_folder(mounted, paths, controller), name))
            return


def _create_parent(own: Path, name: str) -> Path:
    """Create the parent of all tasks' groups, and check that it is writable."""
    folder = own / name
    try:
        folder.mkdir(exist_ok=True)
        probe = folder / f"probe-{os.getpid()}"
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError as error:
        raise _CgroupsUnusable(
            msg("{folder} is not writable ({error})", folder=folder, error=error.strerror)
        ) from error
    return folder


def _create_v2_parent(mounted: dict[str, tuple[str, str]], paths: dict[str, str], name: str) -> Cgroups:
    if "" not in mounted:
        raise _CgroupsUnusable(msg("cgroup v2 is not mounted"))
    own = _find_own_folder(mounted, paths, "")
    # Try the root first: a service whose own group was divided could not restart while jobs run.
    reason = ""
    for base in dict.fromkeys((Path(mounted[""][0]), own)):
        try:
            return _create_v2_parent_below(base, name)
        except OSError as error:
            reason = f"{base}: {error.strerror}"
        except _CgroupsUnusable as no:
            reason = str(no)
    raise _CgroupsUnusable(reason)


def _create_v2_parent_below(base: Path, name: str) -> Cgroups:
    present = (base / "cgroup.controllers").read_text().split()
    missing = [name for name in _CONTROLLERS if name not in present]
    if missing:
        raise _CgroupsUnusable(msg("{base} has no {missing} controller", base=base, missing=", ".join(missing)))
    _enable_controllers(base)
    parent = _create_parent(base, name)
    _enable_controllers(parent)
    return Cgroups(version=2, parents=(("", str(parent)),))


def _enable_controllers(folder: Path) -> None:
    """Enable the controllers for the groups below. Only a group without processes of its own may (except the root)."""
    control = folder / "cgroup.subtree_control"
    if set(_CONTROLLERS) <= set(control.read_text().split()):
        return
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS)
    try:
        write_control_file(str(control), wanted)
    except OSError:
        _move_to_leaf(folder)
        write_control_file(str(control), wanted)


def _move_to_leaf(folder: Path) -> None:
    """Move our own processes into a leaf. Foreign processes are only moved in our own container."""
    pids = [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    in_container = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    foreign = [pid for pid in pids if pid != os.getpid() and os.getpid() != 1 and not in_container]
    if foreign:
        raise _CgroupsUnusable(
            msg(
                "{folder} contains other processes; start the server as a systemd service with Delegate=yes",
                folder=folder,
            )
        )
    leaf = folder / f"{PARENT_NAME}-server"
    leaf.mkdir(exist_ok=True)
    for pid in pids:
        with suppress(ProcessLookupError):
            write_control_file(str(leaf / "cgroup.procs"), str(pid))
