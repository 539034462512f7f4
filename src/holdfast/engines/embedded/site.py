"""What this machine allows, found out once by trying: which sandbox, which limits, which devices.

Blocking: call it from a thread.
"""

from __future__ import annotations

import os
import platform
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.core.job import Resources
from holdfast.engines.base import Isolation, Launch

from . import cgroups, roots
from .bubblewrap import Bwrap, find_bwrap
from .cleaning import remove_tree
from .folder import TaskFolder
from .gpus import Gpu, find_driver, find_gpus
from .guard import find_guard, mask_host_paths
from .images import Image
from .options import EmbeddedOptions
from .processes import boot_id
from .render import Bind, Guard, Overlay, Root, render_args, render_command, task_env
from .seccomp import render_filter
from .spawning import Order, spawn
from .views import Views

_PROBE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    isolation: Isolation
    boot: str
    bwrap: Bwrap | None = None
    guard: Guard = field(default_factory=lambda: Guard(privileged=False))
    seccomp: bytes = b""  # the filter of system calls
    host_cow: bool = False  # the image `host` is copy-on-write (else read-only)
    image_cow: bool = False  # so are imported images
    own_devices: bool = False  # tasks get /dev/null and the like anew, for they could change the machine's
    on_disk: bool = True  # changes go to disk (else to memory, save in a few places)
    shown: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    user: str = "root"  # whom a task on the image `host` runs as
    host_shell: str = "/bin/sh"
    groups: cgroups.Cgroups | None = None
    gpus: tuple[Gpu, ...] = ()
    driver: tuple[Bind, ...] = ()
    notes: tuple[str, ...] = ()


def find_site(home: Path, options: EmbeddedOptions, views: Views) -> Site:
    groups, no_groups = cgroups.find_cgroups(name=options.cgroup)
    plain = Site(
        isolation=Isolation.NONE,
        boot=boot_id(),
        user=_user_name(),
        host_shell=roots.find_shell("/") or "/bin/sh",
        groups=groups,
        gpus=find_gpus(),
        driver=find_driver(),
    )
    if os.geteuid() == 0:
        plain = replace(plain, own_devices=roots.holds_devices(home))
    site, notes = _best_sandbox(plain, home, options, views)
    if os.geteuid() == 0 and site.isolation is not Isolation.NONE and not site.own_devices:
        notes += (f"Jobs can change the permissions of /dev/null and the like: {home} cannot hold device files.",)
    if site.host_cow and (too_big := views.host_layers().view.too_big):
        some = ", ".join(too_big[:3])
        notes += (f"Folders with too many files to look through are hidden from jobs, such as {some}.",)
    if groups is None:
        mend = "Run the server as root, or as a systemd service with Delegate=yes."
        notes += (f"CPU is not limited, and memory is watched from outside: {no_groups}. {mend}",)
    return replace(site, notes=notes)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "user"


