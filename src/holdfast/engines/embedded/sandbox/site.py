"""What this machine supports, found by trial: the sandbox, the limits, the devices.

Blocking: call it from a thread.
"""

from __future__ import annotations

import os
import platform
import pwd
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import join_messages, msg
from holdfast.engines.base import Isolation

from .. import cgroups
from ..image import Image
from ..options import EmbeddedOptions
from ..processes import read_boot_id
from ..task_folder import TaskFolder
from . import roots
from .bubblewrap import Bwrap, find_bwrap
from .gpus import Gpu, find_driver_binds, list_gpus
from .guard import build_guard, mask_host_paths
from .isolation_level import IsolationLevel, find_required_level, get_best_isolation, raise_recorded_level
from .render import Bind, Overlay, SandboxGuard, SandboxRoot
from .sandbox_layers import SandboxLayers
from .seccomp import build_seccomp_filter
from .trial import SandboxFailure, TemporaryFailure, TrialSandbox, open_memory_folder, run_trial

_SECCOMP_FILE = "/proc/sys/kernel/seccomp/actions_avail"  # exists if the kernel can filter system calls


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSite:
    isolation: Isolation
    boot: str
    bwrap: Bwrap | None = None
    guard: SandboxGuard = field(default_factory=lambda: SandboxGuard(privileged=False))
    seccomp: bytes = b""  # the system call filter
    host_cow: bool = False  # the image `host` is copy-on-write (else read-only)
    image_cow: bool = False  # so are imported images
    devices_untried: bool = False  # their support is unknown; a task that cannot have them is not started
    own_devices: bool = False  # tasks get their own /dev/null and others, since they could change the machine's
    on_disk: bool = True  # changes go to disk (else to memory, except in a few folders)
    shown: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    user: str = "root"  # user of a task on the image `host`
    host_shell: str = "/bin/sh"
    groups: cgroups.Cgroups | None = None
    gpus: tuple[Gpu, ...] = ()
    driver: tuple[Bind, ...] = ()
    notes: tuple[str, ...] = ()
    condition: Condition | None = None  # why no task can start
    failure: SandboxFailure | None = None  # why there is no sandbox, or not the best one

    @property
    def level(self) -> IsolationLevel:
        return IsolationLevel(isolation=self.isolation, seccomp=bool(self.seccomp), own_devices=self.own_devices)

    @property
    def proven_level(self) -> IsolationLevel:
        return replace(self.level, own_devices=self.own_devices and not self.devices_untried)

    def add_notes(self, *notes: str) -> SandboxSite:
        return replace(self, notes=(*self.notes, *notes))


def find_site(home: Path, options: EmbeddedOptions, views: SandboxLayers) -> SandboxSite:
    """Find it, with a `condition` if tasks cannot be isolated as required: then none may start."""
    groups, no_groups = cgroups.find_cgroups(name=options.cgroup)
    plain = SandboxSite(
        isolation=Isolation.NONE,
        boot=read_boot_id(),
        user=_get_user_name(),
        host_shell=roots.find_shell("/") or "/bin/sh",
        groups=groups,
        gpus=list_gpus(),
        driver=find_driver_binds(),
    )
    site = _find_isolated_site(plain, home, options, views)
    if groups is None:
        mend = msg("Run the server as root, or as a systemd service with `Delegate=yes`.")
        return site.add_notes(
            msg(
                "CPU limits are not enforced, and memory limits are only checked every second: {no_groups}. {remedy}",
                no_groups=no_groups,
                remedy=mend,
            )
        )
    return site


def _find_isolated_site(plain: SandboxSite, home: Path, options: EmbeddedOptions, views: SandboxLayers) -> SandboxSite:
    try:
        required = find_required_level(home, options.isolation, several_users=options.multi_user)
    except OSError as error:
        return _make_blocked_site(plain, IsolationLevel(), [], SandboxFailure.from_error(error))
    try:
        site = _find_best_site(plain, home, options, views)
        missing = site.level.describe_missing(required)
        if missing:
            return _make_blocked_site(plain, required, missing, site.failure)
        raise_recorded_level(home, site.proven_level)
    except TemporaryFailure as unknown:
        return _make_blocked_site(plain, required, [], unknown.failure)
    except OSError as error:
        return _make_blocked_site(plain, required, [], SandboxFailure.from_error(error))
    return site


_RETRY_HINT = msg("The server retries every few seconds.")
_ACCEPT_HINT = msg("To accept less isolation, set `sandbox.isolation` in holdfast.toml and restart the server.")


