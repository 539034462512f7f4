"""Keeps the tasks' view of the machine up to date: the layers that hide its private files, and every image's skeleton.

Blocking: call it from a thread. Layers are immutable, since running tasks use them.

The machine's folders are searched again when their top or the mounts have changed, then only those that changed since;
and all of them every ten minutes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..mount_table import Mount, MountTable
from ..options import EmbeddedOptions
from ..tree_removal import remove_tree
from . import host, package_scan, saved_scan
from .library import DEBUG_TOOLS_FOLDER, PackageLibrary
from .private_files import FolderListing
from .roots import HostLayers

_LAYERS_PREFIX = "holdfast-layers-"
_OUTSIDE_FOLDERS = ("/run", "/dev/shm")
_OWNER_FILE = "home"  # a file that names the home of the layers
_NAME_FILE = "layers-name"  # a file in the home with the name of its layers outside
_NAME_PATTERN = re.compile(r"[0-9a-f]{32}\Z")
_MAX_TRIES = 10
SCAN_INTERVAL = 600.0  # seconds until the machine is searched again without a change
_RETRY_INTERVAL = 10.0  # seconds until then if something was unreadable


class SandboxLayers:
    def __init__(self, home: Path, options: EmbeddedOptions) -> None:
        self._home = home
        self._options = options
        self._lock = threading.Lock()
        self._layers: HostLayers | None = None
        self._skeleton: str | None = None
        self._library = PackageLibrary(options.library)
        self._library_folder = ""
        self._used_folders: set[str] = set()
        self._generation = -1  # of the package scan
        self._fingerprint = host.HostFingerprint((), ())
        self._hidden: frozenset[str] = frozenset()  # of the newest view
        self._memory: Mapping[str, FolderListing] | None = None
        self._scanned: tuple[int, tuple[int, ...]] | None = None  # the machine at the last scan, without mounts
        self._scan_due = 0.0
        self._mounts = MountTable()
        self._packages = package_scan.SHARED_SCANNER
        self._own_name = secrets.token_hex(16)  # of the layers, unless one is recorded

    def prepare_host_layers(self) -> HostLayers:
        """Return the layers for the image `host`, as the machine is now."""
        with self._lock:
            self._invalidate_stale_layers()
            if self._layers is None or not os.path.isdir(self._layers.folder):
                state = self._generation, self._fingerprint.changed
                view = self._scan_host(only_mounts_changed=state == self._scanned)
                self._scanned = state
                self._layers = HostLayers(view=view, folder=str(host.write_layers(view, self._prepare_base_folder())))
                self._used_folders.add(self._layers.folder)
                self._hidden = frozenset(entry.path for entry in view.hidden)
                self._memory = view.memory
                if view.unreadable:
                    self._scan_due = time.monotonic() + _RETRY_INTERVAL
            return self._layers

    def scan_host(self) -> host.HostView:
        with self._lock:
            return self._scan_host()

    def _scan_host(self, *, only_mounts_changed: bool = False) -> host.HostView:
        mounts, saved = self._mounts.read_mounts(), self._home / saved_scan.SCAN_FILE
        packages = self._packages.find_private_files(mounts, saved, only_mounts_changed=only_mounts_changed)
        view = host.scan_host((str(self._home), *self._options.hidden), mounts, packages, self._memory)
        return replace(view, files=(*view.files, *self._library.list_files(DEBUG_TOOLS_FOLDER)))

    def read_mounts(self) -> Sequence[Mount]:
        return self._mounts.read_mounts()

    def prepare_skeleton(self) -> str:
        """Return the folder that is mounted over every imported image."""
        with self._lock:
            self._invalidate_stale_layers()
            if self._skeleton is None:
                base = self._home / "skeletons"
                base.mkdir(mode=0o700, exist_ok=True)
                self._skeleton = str(host.write_skeleton(base, self._library.list_files(DEBUG_TOOLS_FOLDER)))
                self._used_folders.add(self._skeleton)
            return self._skeleton

    def prepare_library(self) -> str:
        """Return the folder with the packages of every task; empty if there are none."""
        with self._lock:
            if not self._library_folder and self._library.files:
                base = self._home / "libraries"
                base.mkdir(mode=0o700, exist_ok=True)
                self._library_folder = str(host.write_folder(base, self._library.list_files("")))
                self._used_folders.add(self._library_folder)
            return self._library_folder

    def delete_unused_layers(self, in_use: Collection[str]) -> None:
        """Remove layers that no task uses, and those of servers whose home no longer exists."""
        with self._lock:
            keep = {*in_use, *self._used_folders}  # a task may be starting on one
            base = self._prepare_base_folder()
            for folder in (self._home / "skeletons", self._home / "libraries", base):
                for entry in list(folder.iterdir()) if folder.is_dir() else []:
                    if entry.is_dir() and str(entry) not in keep:
                        remove_tree(str(entry))
            _delete_orphaned_layers(base, self._home, keep)

    def delete_outside_layers(self, in_use: Collection[str]) -> None:
        """Remove our folders outside our home, unless a task still uses them."""
        with self._lock:
            base = self._prepare_base_folder()
            if not in_use and not base.is_relative_to(self._home):
                remove_tree(str(base))
                (self._home / _NAME_FILE).unlink(missing_ok=True)

    def _invalidate_stale_layers(self) -> None:
        has_changed = self._update_fingerprint()
        now = time.monotonic()
        if now > self._scan_due:
            self._scan_due = now + SCAN_INTERVAL
            self._memory = self._scanned = None
        elif not has_changed:
            return
        self._layers = self._skeleton = None

    def _update_fingerprint(self) -> bool:
        before = self._generation, self._fingerprint
        self._generation, self._fingerprint = (
            self._packages.generation,
            host.read_host_fingerprint(self._mounts.read_mounts()),
        )
        if before == (self._generation, self._fingerprint):
            return False
        generation, stamp = before
        return generation != self._generation or stamp.without_hidden_mounts(
            self._hidden
        ) != self._fingerprint.without_hidden_mounts(self._hidden)

    def _prepare_base_folder(self) -> Path:
        """Return a folder on another filesystem than `/`: of two layers of one mount, none may be within the other."""
        root = os.stat("/").st_dev
        inside = self._home / "layers"
        for place in (self._home, *map(Path, _OUTSIDE_FOLDERS)):
            if os.path.isdir(place) and os.stat(place).st_dev != root:
                found = _prepare_private_folder(inside) if place == self._home else self._prepare_outside_folder(place)
                if found is not None and _supports_whiteouts(found):
                    (found / _OWNER_FILE).write_text(str(self._home))
                    return found
                if found is not None and place != self._home:
                    remove_tree(str(found))
        return _prepare_private_folder(inside) or self._home

    def _prepare_outside_folder(self, place: Path) -> Path | None:
        """Return our folder in a world-writable folder. Its name cannot be guessed; if another user takes it while we
        are down, we choose another."""
        for _ in range(_MAX_TRIES):
            found = _prepare_private_folder(place / f"{_LAYERS_PREFIX}{self._choose_name()}")
            if found is not None or not os.access(place, os.W_OK):
                return found
            (self._home / _NAME_FILE).unlink(missing_ok=True)
            self._own_name = secrets.token_hex(16)
        return None

    def _choose_name(self) -> str:
        """Return the name of the layers. Another server may share our home: the first recorded name wins. On a full
        disk none is recorded; the next server chooses another name and removes these."""
        try:
            return self._read_or_write_name()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return self._own_name

    def _read_or_write_name(self) -> str:
        file = self._home / _NAME_FILE
        name = self._own_name
        for _ in range(_MAX_TRIES):
            noted = _read_name(file)
            if noted is not None:
                return noted
            fresh = self._home / f"{_NAME_FILE}.{secrets.token_hex(8)}"
            try:
                fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(fd, "w") as out:
                    out.write(name)
                with suppress(FileExistsError):
                    file.hardlink_to(fresh)
            finally:
                fresh.unlink(missing_ok=True)
        return name


def _read_name(file: Path) -> str | None:
    """Read it; remove an invalid one, as after a power cut."""
    with suppress(FileNotFoundError):
        name = file.read_text(errors="replace")
        if _NAME_PATTERN.match(name):
            return name
        file.unlink()
    return None


def _supports_whiteouts(folder: Path) -> bool:
    """Return whether it supports whiteouts. An overlay, such as the root of many containers, does not."""
    probe = folder / f".probe-{os.getpid()}-{threading.get_ident()}"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, 0)
        probe.unlink()
    except OSError:
        return False
    return True


def _delete_orphaned_layers(base: Path, home: Path, keep: Collection[str]) -> None:
    """Remove layers of homes that no longer exist, and ours under another name; never those of another user."""
    if not base.name.startswith(_LAYERS_PREFIX):
        return
    for other in base.parent.glob(f"{_LAYERS_PREFIX}*"):
        with suppress(OSError):
            if other == base or not _is_private_folder(other):
                continue
            owner = Path((other / _OWNER_FILE).read_text())
            left = owner == home and not any(Path(path).is_relative_to(other) for path in keep)
            if left or not owner.exists():
                remove_tree(str(other))


def _prepare_private_folder(folder: Path) -> Path | None:
    """Return the folder if it is private to us; in a world-writable folder, another user may have created it first."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        return folder if _is_private_folder(folder) else None
    except OSError:
        return None


def _is_private_folder(folder: Path) -> bool:
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
