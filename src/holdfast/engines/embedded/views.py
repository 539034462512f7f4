"""Keeps what tasks see of the machine up to date: the layers that hide its private parts, and every image's skeleton.

Blocking: call it from a thread. Layers are never changed once written, for running tasks stand on them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from . import host
from .cleaning import remove_tree
from .options import EmbeddedOptions
from .roots import HostLayers

_PREFIX = "holdfast-layers-"
_OUTSIDE = ("/run", "/dev/shm")
_OWNER = "home"  # a file that names the home the layers belong to
_OLDEST = 600.0  # seconds until the machine is looked through again even if nothing seems to have changed


class Views:
    def __init__(self, home: Path, tag: str, options: EmbeddedOptions) -> None:
        self._home = home
        self._tag = tag
        self._options = options
        self._lock = threading.Lock()
        self._layers: HostLayers | None = None
        self._skeleton: str | None = None
        self._handed_out: set[str] = set()
        self._stamp: tuple[int, ...] = ()
        self._taken_at = 0.0

    def host_layers(self) -> HostLayers:
        """The layers for the image `host`, as the machine is now."""
        with self._lock:
            self._look()
            if self._layers is None or not os.path.isdir(self._layers.folder):
                view = self.scan()
                self._layers = HostLayers(view=view, folder=str(host.write_layers(view, self._layers_base())))
                self._handed_out.add(self._layers.folder)
            return self._layers

    def scan(self) -> host.HostView:
        return host.scan_host((str(self._home), *self._options.hidden))

    def skeleton(self) -> str:
        """The folder that lies over every imported image."""
        with self._lock:
            self._look()
            if self._skeleton is None:
                base = self._home / "skeletons"
                base.mkdir(mode=0o700, exist_ok=True)
                self._skeleton = str(host.write_skeleton(base))
                self._handed_out.add(self._skeleton)
            return self._skeleton

    def clean(self, in_use: Collection[str]) -> None:
        """Remove layers that no task stands on, and those of servers whose home is no more."""
        with self._lock:
            keep = {*in_use, *self._handed_out}  # a task may be starting on one just now
            base = self._layers_base()
            for folder in (self._home / "skeletons", base):
                for entry in list(folder.iterdir()) if folder.is_dir() else []:
                    if entry.is_dir() and str(entry) not in keep:
                        remove_tree(str(entry))
            _remove_orphans(base)

    def leave(self, in_use: Collection[str]) -> None:
        """Take away what lies outside our home, unless some task still stands on it."""
        with self._lock:
            base = self._layers_base()
            if not in_use and not base.is_relative_to(self._home):
                remove_tree(str(base))

    def _look(self) -> None:
        stamp = host.host_stamp()
        now = time.monotonic()
        if stamp != self._stamp or now - self._taken_at > _OLDEST:
            self._stamp, self._taken_at = stamp, now
            self._layers = self._skeleton = None

    def _layers_base(self) -> Path:
        """On another filesystem than `/`: of two layers of one mount, none may lie within the other."""
        root = os.stat("/").st_dev
        inside = self._home / "layers"
        for folder in (inside, *(Path(place, f"{_PREFIX}{self._tag}") for place in _OUTSIDE)):
            if os.path.isdir(folder.parent) and os.stat(folder.parent).st_dev != root:
                found = _private(folder)
                if found is not None and _takes_whiteouts(found):
                    (found / _OWNER).write_text(str(self._home))
                    return found
        return _private(inside) or self._home


def _takes_whiteouts(folder: Path) -> bool:
    """An overlay itself, as the root of a container often is, does not."""
    probe = folder / f".probe-{os.getpid()}-{threading.get_ident()}"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, 0)
        probe.unlink()
    except OSError:
        return False
    return True


def _remove_orphans(base: Path) -> None:
    if not base.name.startswith(_PREFIX):
        return
    for other in base.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            home = Path((other / _OWNER).read_text())
            if _private(other) is not None and not home.exists():
                remove_tree(str(other))


def _private(folder: Path) -> Path | None:
    """That folder, if it is ours alone; in a place open to everyone, somebody else may have been there first."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return folder if ours else None
