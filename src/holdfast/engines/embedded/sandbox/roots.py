"""Puts a task's root filesystem together from what the machine allows: `Site` + image -> `Root`, and its folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..sandbox_paths import HOME, LIBRARY
from ..task_folder import TaskFolder
from ..temporary_errors import TEMPORARY_ERRORS
from .host import FRESH, SHOWN, HostView
from .library import DEBUG_TOOLS
from .render import Bind, Overlay, Root

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")  # the harmless ones

# Kept on disk even where changes to the rest of the root filesystem are kept in memory or refused.
PLACES = (HOME, "/tmp", "/var/tmp", "/root", "/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLayers:
    """The view of the machine and where its two hiding layers lie."""

    view: HostView
    folder: str

    def lowers(self, mount: str) -> tuple[str, ...]:
        """From the bottom up, for one of the filesystems the root is made of."""
        below = "" if mount == "/" else mount
        layers = (f"{self.folder}/mask{below}", f"{self.folder}/skel{below}")
        return (mount, *(layer for layer in layers if os.path.isdir(layer)))


def host_overlay(folder: TaskFolder, layers: HostLayers, *, on_disk: bool) -> Root:
    """The machine's own root, copy-on-write. Needs root."""
    mounts = ("/", *layers.view.mounts)
    overlays = tuple(_overlay(folder, mount, layers.lowers(mount), on_disk) for mount in mounts)
    return Root(overlays=overlays, binds=() if on_disk else _places(folder), stands_on=(layers.folder,))


def host_binds(folder: TaskFolder, shown: tuple[Bind, ...], links: tuple[tuple[str, str], ...]) -> Root:
    """The machine's own root, read-only, on a writable folder. What an ordinary user can have."""
    root = Bind(source=folder["root"], target="/", read_only=False)
    var_tmp = Bind(source=folder["var-tmp"], target="/var/tmp", read_only=False)
    return Root(binds=(root, *shown, var_tmp), links=links)


def image_overlay(folder: TaskFolder, rootfs: str, skeleton: str, *, on_disk: bool) -> Root:
    """An imported image, copy-on-write."""
    overlay = _overlay(folder, "/", (rootfs, skeleton), on_disk)
    return Root(overlays=(overlay,), binds=() if on_disk else _places(folder), lower=rootfs)


def image_binds(folder: TaskFolder, rootfs: str) -> Root:
    """An imported image, read-only but for a few places."""
    root = Bind(source=rootfs, target="/", read_only=False)  # locked once everything else is mounted
    return Root(binds=(root, *_places(folder)), locked=True, lower=rootfs)


def _overlay(folder: TaskFolder, target: str, lowers: tuple[str, ...], on_disk: bool) -> Overlay:
    if not on_disk:
        return Overlay(target=target, lowers=lowers)
    suffix = "" if target == "/" else target.replace("/", ".")
    return Overlay(target=target, lowers=lowers, upper=folder[f"upper{suffix}"], work=folder[f"work{suffix}"])


def _places(folder: TaskFolder) -> tuple[Bind, ...]:
    return tuple(Bind(source=folder[f"place{path.replace('/', '.')}"], target=path, read_only=False) for path in PLACES)


def home_of(root: Root) -> str:
    """Where in the task's folder lies what it writes to its home; empty: nowhere."""
    for bind in root.binds:
        if bind.target == HOME and not bind.read_only:
            return os.path.basename(bind.source)
    uppers = [overlay.upper for overlay in root.overlays if overlay.target == "/" and overlay.upper]
    uppers += [bind.source for bind in root.binds if bind.target == "/" and not root.locked]
    return f"{os.path.basename(uppers[0])}{HOME}" if uppers else ""


def host_shown() -> tuple[tuple[Bind, ...], tuple[tuple[str, str], ...]]:
    """The machine's folders to bind and its links to repeat, for a root made of binds."""
    binds, links = [], []
    for name in SHOWN:
        path = f"/{name}"
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            binds.append(Bind(source=path, target=path))
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        real = os.path.realpath(path)
        if os.path.isfile(real) and real.startswith("/run/"):
            binds.append(Bind(source=real, target=real))
    return tuple(binds), tuple(links)