def _make_blocked_site(
    plain: SandboxSite, required: IsolationLevel, missing: list[str], failure: SandboxFailure | None
) -> SandboxSite:
    """Return a site on which no task starts until a retry finds a better one."""
    meant = required.isolation if required.isolation is not Isolation.NONE else get_best_isolation()
    lacks = (
        msg("missing: {missing}", missing=", ".join(missing))
        if missing
        else msg("required: {requirement}", requirement=meant)
    )
    cause = msg(" Cause: {summary}.", summary=failure.summary) if failure else ""
    temporary = failure is not None and failure.temporary
    condition = Condition(
        kind=ConditionKind.SANDBOX,
        message=msg(
            "Jobs stay pending: the server cannot isolate tasks ({missing}).{cause}", missing=lacks, cause=cause
        ),
        hint=_RETRY_HINT if temporary else join_messages(" ", (_get_remedy(), _RETRY_HINT, _ACCEPT_HINT)),
        detail=failure.reason if failure else "",
        blocks_starts=True,
    )
    # Sessions in running tasks continue, with the system call filter.
    return replace(plain, isolation=meant, seccomp=build_seccomp_filter(platform.machine()) or b"", condition=condition)


def _get_remedy() -> str:
    if os.geteuid() == 0:
        return msg("Give the server the capability SYS_ADMIN (with Docker: `--privileged`).")
    return msg("Enable user namespaces (`sysctl user.max_user_namespaces`), or run the server as root.")


def _get_user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "user"


def _find_best_site(plain: SandboxSite, home: Path, options: EmbeddedOptions, views: SandboxLayers) -> SandboxSite:
    """Return the best sandbox that works. TemporaryFailure if that is unknown now."""
    if options.isolation == "off":
        return plain.add_notes(msg("Jobs are not isolated: isolation is disabled in the settings."))
    bwrap = find_bwrap()
    if bwrap is None:
        return plain.add_notes(
            msg("Jobs are not isolated: bubblewrap is not installed. Install the package `bubblewrap`.")
        )
    failure: SandboxFailure | None = None
    with open_memory_folder(home) as base:
        for candidate in _iter_candidate_sites(replace(plain, bwrap=bwrap), home, options, views):
            tried = _run_host_trial(candidate, views, base)
            if tried is None:
                found = _add_image_support(_add_disk_support(candidate, views, home), views, base)
                return replace(found, failure=failure)
            if tried.temporary:
                raise TemporaryFailure(tried)
            failure = tried
    assert failure is not None
    note = msg(
        "Jobs are not isolated: {reason}. {remedy}", reason=failure.reason.splitlines()[-1], remedy=_get_remedy()
    )
    return replace(plain.add_notes(note), failure=failure)


def _iter_candidate_sites(
    plain: SandboxSite, home: Path, options: EmbeddedOptions, views: SandboxLayers
) -> Iterator[SandboxSite]:
    """Yield sandboxes, the best first."""
    program = build_seccomp_filter(platform.machine()) if os.path.exists(_SECCOMP_FILE) else None
    for site in _iter_base_sites(replace(plain, seccomp=program or b""), home, options, views):
        if program is None:
            site = site.add_notes(
                msg("System calls are not filtered: the seccomp filter does not support this machine.")
            )
        guard = replace(site.guard, seccomp=program is not None)
        yield replace(site, guard=guard)
        yield replace(site.add_notes(msg("/sys is hidden from jobs.")), guard=replace(guard, show_sys=False))


def _iter_base_sites(
    plain: SandboxSite, home: Path, options: EmbeddedOptions, views: SandboxLayers
) -> Iterator[SandboxSite]:
    root = os.geteuid() == 0
    if root:
        guard = build_guard(privileged=True)
        yield replace(plain, isolation=Isolation.FULL, guard=guard, host_cow=True, image_cow=True)
    shown, links = roots.find_host_binds_and_links()
    guard = _mask_hidden_paths(build_guard(privileged=False), home, options, views)
    why = (
        msg("overlay filesystems are not supported on this machine") if root else msg("the server does not run as root")
    )
    site = replace(plain, isolation=Isolation.READ_ONLY, guard=guard, shown=shown, links=links)
    yield site.add_notes(
        msg("On the image `host`, jobs can only change files in their home folder and /tmp: {why}.", why=why)
    )


