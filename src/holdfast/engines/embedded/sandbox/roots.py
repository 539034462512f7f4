"""Builds a task's root filesystem and its folders from the `Site` and the image."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.engines.sandbox_paths import HOME_PATH, LIBRARY_PATH

from ..task_folder import TaskFolder
from ..temporary_errors import TEMPORARY_ERRORS
from .host import FRESH_FOLDERS, SHOWN_FOLDERS, HostView
from .library import DEBUG_TOOLS_FOLDER
from .render import Bind, Overlay, SandboxRoot

DEVICE_PATHS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")  # the harmless ones

# On disk even if changes to the rest of the root filesystem are in memory or denied.
WRITABLE_FOLDERS = (HOME_PATH, "/tmp", "/var/tmp", "/root", "/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLayers:
    """The view of the machine and the paths of its two hiding layers."""

    view: HostView
    folder: str

    def list_lower_layers(self, mount: str) -> tuple[str, ...]:
        """Return the lower layers, from the bottom up, of one of the root's filesystems."""
        below = "" if mount == "/" else mount
        layers = (f"{self.folder}/mask{below}", f"{self.folder}/skel{below}")
        return (mount, *(layer for layer in layers if os.path.isdir(layer)))


def make_host_overlay_root(folder: TaskFolder, layers: HostLayers, *, on_disk: bool) -> SandboxRoot:
    """Return the machine's own root, copy-on-write. Needs root."""
    mounts = ("/", *layers.view.mounts)
    overlays = tuple(_make_overlay(folder, mount, layers.list_lower_layers(mount), on_disk) for mount in mounts)
    return SandboxRoot(
        overlays=overlays, binds=() if on_disk else _make_writable_binds(folder), lower_folders=(layers.folder,)
    )


def make_host_bind_root(folder: TaskFolder, shown: tuple[Bind, ...], links: tuple[tuple[str, str], ...]) -> SandboxRoot:
    """Return the machine's own root, read-only, on a writable folder. Works for an ordinary user."""
    root = Bind(source=folder["root"], target="/", read_only=False)
    var_tmp = Bind(source=folder["var-tmp"], target="/var/tmp", read_only=False)
    return SandboxRoot(binds=(root, *shown, var_tmp), links=links)


def make_image_overlay_root(folder: TaskFolder, rootfs: str, skeleton: str, *, on_disk: bool) -> SandboxRoot:
    overlay = _make_overlay(folder, "/", (rootfs, skeleton), on_disk)
    return SandboxRoot(overlays=(overlay,), binds=() if on_disk else _make_writable_binds(folder), lower=rootfs)


def make_image_bind_root(folder: TaskFolder, rootfs: str) -> SandboxRoot:
    """Return an imported image, read-only except for a few folders."""
    root = Bind(source=rootfs, target="/", read_only=False)  # locked once everything else is mounted
    return SandboxRoot(binds=(root, *_make_writable_binds(folder)), locked=True, lower=rootfs)


def _make_overlay(folder: TaskFolder, target: str, lowers: tuple[str, ...], on_disk: bool) -> Overlay:
    if not on_disk:
        return Overlay(target=target, lowers=lowers)
    suffix = "" if target == "/" else target.replace("/", ".")
    return Overlay(target=target, lowers=lowers, upper=folder[f"upper{suffix}"], work=folder[f"work{suffix}"])


def _make_writable_binds(folder: TaskFolder) -> tuple[Bind, ...]:
    return tuple(
        Bind(source=folder[f"place{path.replace('/', '.')}"], target=path, read_only=False) for path in WRITABLE_FOLDERS
    )


def find_home_path(root: SandboxRoot) -> str:
    """Return the path of its home in the task's folder; empty: none."""
    for bind in root.binds:
        if bind.target == HOME_PATH and not bind.read_only:
            return os.path.basename(bind.source)
    uppers = [overlay.upper for overlay in root.overlays if overlay.target == "/" and overlay.upper]
    uppers += [bind.source for bind in root.binds if bind.target == "/" and not root.locked]
    return f"{os.path.basename(uppers[0])}{HOME_PATH}" if uppers else ""


