"""What a task on the image `host` sees of this machine: what every local user may read, and no more.

Root inside a task could read every file, so what is private is taken away beforehand: a scan finds it, and two
read-only layers hide it. The lower one, `mask`, is made of whiteouts only; the upper one, `skel`, puts fresh folders
in place of those that must exist (/tmp, /root, ...). Both are shared by all tasks, so a start costs nothing more.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cleaning import remove_tree
from .render import ENTRY, HOME, OWN, SCRIPT

# Shown of the root folder; everything else there is hidden unless an admin shows it.
SHOWN = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "var", "nix")
# Always there, fresh and writable: path and mode.
FRESH = (
    ("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/home", 0o755), (HOME, 0o755), ("/run", 0o755),
    ("/run/lock", 0o1777), (OWN, 0o755), ("/mnt", 0o755), ("/media", 0o755), ("/srv", 0o755),
    ("/proc", 0o555), ("/sys", 0o555), ("/dev", 0o755),
)  # fmt: skip
# Looked through for what is private. The rest of /usr comes out of packages, which hold no secrets.
_SEARCHED = ("/etc", "/var", "/opt", "/usr/local", "/nix/var")
_SCAN_BUDGET = 300_000  # entries; what is not reached by then is hidden
_WHITEOUT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """One thing of the machine that tasks must not see."""

    path: str
    mode: int | None = None  # a folder that stays, empty, with this mode; None: gone
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What to hide, and from which filesystems the root is made."""

    hidden: tuple[Hidden, ...]
    mounts: tuple[str, ...]  # filesystems below /, such as a separate /usr, that need a mount of their own
    files: tuple[tuple[str, bytes, int], ...]  # written into the skeleton: path, content, mode
    too_big: tuple[str, ...] = ()  # hidden only because there was too much to look through


def scan_host(hidden: Iterable[str]) -> HostView:
    mounts = _shown_mounts()
    devices = {os.lstat("/").st_dev, *mounts.values()}
    found = [Hidden(path=os.path.realpath(path)) for path in hidden if os.path.lexists(path)]
    found += _top_level()
    found += [entry for entry in _fresh() if os.path.lexists(entry.path)]
    skip = {entry.path for entry in found}
    private, too_big = _search(_SEARCHED, devices, skip)
    hidden_folders = {*skip, *(entry.path for entry in private)}  # what is mounted in them stays hidden as well
    return HostView(
        hidden=tuple(sorted((*found, *private), key=lambda entry: entry.path)),
        mounts=tuple(path for path in mounts if not _within(path, hidden_folders)),
        files=tuple(_skeleton_files()),
        too_big=tuple(too_big),
    )


def host_stamp() -> tuple[int, ...]:
    """Cheap to take; differs when something near the top of the machine's tree was added or changed."""
    stamp = []
    for path in ("/", "/etc", "/var", "/opt", "/etc/resolv.conf", "/etc/hosts", "/etc/passwd"):
        try:
            stamp.append(os.stat(path).st_mtime_ns)
        except OSError:
            stamp.append(0)
    return tuple(stamp)


def _top_level() -> Iterable[Hidden]:
    for name in sorted(os.listdir("/")):
        path = f"/{name}"
        if name not in SHOWN and path not in dict(FRESH):
            yield Hidden(path=path)


def _fresh() -> Iterable[Hidden]:
    for path, mode in FRESH:
        if path.count("/") == 1 or path == "/var/tmp":  # the others are hidden with the folders they are in
            yield Hidden(path=path, mode=mode)


def _shown_mounts() -> dict[str, int]:
    """Mount points below the folders we show, outermost first, and their devices. Those that we may not even look at,
    or that are gone by now, no task sees."""
    points = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        point = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        kind = line.rpartition(" - ")[2].split(" ")[0]
        if point.split("/")[1] in SHOWN and kind in _REAL_FILESYSTEMS and (found := _folder_at(point)) is not None:
            points[point] = found.st_dev
    return dict(sorted(points.items()))


def _folder_at(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISDIR(found.st_mode) else None


_REAL_FILESYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "squashfs", "erofs"})


def _search(tops: Iterable[str], devices: set[int], skip: set[str]) -> tuple[list[Hidden], list[str]]:
    """Walk breadth first, so that what the budget cuts off lies deep."""
    private: list[Hidden] = []
    queue = deque(top for top in tops if Path(top).is_dir() and not Path(top).is_symlink())
    budget = _SCAN_BUDGET
    while queue and budget > 0:
        folder = queue.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        budget -= len(entries)
        for entry in entries:
            if entry.path not in skip and (status := _status(entry)) is not None:
                _judge(entry.path, status, devices, private, queue)
    private += [Hidden(path=path, mode=0o755) for path in queue]
    return private, list(queue)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _judge(path: str, status: os.stat_result, devices: set[int], private: list[Hidden], queue: deque[str]) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return
    if stat.S_ISDIR(mode):
        if status.st_dev not in devices:
            return  # another filesystem: not part of what is shown
        if mode & 0o005 == 0o005:
            queue.append(path)
        else:
            private.append(Hidden(path=path, mode=stat.S_IMODE(mode), uid=status.st_uid, gid=status.st_gid))
    elif not stat.S_ISREG(mode) or not mode & 0o004:
        private.append(Hidden(path=path))  # sockets, pipes and devices too: they lead out