def _mask_hidden_paths(guard: SandboxGuard, home: Path, options: EmbeddedOptions, views: SandboxLayers) -> SandboxGuard:
    """Mask hidden paths in the bound folders. An ordinary user cannot read the rest anyway."""
    paths = [os.path.realpath(path) for path in (str(home), *options.hidden)]
    if os.geteuid() == 0:
        paths += [entry.path for entry in views.scan_host().hidden]
    return mask_host_paths(guard, paths)


# --- the roots of tasks -------------------------------------------------------------------------------------------


def make_host_root(site: SandboxSite, views: SandboxLayers, folder: TaskFolder) -> SandboxRoot:
    if site.isolation is Isolation.NONE:
        root = SandboxRoot()
    elif site.host_cow:
        root = roots.make_host_overlay_root(folder, views.prepare_host_layers(), on_disk=site.on_disk)
    else:
        root = replace(roots.make_host_bind_root(folder, site.shown, site.links), as_root=os.geteuid() == 0)
    return replace(root, shell=site.host_shell, user=site.user, devices=_make_own_device_binds(site, folder))


def _make_own_device_binds(site: SandboxSite, folder: TaskFolder) -> tuple[Bind, ...]:
    return roots.make_own_device_binds(folder) if site.own_devices else ()


def make_image_root(site: SandboxSite, views: SandboxLayers, image: Image, folder: TaskFolder) -> SandboxRoot:
    """Return the root of an image with a known shell."""
    if site.image_cow:
        root = roots.make_image_overlay_root(folder, image.rootfs, views.prepare_skeleton(), on_disk=site.on_disk)
    else:
        root = roots.make_image_bind_root(folder, image.rootfs)
    return replace(
        root,
        shell=image.shell or "/bin/sh",
        env=image.env,
        workdir=(roots.resolve_path_inside(image.rootfs, image.workdir) or "") if image.workdir else "",
        as_root=not site.guard.privileged,
        lower_folders=(image.rootfs, views.prepare_skeleton()),
        devices=_make_own_device_binds(site, folder),
    )


# --- trials -----------------------------------------------------------------------------------------------------------


def _make_trial_sandbox(site: SandboxSite) -> TrialSandbox:
    return TrialSandbox(bwrap=site.bwrap, guard=site.guard, seccomp=site.seccomp)


def _run_host_trial(site: SandboxSite, views: SandboxLayers, base: Path) -> SandboxFailure | None:
    return run_trial(_make_trial_sandbox(site), lambda folder: make_host_root(site, views, folder), base)


def _add_disk_support(site: SandboxSite, views: SandboxLayers, home: Path) -> SandboxSite:
    """A full disk counts as capable: a task that finds it full is not started."""
    if os.geteuid() != 0:
        return site
    holds = roots.supports_device_files(home)
    site = replace(site, own_devices=holds is not False, devices_untried=holds is None)
    if not site.own_devices:
        site = site.add_notes(
            msg(
                "Jobs can change the permissions of device files such as /dev/null: {home} does not support "
                "device files.",
                home=home,
            )
        )
    if not site.host_cow:
        return site
    failure = _run_host_trial(site, views, home)
    if failure is not None and not failure.temporary:
        note = msg(
            "Changes that jobs make outside their home folder and /tmp use memory: {home} does not support overlays.",
            home=home,
        )
        site = replace(site.add_notes(note), on_disk=False)
    if too_big := views.prepare_host_layers().view.too_big:
        some = ", ".join(too_big[:3])
        site = site.add_notes(
            msg("Folders with too many files to scan, such as {examples}, are hidden from jobs.", examples=some)
        )
    return site


def _add_image_support(site: SandboxSite, views: SandboxLayers, base: Path) -> SandboxSite:
    """Check overlays of images: an ordinary user, too, can mount one over their own folders."""
    if site.image_cow:
        return site

    def make_root(folder: TaskFolder) -> SandboxRoot:
        lower = folder["lower"]
        os.mkdir(lower)
        overlay = Overlay(
            target="/", lowers=(lower, views.prepare_skeleton()), upper=folder["upper"], work=folder["work"]
        )
        return SandboxRoot(overlays=(overlay,), binds=site.shown, links=site.links, shell=site.host_shell, as_root=True)

    failure = run_trial(_make_trial_sandbox(site), make_root, base)
    if failure is None:
        return replace(site, image_cow=True)
    if failure.temporary:
        raise TemporaryFailure(failure)
    return site.add_notes(msg("In imported images, jobs can only change files in their home folder and /tmp."))
