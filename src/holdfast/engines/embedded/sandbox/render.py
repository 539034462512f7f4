"""Renders bubblewrap's arguments and the task's environment from a `Launch` and the machine's guard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.engines.base import LaunchSpec
from holdfast.engines.sandbox_paths import CGROUP_PATH, HOLDFAST_PATH, HOME_PATH
from holdfast.engines.task_program import USER_SWITCH_FILE, TaskFile, make_hostname
from holdfast.engines.task_user import TaskUser

# File descriptors that the runner passes on.
FILE_FDS = {"hold": 3, "entry": 4, "script": 5, USER_SWITCH_FILE: 11}  # of the task's files
SECCOMP_FD = 6
ARGS_FD = 7
REPORT_FD = 8
BWRAP_FD = 10
FIRST_MOUNT_FD = 20  # and following, one for each mount

# Docker's default set, less MKNOD (no new devices), and less what reaches beyond the sandbox because tasks share the
# machine's network: NET_RAW would let a task read all traffic, NET_BIND_SERVICE serve the machine's ports below 1024,
# AUDIT_WRITE forge records in its audit log.
CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
    "CAP_SETPCAP", "CAP_SYS_CHROOT", "CAP_SETFCAP",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A copy-on-write mount. `lowers` from the bottom up; without `upper` the writes go to memory."""

    target: str
    lowers: tuple[str, ...]
    upper: str = ""
    work: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    source: str
    target: str
    read_only: bool = True
    device: bool = False
    fd: int | None = None  # an open descriptor instead of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRoot:
    """The parts of one task's root filesystem."""

    overlays: tuple[Overlay, ...] = ()
    binds: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()  # (target, name)
    shell: str = "/bin/sh"  # a path inside
    env: Mapping[str, str] | None = None  # the image's own
    workdir: str = ""  # the image's own
    lower: str = "/"  # path of its unchanged files on the machine
    devices: tuple[Bind, ...] = ()  # its own device files in place of the machine's
    locked: bool = False  # read-only once everything is mounted
    warning: str = ""  # it differs from the request
    replaces_image: bool = False  # of the image `host`, since the task's own is missing
    user: str = "root"  # name of the user of the task
    task_user: TaskUser | None = None  # the image's user, if the task becomes it; else it runs as ours
    lower_folders: tuple[str, ...] = ()  # shared folders that must stay while it is mounted
    as_root: bool = False  # inside a user namespace, map the task's user to root
    library: str = ""  # folder on the machine with the packages of every task; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxGuard:
    """Protection of the machine from tasks; the same for all."""

    privileged: bool  # we are root, and so is the task
    read_only: tuple[str, ...] = ()  # such as paths below /proc
    empty_folders: tuple[str, ...] = ()
    empty_files: tuple[str, ...] = ()
    show_sys: bool = True
    sys_folders: tuple[str, ...] = ()  # below /sys, covered by empty ones
    sys_files: tuple[str, ...] = ()
    groups: tuple[Bind, ...] = ()  # the task's own cgroups
    seccomp: bool = False


def render_bwrap_args(
    launch: LaunchSpec,
    root: SandboxRoot,
    guard: SandboxGuard,
    files: Mapping[str, TaskFile],
    env: Mapping[str, str],
    shm: int,
    binds: Iterable[Bind],
) -> list[str]:
    """Return the arguments for `bwrap --args`, without the command."""
    args = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"]
    args += ["--new-session", "--hostname", make_hostname(launch.task), "--json-status-fd", str(REPORT_FD)]
    args += _render_user(guard, root)
    args += _render_root(root)
    args += _render_system_mounts(guard, shm, root.devices)
    for bind in binds:
        args += _render_bind(bind)
    for name, file in files.items():
        args += ["--perms", f"{file.mode:04o}", "--ro-bind-data", str(FILE_FDS[name]), f"{HOLDFAST_PATH}/{name}"]
    if root.locked:
        args += ["--remount-ro", "/"]
    if guard.seccomp:
        args += ["--seccomp", str(SECCOMP_FD)]
    args.append("--clearenv")
    for name, value in env.items():
        args += ["--setenv", name, value]
    if launch.workdir:
        return [*args, "--chdir", "/"]  # render_entry_script changes it from there
    # The image's own is created if missing, as containers do; HOME always exists.
    return [*args, "--dir", root.workdir, "--chdir", root.workdir] if root.workdir else [*args, "--chdir", HOME_PATH]


