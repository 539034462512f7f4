"""What this machine allows, found out once by trying: which sandbox, which limits, which devices.

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
from ..processes import boot_id
from ..task_folder import TaskFolder
from . import roots
from .bubblewrap import Bwrap, find_bwrap
from .gpus import Gpu, find_driver, find_gpus
from .guard import find_guard, mask_host_paths
from .isolation_level import Level, best_isolation, find_required_level, raise_record
from .render import Bind, Guard, Overlay, Root
from .seccomp import render_filter
from .trial import Failure, Sandbox, TemporaryFailure, memory_folder, run_trial
from .views import Views

_SECCOMP_FILE = "/proc/sys/kernel/seccomp/actions_avail"  # there where the kernel can filter system calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    isolation: Isolation
    boot: str
    bwrap: Bwrap | None = None
    guard: Guard = field(default_factory=lambda: Guard(privileged=False))
    seccomp: bytes = b""  # the filter of system calls
    host_cow: bool = False  # the image `host` is copy-on-write (else read-only)
    image_cow: bool = False  # so are imported images
    devices_untried: bool = False  # whether they can was not found out; a task that cannot have them is not started
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
    condition: Condition | None = None  # why no task may be started here
    failure: Failure | None = None  # why there is no sandbox, or not the best one

    @property
    def level(self) -> Level:
        return Level(isolation=self.isolation, seccomp=bool(self.seccomp), own_devices=self.own_devices)

    @property
    def proven_level(self) -> Level:
        return replace(self.level, own_devices=self.own_devices and not self.devices_untried)

    def with_notes(self, *notes: str) -> Site:
        return replace(self, notes=(*self.notes, *notes))


def find_site(home: Path, options: EmbeddedOptions, views: Views) -> Site:
    """With a `condition` where tasks cannot be isolated as they must be: then none may be started."""
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
    site = _find_isolated(plain, home, options, views)
    if groups is None:
        mend = msg("Run the server as root, or as a systemd service with Delegate=yes.")
        return site.with_notes(
            msg(
                "CPU is not limited, and memory is watched from outside: {no_groups}. {mend}",
                no_groups=no_groups,
                mend=mend,
            )
        )
    return site


def _find_isolated(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> Site:
    try:
        required = find_required_level(home, options.isolation, several_users=options.several_users)
    except OSError as error:
        return _blocked(plain, Level(), [], Failure.from_error(error))
    try:
        site = _find_sandbox(plain, home, options, views)
        missing = site.level.missing(required)
        if missing:
            return _blocked(plain, required, missing, site.failure)
        raise_record(home, site.proven_level)
    except TemporaryFailure as unknown:
        return _blocked(plain, required, [], unknown.failure)
    except OSError as error:
        return _blocked(plain, required, [], Failure.from_error(error))
    return site


_RETRY_HINT = msg("The server tries again every few seconds.")
_ACCEPT_HINT = msg("To accept less isolation, set sandbox.isolation in holdfast.toml and restart the server.")


def _blocked(plain: Site, required: Level, missing: list[str], failure: Failure | None) -> Site:
    """A site on which nothing is started until a later look finds a better one."""
    meant = required.isolation if required.isolation is not Isolation.NONE else best_isolation()
    lacks = msg("missing: {missing}", missing=", ".join(missing)) if missing else msg("required: {meant}", meant=meant)
    cause = msg(" Cause: {summary}.", summary=failure.summary) if failure else ""
    temporary = failure is not None and failure.temporary
    condition = Condition(
        kind=ConditionKind.SANDBOX,
        message=msg("Jobs are waiting: the server cannot isolate tasks ({lacks}).{cause}", lacks=lacks, cause=cause),
        hint=_RETRY_HINT if temporary else join_messages(" ", (_find_remedy(), _RETRY_HINT, _ACCEPT_HINT)),
        detail=failure.reason if failure else "",
        blocks_starts=True,
    )
    # Sessions into tasks that run go on, and have the filter of system calls.
    return replace(plain, isolation=meant, seccomp=render_filter(platform.machine()) or b"", condition=condition)


def _find_remedy() -> str:
    if os.geteuid() == 0:
        return msg("Give the server the capability SYS_ADMIN (with Docker: --privileged).")
    return msg("Allow user namespaces (sysctl user.max_user_namespaces), or run the server as root.")


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "user"


def _find_sandbox(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> Site:
    """The best that works here. TemporaryFailure when that cannot be found out now."""
    if options.isolation == "off":
        return plain.with_notes(msg("Jobs are not isolated: isolation is switched off in the settings."))
    bwrap = find_bwrap()
    if bwrap is None:
        return plain.with_notes(msg("Jobs are not isolated: bubblewrap is missing. Install the package bubblewrap."))
    failure: Failure | None = None
    with memory_folder(home) as base:
        for candidate in _candidates(replace(plain, bwrap=bwrap), home, options, views):
            tried = _try_host(candidate, views, base)
            if tried is None:
                found = _with_images(_with_disk(candidate, views, home), views, base)
                return replace(found, failure=failure)
            if tried.temporary:
                raise TemporaryFailure(tried)
            failure = tried
    assert failure is not None
    note = msg("Jobs are not isolated: {x1}. {x2}", x1=failure.reason.splitlines()[-1], x2=_find_remedy())
    return replace(plain.with_notes(note), failure=failure)


def _candidates(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> Iterator[Site]:
    """Sandboxes from the best down."""
    program = render_filter(platform.machine()) if os.path.exists(_SECCOMP_FILE) else None
    for site in _shapes(replace(plain, seccomp=program or b""), home, options, views):
        if program is None:
            site = site.with_notes(msg("System calls are not filtered: there is no filter for this machine."))
        guard = replace(site.guard, seccomp=program is not None)
        yield replace(site, guard=guard)
        yield replace(site.with_notes(msg("Jobs see no /sys.")), guard=replace(guard, show_sys=False))


def _shapes(plain: Site, home: Path, options: EmbeddedOptions, views: Views) -> Iterator[Site]:
    root = os.geteuid() == 0
    if root:
        guard = find_guard(privileged=True)
        yield replace(plain, isolation=Isolation.FULL, guard=guard, host_cow=True, image_cow=True)
    shown, links = roots.host_shown()
    guard = _hiding(find_guard(privileged=False), home, options, views)
    why = msg("an overlay is not possible here") if root else msg("the server is not root")
    site = replace(plain, isolation=Isolation.READ_ONLY, guard=guard, shown=shown, links=links)
    yield site.with_notes(msg("Jobs cannot change the image host outside their home and /tmp: {why}.", why=why))


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


def _sandbox(site: Site) -> Sandbox:
    return Sandbox(bwrap=site.bwrap, guard=site.guard, seccomp=site.seccomp)


def _try_host(site: Site, views: Views, base: Path) -> Failure | None:
    return run_trial(_sandbox(site), lambda folder: host_root(site, views, folder), base)


def _with_disk(site: Site, views: Views, home: Path) -> Site:
    """What the disk of tasks' folders allows. A full one counts as able: a task that finds it full is not started."""
    if os.geteuid() != 0:
        return site
    holds = roots.holds_devices(home)
    site = replace(site, own_devices=holds is not False, devices_untried=holds is None)
    if not site.own_devices:
        site = site.with_notes(
            msg(
                "Jobs can change the permissions of /dev/null and the like: {home} cannot hold device files.", home=home
            )
        )
    if not site.host_cow:
        return site
    failure = _try_host(site, views, home)
    if failure is not None and not failure.temporary:
        note = msg(
            "What jobs change outside their home and /tmp is kept in memory: {home} cannot hold an overlay.", home=home
        )
        site = replace(site.with_notes(note), on_disk=False)
    if too_big := views.host_layers().view.too_big:
        some = ", ".join(too_big[:3])
        site = site.with_notes(
            msg("Folders with too many files to look through are hidden from jobs, such as {some}.", some=some)
        )
    return site


def _with_images(site: Site, views: Views, base: Path) -> Site:
    """An ordinary user, too, may lay an overlay over folders of his own."""
    if site.image_cow:
        return site

    def root(folder: TaskFolder) -> Root:
        lower = folder["lower"]
        os.mkdir(lower)
        overlay = Overlay(target="/", lowers=(lower, views.skeleton()), upper=folder["upper"], work=folder["work"])
        return Root(overlays=(overlay,), binds=site.shown, links=site.links, shell=site.host_shell, as_root=True)

    failure = run_trial(_sandbox(site), root, base)
    if failure is None:
        return replace(site, image_cow=True)
    if failure.temporary:
        raise TemporaryFailure(failure)
    return site.with_notes(msg("Jobs cannot change imported images outside their home and /tmp."))