def _best_sandbox(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> tuple[Site, tuple[str, ...]]:
    if options.isolation == "off":
        return plain, ("Jobs are not isolated: isolation is switched off in the settings.",)
    bwrap = find_bwrap()
    if bwrap is None:
        return plain, ("Jobs are not isolated: bubblewrap is missing. Install the package bubblewrap.",)
    problems = []
    for candidate, notes in _candidates(replace(plain, bwrap=bwrap), home, options, views):
        problem = _try_host(candidate, views, home)
        if problem is None:
            return _with_images(candidate, notes, views, home)
        problems.append(problem)
    if bwrap.exposed and os.statvfs(home).f_flag & os.ST_NOEXEC:
        hint = f"No program can be run from {home}: mount its filesystem without noexec, or choose another folder."
    elif os.geteuid() == 0:
        hint = "Give the server the capability SYS_ADMIN (with Docker: --privileged)."
    else:
        hint = "Allow user namespaces (sysctl user.max_user_namespaces), or run the server as root."
    return plain, (f"Jobs are not isolated: {problems[-1].splitlines()[-1]}. {hint}",)


def _candidates(
    plain: Site, home: Path, options: EmbeddedOptions, views: Views
) -> Iterator[tuple[Site, tuple[str, ...]]]:
    """Sandboxes from the best down, each with what is to be said about it."""
    program = render_filter(platform.machine())
    for seccomp in (program, b"") if program else (b"",):
        unfiltered = () if seccomp else ("System calls are not filtered: there is no filter for this machine.",)
        for site, notes in _shapes(replace(plain, seccomp=seccomp), home, options, views):
            guard = replace(site.guard, seccomp=bool(seccomp))
            yield replace(site, guard=guard), notes + unfiltered
            yield replace(site, guard=replace(guard, show_sys=False)), (*notes, *unfiltered, "Jobs see no /sys.")


def _shapes(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> Iterator[tuple[Site, tuple[str, ...]]]:
    if os.geteuid() == 0:
        guard = find_guard(privileged=True)
        full = replace(plain, isolation=Isolation.FULL, guard=guard, host_cow=True, image_cow=True)
        yield full, ()
        yield (
            replace(full, on_disk=False),
            (f"What jobs change outside their home and /tmp is kept in memory: {home} cannot hold an overlay.",),
        )
    shown, links = roots.host_shown()
    guard = _hiding(find_guard(privileged=False), home, options, views)
    why = "an overlay is not possible here" if os.geteuid() == 0 else "the server is not root"
    yield (
        replace(plain, isolation=Isolation.READ_ONLY, guard=guard, shown=shown, links=links),
        (f"Jobs cannot change the image host outside their home and /tmp: {why}.",),
    )


def _hiding(guard: Guard, home: Path, options: EmbeddedOptions, views: Views) -> Guard:
    """Cover what must not be seen of the folders that are bound. An ordinary user cannot read the rest anyway."""
    paths = [os.path.realpath(path) for path in (str(home), *options.hidden)]
    if os.geteuid() == 0:
        paths += [entry.path for entry in views.scan().hidden]
    return mask_host_paths(guard, paths)


# --- the roots of tasks -------------------------------------------------------------------------------------------


def host_root(site: Site, views: Views, folder: TaskFolder) -> Root:
    if site.isolation is Isolation.NONE:
        root = Root()
    elif site.host_cow:
        root = roots.host_overlay(folder, views.host_layers(), on_disk=site.on_disk)
    else:
        root = replace(roots.host_binds(folder, site.shown, site.links), as_root=os.geteuid() == 0)
    return replace(root, shell=site.host_shell, user=site.user, devices=_devices(site, folder))


def _devices(site: Site, folder: TaskFolder) -> tuple[Bind, ...]:
    return roots.own_devices(folder) if site.own_devices else ()


def image_root(site: Site, views: Views, image: Image, folder: TaskFolder) -> Root:
    """`image.shell` is known to be there."""
    if site.image_cow:
        root = roots.image_overlay(folder, image.rootfs, views.skeleton(), on_disk=site.on_disk)
    else:
        root = roots.image_binds(folder, image.rootfs)
    return replace(
        root,
        shell=image.shell or "/bin/sh",
        env=image.env,
        workdir=(roots.follow_inside(image.rootfs, image.workdir) or "") if image.workdir else "",
        as_root=not site.guard.privileged,
        stands_on=(image.rootfs, views.skeleton()),
        devices=_devices(site, folder),
    )


# --- trying -------------------------------------------------------------------------------------------------------


def _with_images(site: Site, notes: tuple[str, ...], views: Views, home: Path) -> tuple[Site, tuple[str, ...]]:
    """An ordinary user, too, may lay an overlay over folders of his own."""
    if site.image_cow:
        return site, notes

    def root(folder: TaskFolder) -> Root:
        lower = folder["lower"]
        os.mkdir(lower)
        overlay = Overlay(target="/", lowers=(lower, views.skeleton()), upper=folder["upper"], work=folder["work"])
        return Root(overlays=(overlay,), binds=site.shown, links=site.links, shell=site.host_shell, as_root=True)

    if _try(site, root, home) is None:
        return replace(site, image_cow=True), notes
    return site, (*notes, "Jobs cannot change imported images outside their home and /tmp.")


def _try_host(site: Site, views: Views, home: Path) -> str | None:
    return _try(site, lambda folder: host_root(site, views, folder), home)


def _try(site: Site, make_root: Callable[[TaskFolder], Root], home: Path) -> str | None:
    """Run a real sandbox; None when it works, else why not."""
    probe = str(home / f"probe-{os.getpid()}")
    folder = TaskFolder(f"{probe}/task")  # as deep as real ones: bubblewrap looks for libraries two folders up
    remove_tree(probe)
    os.makedirs(folder.path, 0o700)
    try:
        return _run(site, make_root(folder), folder)
    except OSError as error:
        return str(error)
    finally:
        remove_tree(probe)


def _run(site: Site, root: Root, folder: TaskFolder) -> str | None:
    """Start an empty task the very way real ones are started."""
    launch = Launch(
        attempt_id="probe", job_id="probe", task="probe", user="", group="", image="host",
        script="", shell_options=(), env={}, resources=Resources(),
    )  # fmt: skip
    claim = folder.open_claim()
    try:
        roots.make_folders(folder, root)
        args = render_args(launch, root, site.guard, task_env(launch, root, "/", {}), 1 << 20, ())
        command = render_command(root, ())
        order = Order(bwrap=site.bwrap, args=args, command=command, script="exit 0\n", seccomp=site.seccomp)
        pid = spawn(folder, claim, order)
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