def _skeleton_files() -> Iterable[tuple[str, bytes, int]]:
    yield SCRIPT, b"", 0o555
    yield ENTRY, b"", 0o555
    # Often links into /run, which is hidden.
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if Path(path).is_symlink() and Path(path).is_file():
            yield path, Path(path).read_bytes(), 0o644
    # Programs expect these to exist; nobody's password is in them.
    yield "/etc/shadow", _without_passwords("/etc/passwd", b"%s:*:19000:0:99999:7:::\n"), 0o640
    yield "/etc/gshadow", _without_passwords("/etc/group", b"%s:*::\n"), 0o640


def _without_passwords(names_from: str, line: bytes) -> bytes:
    try:
        names = [row.split(b":")[0] for row in Path(names_from).read_bytes().splitlines() if b":" in row]
    except OSError:
        names = [b"root"]
    return b"".join(line % name for name in names)


def _within(path: str, folders: set[str]) -> bool:
    while path not in folders:
        if path in ("/", ""):
            return False
        path = os.path.dirname(path)
    return True


# --- writing the layers -------------------------------------------------------------------------------------------


def view_name(view: HostView) -> str:
    """The same view has the same name, so that a restarted server uses the layers that are there."""
    text = repr((view.hidden, view.mounts, view.files))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def write_layers(view: HostView, base: Path) -> Path:
    """Make the two layers below `base`; answers their folder. Complete or not there."""

    def fill(draft: Path) -> None:
        (draft / "mask").mkdir()
        (draft / "skel").mkdir()
        for layer in ("mask", "skel"):
            os.chmod(draft / layer, 0o755)
        _write_mask(draft / "mask", view)
        _write_skeleton(draft / "skel", view)

    return _write_once(base, view_name(view), fill)


def write_skeleton(base: Path, more: Iterable[tuple[str, bytes, int]] = ()) -> Path:
    """What lies over every imported image: places to write to, and how to reach the network."""
    files = [(SCRIPT, b"", 0o555), (ENTRY, b"", 0o555), *more]
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if Path(path).is_file():
            files.append((path, Path(path).read_bytes(), 0o644))

    return write_folder(base, files, _write_fresh)


def write_folder(
    base: Path, files: Sequence[tuple[str, bytes, int]], prepare: Callable[[Path], None] = lambda draft: None
) -> Path:
    """A folder with exactly these files, below `base`: path within it, content, mode."""

    def fill(draft: Path) -> None:
        os.chmod(draft, 0o755)
        prepare(draft)
        for path, content, mode in files:
            _file(draft, path, content, mode)

    return _write_once(base, hashlib.sha256(repr(files).encode()).hexdigest()[:20], fill)


def _write_once(base: Path, name: str, fill: Callable[[Path], None]) -> Path:
    final = base / name
    if not final.is_dir():
        draft = base / f".draft-{os.getpid()}-{threading.get_ident()}"
        remove_tree(str(draft))
        draft.mkdir(mode=0o755)
        fill(draft)
        try:
            draft.rename(final)
        except OSError:  # somebody else was quicker
            remove_tree(str(draft))
    return final


def _write_mask(layer: Path, view: HostView) -> None:
    gone = {entry.path for entry in view.hidden}
    for path in sorted(gone):
        if not _within(os.path.dirname(path), gone):
            _whiteout(layer, path)


def _write_skeleton(layer: Path, view: HostView) -> None:
    for entry in view.hidden:
        if entry.mode is not None:
            _folder(layer, entry.path, entry.mode, (entry.uid, entry.gid))
    _write_fresh(layer)
    for path, content, mode in view.files:
        _file(layer, path, content, mode)


def _write_fresh(layer: Path) -> None:
    for path, mode in FRESH:
        _folder(layer, path, mode, (os.geteuid(), os.getegid()))


def _whiteout(layer: Path, path: str) -> None:
    target = _parents(layer, path)
    os.mknod(target, stat.S_IFCHR | 0o600, _WHITEOUT)


def _folder(layer: Path, path: str, mode: int, owner: tuple[int, int]) -> None:
    target = _parents(layer, path)
    target.mkdir(exist_ok=True)
    os.chmod(target, mode)
    if os.geteuid() == 0:
        os.chown(target, *owner)


def _file(layer: Path, path: str, content: bytes, mode: int) -> None:
    target = _parents(layer, path)
    target.write_bytes(content)
    os.chmod(target, mode)


def _parents(layer: Path, path: str) -> Path:
    """The place of `path` in a layer, its parents made to look like the machine's own."""
    place = layer
    source = "/"
    for part in Path(path).parts[1:-1]:
        place, source = place / part, os.path.join(source, part)
        if not place.is_dir():
            place.mkdir()
            _look_like(place, source)
    return place / Path(path).name


def _look_like(place: Path, source: str) -> None:
    try:
        original = os.stat(source)
    except OSError:
        os.chmod(place, 0o755)
        return
    os.chmod(place, stat.S_IMODE(original.st_mode))
    if os.geteuid() == 0:
        os.chown(place, original.st_uid, original.st_gid)
