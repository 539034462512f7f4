"""Keeps what tasks see of the machine up to date: the layers that hide its private parts, and every image's skeleton.

Blocking: call it from a thread. Layers are never changed once written, for running tasks stand on them.

The machine's folders are searched anew when something near their top or in what is mounted has changed, then only those
that changed since; and all of them every ten minutes.
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
from .library import DEBUG_TOOLS, Library
from .private_files import Listing
from .roots import HostLayers

_PREFIX = "holdfast-layers-"
_OUTSIDE = ("/run", "/dev/shm")
_OWNER = "home"  # a file that names the home the layers belong to
_NAME = "layers-name"  # a file in the home that says what its layers outside are called
_NAME_FORM = re.compile(r"[0-9a-f]{32}\Z")
_TRIES = 10
SCAN_INTERVAL = 600.0  # seconds until the machine is searched again even if nothing seems to have changed
_RETRY_INTERVAL = 10.0  # seconds until then where something could not be examined


class Views:
    def __init__(self, home: Path, options: EmbeddedOptions) -> None:
        self._home = home
        self._options = options
        self._lock = threading.Lock()
        self._layers: HostLayers | None = None
        self._skeleton: str | None = None
        self._library = Library(options.library)
        self._library_folder = ""
        self._handed_out: set[str] = set()
        self._generation = -1  # of the scan of packages
        self._stamp = host.HostStamp((), ())
        self._hidden: frozenset[str] = frozenset()  # of the newest view
        self._memory: Mapping[str, Listing] | None = None
        self._scanned: tuple[int, tuple[int, ...]] | None = None  # how the machine was then, apart from its mounts
        self._scan_due = 0.0
        self._mounts = MountTable()
        self._packages = package_scan.SHARED
        self._own_name = secrets.token_hex(16)  # of the layers, unless one is noted

    def host_layers(self) -> HostLayers:
        """The layers for the image `host`, as the machine is now."""
        with self._lock:
            self._look()
            if self._layers is None or not os.path.isdir(self._layers.folder):
                state = self._generation, self._stamp.changed
                view = self._scan(only_mounts_changed=state == self._scanned)
                self._scanned = state
                self._layers = HostLayers(view=view, folder=str(host.write_layers(view, self._layers_base())))
                self._handed_out.add(self._layers.folder)
                self._hidden = frozenset(entry.path for entry in view.hidden)
                self._memory = view.memory
                if view.unreadable:
                    self._scan_due = time.monotonic() + _RETRY_INTERVAL
            return self._layers

    def scan(self) -> host.HostView:
        with self._lock:
            return self._scan()

    def _scan(self, *, only_mounts_changed: bool = False) -> host.HostView:
        mounts, saved = self._mounts.read(), self._home / saved_scan.FILE
        packages = self._packages.find(mounts, saved, only_mounts_changed=only_mounts_changed)
        view = host.scan_host((str(self._home), *self._options.hidden), mounts, packages, self._memory)
        return replace(view, files=(*view.files, *self._library.files_at(DEBUG_TOOLS)))

    def mounts(self) -> Sequence[Mount]:
        """The machine's mount table as it is now."""
        return self._mounts.read()

    def skeleton(self) -> str:
        """The folder that lies over every imported image."""
        with self._lock:
            self._look()
            if self._skeleton is None:
                base = self._home / "skeletons"
                base.mkdir(mode=0o700, exist_ok=True)
                self._skeleton = str(host.write_skeleton(base, self._library.files_at(DEBUG_TOOLS)))
                self._handed_out.add(self._skeleton)
            return self._skeleton

    def library(self) -> str:
        """The folder with the packages that every task has; empty when there are none."""
        with self._lock:
            if not self._library_folder and self._library.files:
                base = self._home / "libraries"
                base.mkdir(mode=0o700, exist_ok=True)
                self._library_folder = str(host.write_folder(base, self._library.files_at("")))
                self._handed_out.add(self._library_folder)
            return self._library_folder

    def clean(self, in_use: Collection[str]) -> None:
        """Remove layers that no task stands on, and those of servers whose home is no more."""
        with self._lock:
            keep = {*in_use, *self._handed_out}  # a task may be starting on one just now
            base = self._layers_base()
            for folder in (self._home / "skeletons", self._home / "libraries", base):
                for entry in list(folder.iterdir()) if folder.is_dir() else []:
                    if entry.is_dir() and str(entry) not in keep:
                        remove_tree(str(entry))
            _remove_orphans(base, self._home, keep)

    def leave(self, in_use: Collection[str]) -> None:
        """Take away what lies outside our home, unless some task still stands on it."""
        with self._lock:
            base = self._layers_base()
            if not in_use and not base.is_relative_to(self._home):
                remove_tree(str(base))
                (self._home / _NAME).unlink(missing_ok=True)

    def _look(self) -> None:
        has_changed = self._has_changed()
        now = time.monotonic()
        if now > self._scan_due:
            self._scan_due = now + SCAN_INTERVAL
            self._memory = self._scanned = None
        elif not has_changed:
            return
        self._layers = self._skeleton = None

    def _has_changed(self) -> bool:
        before = self._generation, self._stamp
        self._generation, self._stamp = self._packages.generation, host.host_stamp(self._mounts.read())
        if before == (self._generation, self._stamp):
            return False
        generation, stamp = before
        return generation != self._generation or stamp.visible(self._hidden) != self._stamp.visible(self._hidden)

    def _layers_base(self) -> Path:
        """On another filesystem than `/`: of two layers of one mount, none may lie within the other."""
        root = os.stat("/").st_dev
        inside = self._home / "layers"
        for place in (self._home, *map(Path, _OUTSIDE)):
            if os.path.isdir(place) and os.stat(place).st_dev != root:
                found = _private(inside) if place == self._home else self._outside(place)
                if found is not None and _takes_whiteouts(found):
                    (found / _OWNER).write_text(str(self._home))
                    return found
                if found is not None and place != self._home:
                    remove_tree(str(found))
        return _private(inside) or self._home

    def _outside(self, place: Path) -> Path | None:
        """A folder of ours in a place open to everyone. Nobody can guess its name; whoever has seen it and taken it
        while we were away only makes us take another."""
        for _ in range(_TRIES):
            found = _private(place / f"{_PREFIX}{self._name()}")
            if found is not None or not os.access(place, os.W_OK):
                return found
            (self._home / _NAME).unlink(missing_ok=True)
            self._own_name = secrets.token_hex(16)
        return None

    def _name(self) -> str:
        """Another server may share our home: whoever notes a name first has chosen it. On a full disk none is noted,
        and the next server takes another name and removes what is left under this one."""
        try:
            return self._noted_name()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return self._own_name

    def _noted_name(self) -> str:
        file = self._home / _NAME
        name = self._own_name
        for _ in range(_TRIES):
            noted = _read_name(file)
            if noted is not None:
                return noted
            fresh = self._home / f"{_NAME}.{secrets.token_hex(8)}"
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
    """What is no name, as after a power cut, is taken away."""
    with suppress(FileNotFoundError):
        name = file.read_text(errors="replace")
        if _NAME_FORM.match(name):
            return name
        file.unlink()
    return None


def _takes_whiteouts(folder: Path) -> bool:
    """An overlay itself, as the root of a container often is, does not."""
    probe = folder / f".probe-{os.getpid()}-{threading.get_ident()}"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, 0)
        probe.unlink()
    except OSError:
        return False
    return True


def _remove_orphans(base: Path, home: Path, keep: Collection[str]) -> None:
    """Layers of homes that are no more, and those of ours under another name; never what belongs to someone else."""
    if not base.name.startswith(_PREFIX):
        return
    for other in base.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if other == base or not _is_ours(other):
                continue
            owner = Path((other / _OWNER).read_text())
            left = owner == home and not any(Path(path).is_relative_to(other) for path in keep)
            if left or not owner.exists():
                remove_tree(str(other))


def _private(folder: Path) -> Path | None:
    """That folder, if it is ours alone; in a place open to everyone, somebody else may have been there first."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        return folder if _is_ours(folder) else None
    except OSError:
        return None


def _is_ours(folder: Path) -> bool:
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