# A user's working folder is created and entered inside the sandbox, where no link leads outside. The image's user must
# be able to write to a new one.
_CHANGE_FOLDER_SCRIPT = '[ -d "$0" ] || mkdir -p -- "$0" || exit 1; cd -- "$0" || exit 1; exec "$@"'
_CHANGE_USER_FOLDER_SCRIPT = _CHANGE_FOLDER_SCRIPT.replace("mkdir -p", "mkdir -p -m 0777")


def render_start_command(launch: LaunchSpec, root: SandboxRoot, command: list[str]) -> list[str]:
    """Return the command in its working folder, as its user. What runs as root before the switch to an image's user
    has a fixed environment; the switch sets the task's."""
    if root.task_user:
        command = [f"{HOLDFAST_PATH}/{USER_SWITCH_FILE}", *command]
    if launch.workdir:
        script = _CHANGE_USER_FOLDER_SCRIPT if root.task_user else _CHANGE_FOLDER_SCRIPT
        return [root.shell, "-c", script, launch.workdir, *command]
    # Bubblewrap must execute the shell itself: its error shows whether the image can run on this machine.
    return [root.shell, "-c", 'exec "$@"', root.shell, *command] if root.task_user else command


# The limit counts a user's processes in a user namespace, so it must be set where only the task's own are counted.
# Shells call it -u, or -p. A shell with neither, or with a lower limit, continues.
_PROCESS_LIMIT_SCRIPT = 'ulimit -u "$0" 2>/dev/null || ulimit -p "$0" 2>/dev/null; exec "$@"'


def render_process_limit(root: SandboxRoot, count: int, command: list[str]) -> list[str]:
    """Return the command with a limit of its processes and threads. 0: unchanged."""
    return [root.shell, "-c", _PROCESS_LIMIT_SCRIPT, str(count), *command] if count else command


def _render_user(guard: SandboxGuard, root: SandboxRoot) -> Iterator[str]:
    if not guard.privileged:
        yield "--unshare-user"
        if root.as_root:
            yield from ("--uid", "0", "--gid", "0")
    yield from ("--cap-drop", "ALL")
    if guard.privileged or root.as_root:
        for capability in CAPABILITIES:
            yield from ("--cap-add", capability)


def _render_root(root: SandboxRoot) -> Iterator[str]:
    for overlay in root.overlays:
        for lower in overlay.lowers:
            yield from ("--overlay-src", lower)
        if overlay.upper:
            yield from ("--overlay", overlay.upper, overlay.work, overlay.target)
        else:
            yield from ("--tmp-overlay", overlay.target)
    for bind in root.binds:
        yield from _render_bind(bind)
    for target, name in root.links:
        yield from ("--symlink", target, name)


def _render_system_mounts(guard: SandboxGuard, shm: int, devices: Iterable[Bind]) -> Iterator[str]:
    yield from ("--proc", "/proc")
    for path in guard.read_only:
        yield from ("--ro-bind", path, path)
    yield from ("--dev", "/dev", "--perms", "1777", "--size", str(shm), "--tmpfs", "/dev/shm")
    for bind in devices:
        yield from _render_bind(bind)
    if guard.show_sys:
        yield from ("--ro-bind", "/sys", "/sys")
        yield from _render_masks(guard.sys_folders, guard.sys_files)
        for bind in guard.groups:
            yield from _render_bind(bind)
        if CGROUP_PATH in guard.sys_folders:  # others stay writable: they belong to the task, and have one page
            yield from ("--remount-ro", CGROUP_PATH)
    yield from _render_masks(guard.empty_folders, guard.empty_files)


def _render_masks(folders: Iterable[str], files: Iterable[str]) -> Iterator[str]:
    for path in folders:
        yield from ("--perms", "0555", "--size", "4096", "--tmpfs", path)
    for path in files:
        yield from ("--ro-bind", "/dev/null", path)


def _render_bind(bind: Bind) -> tuple[str, str, str]:
    if bind.fd is not None:
        return "--ro-bind-fd" if bind.read_only else "--bind-fd", str(bind.fd), bind.target
    if bind.device:
        return "--dev-bind", bind.source, bind.target
    return "--ro-bind" if bind.read_only else "--bind", bind.source, bind.target