def own_devices(folder: TaskFolder) -> tuple[Bind, ...]:
    """A task of root owns every file root owns, and those of /dev would be the machine's own."""
    return tuple(Bind(source=folder[path[1:].replace("/", ".")], target=path, device=True) for path in _find_devices())


@cache
def _find_devices() -> Mapping[str, int]:
    """Those of the machine's, with their numbers: the kernel fixes them."""
    return {path: os.stat(path).st_rdev for path in DEVICES if os.path.exists(path)}


def holds_devices(home: Path) -> bool | None:
    """Device files made there can be used; not so on filesystems mounted nodev, and in many containers. None: that
    cannot be found out now, as on a full disk."""
    probe = str(home / f"device-{os.getpid()}")
    try:
        _make_device(probe, os.stat("/dev/null").st_rdev)
        try:
            os.close(os.open(probe, os.O_RDWR | os.O_CLOEXEC))
        finally:
            os.unlink(probe)
    except OSError as error:
        return None if error.errno in TEMPORARY_ERRORS else False
    return True


def _make_device(path: str, number: int) -> None:
    with suppress(FileExistsError):
        os.mknod(path, stat.S_IFCHR | 0o600, number)
    os.chmod(path, 0o666)


def make_folders(folder: TaskFolder, root: Root) -> None:
    """The writable folders a root needs, and its devices; made before: kept."""
    for device in root.devices:
        _make_device(device.source, _find_devices()[device.target])
    for overlay in root.overlays:
        if overlay.upper:
            _make(overlay.upper, 0o755)
            _make(overlay.work, 0o700)
    for bind in root.binds:
        if not bind.read_only and bind.source.startswith(folder.path + "/"):
            _make(bind.source, dict(FRESH).get(bind.target, 0o755))
            if bind.target == "/":
                _make_fresh(bind.source)
                _link_tools(bind.source, root.library)


def _make_fresh(root: str) -> None:
    for path, mode in FRESH:
        if not path.startswith("/var/"):
            _make(root + path, mode)


def _link_tools(root: str, library: str) -> None:
    """What layers hold where the root is made of them."""
    if library:
        os.makedirs(root + DEBUG_TOOLS, mode=0o755, exist_ok=True)
        for name in os.listdir(library):
            with suppress(FileExistsError):
                os.symlink(f"{LIBRARY}/{name}", f"{root}{DEBUG_TOOLS}/{name}")


def _make(path: str, mode: int) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, mode)


def find_shell(rootfs: str) -> str | None:
    """The best shell of a root filesystem, as a path inside it; links are followed within it, never out."""
    for candidate in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh"):
        found = resolve_inside(rootfs, candidate)
        if found is not None and found.is_file() and os.access(found, os.X_OK):
            return candidate
    return None


def resolve_inside(rootfs: str, path: str) -> Path | None:
    """Where `path` lies when `rootfs` is the root folder; None when it leads nowhere."""
    inside = follow_inside(rootfs, path)
    found = Path(rootfs + inside) if inside is not None else None
    return found if found is not None and os.path.lexists(found) else None


def follow_inside(rootfs: str, path: str) -> str | None:
    """`path` with all links followed within `rootfs`, whether it exists or not; None when links go in circles."""
    place: list[str] = []
    parts = list(reversed(Path(path).parts[1:]))
    hops = 0
    while parts:
        part = parts.pop()
        if part == "..":
            place = place[:-1]
            continue
        here = Path(rootfs, *place, part)
        if not here.is_symlink():
            place.append(part)
            continue
        hops += 1
        if hops > 40:
            return None
        target = Path(os.readlink(here))
        if target.is_absolute():
            place = []
        parts += reversed([piece for piece in target.parts if piece != "/"])
    return "/" + "/".join(place)
