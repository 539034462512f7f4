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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..mount_table import REAL_FILESYSTEMS, Mount, is_folder, top_mounts
from ..sandbox_paths import ENTRY, HOME, OWN, SCRIPT
from ..tree_removal import remove_tree
from .private_files import Hidden, Listing, PrivateFiles, find_private_files

# Shown of the root folder; everything else there is hidden unless an admin shows it.
SHOWN = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "var", "nix")
# Always there, fresh and writable: path and mode.
FRESH = (
    ("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/home", 0o755), (HOME, 0o755), ("/run", 0o755),
    ("/run/lock", 0o1777), (OWN, 0o755), ("/mnt", 0o755), ("/media", 0o755), ("/srv", 0o755),
    ("/proc", 0o555), ("/sys", 0o555), ("/dev", 0o755),
)  # fmt: skip
# Searched for private files each time the machine is looked at.
_SEARCHED = ("/etc", "/var", "/opt", "/usr/local", "/nix/var")
# The rest of what is shown: packages. Large, and rarely changed.
_PACKAGES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")
_MAX_ENTRIES = 300_000  # searched; folders that are not reached by then are hidden
_MAX_PACKAGE_ENTRIES = 2_000_000
_WHITEOUT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What to hide, and from which filesystems the root is made."""

    hidden: tuple[Hidden, ...]
    mounts: tuple[str, ...]  # filesystems below /, such as a separate /usr, that need a mount of their own
    files: tuple[tuple[str, bytes, int], ...]  # written into the skeleton: path, content, mode
    too_big: tuple[str, ...] = ()  # hidden only because there was too much to search
    unreadable: tuple[str, ...] = ()  # hidden only because they could not be examined
    memory: Mapping[str, Listing] = field(default_factory=dict, compare=False, repr=False)  # for the next scan


@dataclass(frozen=True, slots=True)
class HostStamp:
    """Cheap to take; differs when something near the top of the machine's tree or in its mounts has changed."""

    mounts: tuple[Mount, ...]
    changed: tuple[int, ...]  # when some files and folders were

    def visible(self, hidden: Collection[str]) -> HostStamp:
        """Without what is mounted inside hidden folders, as containers of other programs are."""
        seen = [mount for mount in self.mounts if not _within(os.path.dirname(mount.point), hidden)]
        return replace(self, mounts=tuple(seen))


def scan_host(
    hidden: Iterable[str],
    mounts: Sequence[Mount],
    packages: PrivateFiles,
    known: Mapping[str, Listing] | None = None,
) -> HostView:
    """What to hide of the machine as it is now. `packages` is what `scan_packages` has found, `known` the memory of an
    earlier scan, if not all folders need be listed."""
    overlaid, covered = _split_mounts(mounts)
    found = [Hidden(path=os.path.realpath(path)) for path in hidden if os.path.lexists(path)]
    found += _top_level()
    found += [entry for entry in _fresh() if os.path.lexists(entry.path)]
    skip = {*(entry.path for entry in found), *(entry.path for entry in covered)}
    private = find_private_files(_SEARCHED, skip, _MAX_ENTRIES, known, [mount.point for mount in mounts])
    found += [*private.hidden, *(entry for entry in packages.hidden if not _within(entry.path, skip))]
    folders = {entry.path for entry in found}  # what is mounted in them stays hidden as well
    for entry in covered:
        if not _within(entry.path, folders):
            found.append(entry)
            folders.add(entry.path)
    return HostView(
        hidden=tuple(sorted(found, key=lambda entry: entry.path)),
        mounts=tuple(path for path in overlaid if not _within(path, folders)),
        files=tuple(_skeleton_files({mount.point for mount in mounts})),
        too_big=(*private.too_big, *packages.too_big),
        unreadable=(*private.unreadable, *packages.unreadable),
        memory=private.memory,
    )


def scan_packages(mounts: Sequence[Mount], known: Mapping[str, Listing] | None = None) -> PrivateFiles:
    """Private files among those of packages. With the memory of an earlier scan, only folders that have changed since
    are listed; a file whose mode was changed in place is found by a scan without it."""
    _, covered = _split_mounts(mounts)
    skip = {*_SEARCHED, *(entry.path for entry in covered)}
    return find_private_files(_PACKAGES, skip, _MAX_PACKAGE_ENTRIES, known, [mount.point for mount in mounts])


def filter_package_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """Those that `scan_packages` depends on."""
    return [mount for mount in mounts if _within(mount.point, _PACKAGES) and not _within(mount.point, _SEARCHED)]


def host_stamp(mounts: Iterable[Mount]) -> HostStamp:
    changed = []
    for path in ("/", "/etc", "/var", "/opt", "/etc/resolv.conf", "/etc/hosts", "/etc/passwd"):
        try:
            changed.append(os.stat(path).st_mtime_ns)
        except OSError:
            changed.append(0)
    return HostStamp(tuple(mount for mount in mounts if _is_shown(mount.point)), tuple(changed))


def _top_level() -> Iterable[Hidden]:
    for name in sorted(os.listdir("/")):
        path = f"/{name}"
        if name not in SHOWN and path not in dict(FRESH):
            yield Hidden(path=path)


def _fresh() -> Iterable[Hidden]:
    for path, mode in FRESH:
        if path.count("/") == 1 or path == "/var/tmp":  # the others are hidden with the folders they are in
            yield Hidden(path=path, mode=mode)


def _is_shown(path: str) -> bool:
    return path.split("/")[1] in SHOWN


def _split_mounts(mounts: Iterable[Mount]) -> tuple[tuple[str, ...], tuple[Hidden, ...]]:
    """Mount points below the folders we show, outermost first: those that get an overlay of their own, and all others.

    An overlay does not reach into what is mounted below its lower folder: it shows what lies under the mount point,
    which nobody can see on the machine itself. So all others are hidden. None of them is touched, for the server of a
    network filesystem may not answer."""
    overlaid, covered = [], []
    for point, mount in top_mounts(each for each in mounts if _is_shown(each.point)).items():
        folder = is_folder(mount)
        if folder and mount.kind in REAL_FILESYSTEMS:
            overlaid.append(point)
        else:
            covered.append(Hidden(path=point, mode=0o755 if folder else None))
    return tuple(overlaid), tuple(covered)


def _skeleton_files(mounted: Collection[str]) -> Iterable[tuple[str, bytes, int]]:
    yield SCRIPT, b"", 0o555
    yield ENTRY, b"", 0o555
    # Often links into /run, which is hidden; in a container, mounted.
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if (Path(path).is_symlink() or path in mounted) and Path(path).is_file():
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


def _within(path: str, folders: Collection[str]) -> bool:
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