def find_host_binds_and_links() -> tuple[tuple[Bind, ...], tuple[tuple[str, str], ...]]:
    """Return the machine's folders to bind and its links to copy, for a root made of binds."""
    binds, links = [], []
    for name in SHOWN_FOLDERS:
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


def make_own_device_binds(folder: TaskFolder) -> tuple[Bind, ...]:
    """Return device files of the task's own: a task of root could change the machine's."""
    return tuple(
        Bind(source=folder[path[1:].replace("/", ".")], target=path, device=True) for path in _read_device_numbers()
    )


@cache
def _read_device_numbers() -> Mapping[str, int]:
    """Return the machine's device numbers, which the kernel fixes."""
    return {path: os.stat(path).st_rdev for path in DEVICE_PATHS if os.path.exists(path)}


def supports_device_files(home: Path) -> bool | None:
    """False on filesystems mounted nodev, and in many containers. None: unknown now, such as on a full disk."""
    probe = str(home / f"device-{os.getpid()}")
    try:
        _create_device(probe, os.stat("/dev/null").st_rdev)
        try:
            os.close(os.open(probe, os.O_RDWR | os.O_CLOEXEC))
        finally:
            os.unlink(probe)
    except OSError as error:
        return None if error.errno in TEMPORARY_ERRORS else False
    return True


def _create_device(path: str, number: int) -> None:
    with suppress(FileExistsError):
        os.mknod(path, stat.S_IFCHR | 0o600, number)
    os.chmod(path, 0o666)


def create_root_folders(folder: TaskFolder, root: SandboxRoot) -> None:
    """Create the writable folders of a root, and its devices; existing ones are kept."""
    for device in root.devices:
        _create_device(device.source, _read_device_numbers()[device.target])
    for overlay in root.overlays:
        if overlay.upper:
            _create_folder(overlay.upper, 0o755)
            _create_folder(overlay.work, 0o700)
    for bind in root.binds:
        if not bind.read_only and bind.source.startswith(folder.path + "/"):
            _create_folder(bind.source, dict(FRESH_FOLDERS).get(bind.target, 0o755))
            if bind.target == "/":
                _create_fresh_folders(bind.source)
                _link_debug_tools(bind.source, root.library)


def _create_fresh_folders(root: str) -> None:
    for path, mode in FRESH_FOLDERS:
        if not path.startswith("/var/"):
            _create_folder(root + path, mode)


def _link_debug_tools(root: str, library: str) -> None:
    """Create the links that layers contain where the root is made of them."""
    if library:
        os.makedirs(root + DEBUG_TOOLS_FOLDER, mode=0o755, exist_ok=True)
        for name in os.listdir(library):
            with suppress(FileExistsError):
                os.symlink(f"{LIBRARY_PATH}/{name}", f"{root}{DEBUG_TOOLS_FOLDER}/{name}")


def _create_folder(path: str, mode: int) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, mode)


def find_shell(rootfs: str) -> str | None:
    """Return the best shell of a root filesystem, as a path inside it; links are resolved within it."""
    for candidate in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh"):
        found = find_path_inside(rootfs, candidate)
        if found is not None and found.is_file() and os.access(found, os.X_OK):
            return candidate
    return None


def find_path_inside(rootfs: str, path: str) -> Path | None:
    """Resolve `path` with `rootfs` as the root folder; None if it does not exist."""
    inside = resolve_path_inside(rootfs, path)
    found = Path(rootfs + inside) if inside is not None else None
    return found if found is not None and os.path.lexists(found) else None


def resolve_path_inside(rootfs: str, path: str) -> str | None:
    """Resolve all links of `path` within `rootfs`, whether it exists or not; None if they form a loop."""
    place: list[str] = []
    parts = _split_reversed(path)
    hops = 0
    while parts:
        part = parts.pop()
        if part == "..":
            place = place[:-1]
            continue
        try:  # of plain strings: unpacking an image resolves every folder of it
            target = os.readlink("/".join((rootfs, *place, part)))
        except OSError:  # not a link, or it does not exist
            place.append(part)
            continue
        hops += 1
        if hops > 40:
            return None
        if target.startswith("/"):
            place = []
        parts += _split_reversed(target)
    return "/" + "/".join(place)


def _split_reversed(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
