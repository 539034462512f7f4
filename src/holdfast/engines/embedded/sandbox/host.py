"""What a task on the image `host` sees of this machine: what every local user can read, and no more.

Root inside a task could read every file, so private files are hidden beforehand: a scan finds them, and two read-only
layers hide them. The lower one, `mask`, contains only whiteouts; the upper one, `skel`, contains fresh folders in place
of those that must exist (/tmp, /root, ...). All tasks share both, so a start costs nothing more.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.engines.sandbox_paths import ENTRY_PATH, HOLDFAST_PATH, HOME_PATH, SCRIPT_PATH

from ..mount_table import DISK_FILESYSTEMS, Mount, find_top_mounts, is_folder_mount
from ..tree_removal import remove_tree
from .private_files import FolderListing, HiddenPath, PrivateFiles, find_private_files

# Shown of the root folder; everything else there is hidden unless an admin shows it.
SHOWN_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "var", "nix")
# Always present, fresh and writable: path and mode.
FRESH_FOLDERS = (
    ("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/home", 0o755), (HOME_PATH, 0o755), ("/run", 0o755),
    ("/run/lock", 0o1777), (HOLDFAST_PATH, 0o755), ("/mnt", 0o755), ("/media", 0o755), ("/srv", 0o755),
    ("/proc", 0o555), ("/sys", 0o555), ("/dev", 0o755),
)  # fmt: skip
# Searched for private files at every scan.
_SEARCHED_FOLDERS = ("/etc", "/var", "/opt", "/usr/local", "/nix/var")
# The other shown folders: packages. Large, and rarely changed.
_PACKAGE_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix")
_MAX_ENTRIES = 300_000  # searched; folders beyond that are hidden
_MAX_PACKAGE_ENTRIES = 2_000_000
_WHITEOUT_DEVICE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """What to hide, and the filesystems of the root."""

    hidden: tuple[HiddenPath, ...]
    mounts: tuple[str, ...]  # filesystems below /, such as a separate /usr, that need their own mount
    files: tuple[tuple[str, bytes, int], ...]  # written into the skeleton: path, content, mode
    too_big: tuple[str, ...] = ()  # hidden only because there were too many files to search
    unreadable: tuple[str, ...] = ()  # hidden only because they are unreadable
    memory: Mapping[str, FolderListing] = field(default_factory=dict, compare=False, repr=False)  # for the next scan


@dataclass(frozen=True, slots=True)
class HostFingerprint:
    """Cheap to read; differs when the top of the machine's tree or its mounts have changed."""

    mounts: tuple[Mount, ...]
    changed: tuple[int, ...]  # change times of some files and folders

    def without_hidden_mounts(self, hidden: Collection[str]) -> HostFingerprint:
        """Drop mounts inside hidden folders, such as those of other programs' containers."""
        seen = [mount for mount in self.mounts if not _is_within(os.path.dirname(mount.point), hidden)]
        return replace(self, mounts=tuple(seen))


def scan_host(
    hidden: Iterable[str],
    mounts: Sequence[Mount],
    packages: PrivateFiles,
    known: Mapping[str, FolderListing] | None = None,
) -> HostView:
    """Return what to hide of the machine now. `packages` is the result of `scan_packages`, `known` the memory of an
    earlier scan, if not all folders need to be listed."""
    overlaid, covered = _split_mounts(mounts)
    found = [HiddenPath(path=os.path.realpath(path)) for path in hidden if os.path.lexists(path)]
    fresh = dict(FRESH_FOLDERS)
    top_level = [name for name in sorted(os.listdir("/")) if name not in SHOWN_FOLDERS and f"/{name}" not in fresh]
    found += [HiddenPath(path=f"/{name}") for name in top_level]
    outermost = [path for path in fresh if path.count("/") == 1 or path == "/var/tmp"]  # they hide the others
    found += [HiddenPath(path=path, mode=fresh[path]) for path in outermost if os.path.lexists(path)]
    skip = {*(entry.path for entry in found), *(entry.path for entry in covered)}
    private = find_private_files(_SEARCHED_FOLDERS, skip, _MAX_ENTRIES, known, [mount.point for mount in mounts])
    found += [*private.hidden, *(entry for entry in packages.hidden if not _is_within(entry.path, skip))]
    folders = {entry.path for entry in found}  # mounts inside them stay hidden as well
    for entry in covered:
        if not _is_within(entry.path, folders):
            found.append(entry)
            folders.add(entry.path)
    return HostView(
        hidden=tuple(sorted(found, key=lambda entry: entry.path)),
        mounts=tuple(path for path in overlaid if not _is_within(path, folders)),
        files=tuple(_iter_skeleton_files({mount.point for mount in mounts})),
        too_big=(*private.too_big, *packages.too_big),
        unreadable=(*private.unreadable, *packages.unreadable),
        memory=private.memory,
    )


def scan_packages(mounts: Sequence[Mount], known: Mapping[str, FolderListing] | None = None) -> PrivateFiles:
    """Find private files among packages. With the memory of an earlier scan, only changed folders are listed; a file
    whose mode was changed in place is only found without it."""
    _, covered = _split_mounts(mounts)
    skip = {*_SEARCHED_FOLDERS, *(entry.path for entry in covered)}
    return find_private_files(_PACKAGE_FOLDERS, skip, _MAX_PACKAGE_ENTRIES, known, [mount.point for mount in mounts])


def filter_package_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts that `scan_packages` depends on."""
    return [
        mount
        for mount in mounts
        if _is_within(mount.point, _PACKAGE_FOLDERS) and not _is_within(mount.point, _SEARCHED_FOLDERS)
    ]


def read_host_fingerprint(mounts: Iterable[Mount]) -> HostFingerprint:
    changed = []
    for path in ("/", "/etc", "/var", "/opt", "/etc/resolv.conf", "/etc/hosts", "/etc/passwd"):
        try:
            changed.append(os.stat(path).st_mtime_ns)
        except OSError:
            changed.append(0)
    return HostFingerprint(tuple(mount for mount in mounts if _is_shown_path(mount.point)), tuple(changed))


def _is_shown_path(path: str) -> bool:
    return path.split("/")[1] in SHOWN_FOLDERS


def _split_mounts(mounts: Iterable[Mount]) -> tuple[tuple[str, ...], tuple[HiddenPath, ...]]:
    """Split the mount points below the shown folders, outermost first: those with their own overlay, and all others.

    An overlay does not include mounts below its lower folder: it shows what is under the mount point, which is
    invisible on the machine itself. So all others are hidden. None of them is accessed, since a network filesystem may
    not respond.
    """
    overlaid, covered = [], []
    for point, mount in find_top_mounts(each for each in mounts if _is_shown_path(each.point)).items():
        folder = is_folder_mount(mount)
        if folder and mount.kind in DISK_FILESYSTEMS:
            overlaid.append(point)
        else:
            covered.append(HiddenPath(path=point, mode=0o755 if folder else None))
    return tuple(overlaid), tuple(covered)


def _iter_skeleton_files(mounted: Collection[str]) -> Iterable[tuple[str, bytes, int]]:
    yield SCRIPT_PATH, b"", 0o555
    yield ENTRY_PATH, b"", 0o555
    # Often links into /run, which is hidden; in a container, mounted.
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if (Path(path).is_symlink() or path in mounted) and Path(path).is_file():
            yield path, Path(path).read_bytes(), 0o644
    # Programs expect these to exist; they contain no passwords.
    yield "/etc/shadow", _build_shadow_file("/etc/passwd", b"%s:*:19000:0:99999:7:::\n"), 0o640
    yield "/etc/gshadow", _build_shadow_file("/etc/group", b"%s:*::\n"), 0o640
    if Path("/etc/sudoers").is_file():  # the machine's own is hidden, and without one sudo fails for root, too
        yield "/etc/sudoers", b"root ALL=(ALL:ALL) ALL\n", 0o440


def _build_shadow_file(names_from: str, line: bytes) -> bytes:
    try:
        names = [row.split(b":")[0] for row in Path(names_from).read_bytes().splitlines() if b":" in row]
    except OSError:
        names = [b"root"]
    return b"".join(line % name for name in names)


def _is_within(path: str, folders: Collection[str]) -> bool:
    while path not in folders:
        if path in ("/", ""):
            return False
        path = os.path.dirname(path)
    return True


# --- writing the layers -------------------------------------------------------------------------------------------


def make_view_name(view: HostView) -> str:
    """Return the same name for the same view, so that a restarted server reuses the layers."""
    text = repr((view.hidden, view.mounts, view.files))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def write_layers(view: HostView, base: Path) -> Path:
    """Create the two layers below `base` atomically; return their folder."""

    def fill_layers(draft: Path) -> None:
        (draft / "mask").mkdir()
        (draft / "skel").mkdir()
        for layer in ("mask", "skel"):
            os.chmod(draft / layer, 0o755)
        _write_mask(draft / "mask", view)
        _write_skeleton(draft / "skel", view)

    return _create_folder_once(base, make_view_name(view), fill_layers)


def write_skeleton(base: Path, more: Iterable[tuple[str, bytes, int]] = ()) -> Path:
    """Write the layer over every imported image: writable folders and network configuration."""
    files = [(SCRIPT_PATH, b"", 0o555), (ENTRY_PATH, b"", 0o555), *more]
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if Path(path).is_file():
            files.append((path, Path(path).read_bytes(), 0o644))

    return write_folder(base, files, _write_fresh_folders)


def write_folder(
    base: Path, files: Sequence[tuple[str, bytes, int]], prepare: Callable[[Path], None] = lambda draft: None
) -> Path:
    """Write a folder with exactly these files, below `base`: path within it, content, mode."""

    def fill_folder(draft: Path) -> None:
        os.chmod(draft, 0o755)
        prepare(draft)
        for path, content, mode in files:
            _write_layer_file(draft, path, content, mode)

    return _create_folder_once(base, hashlib.sha256(repr(files).encode()).hexdigest()[:20], fill_folder)


def _create_folder_once(base: Path, name: str, fill: Callable[[Path], None]) -> Path:
    final = base / name
    if not final.is_dir():
        draft = base / f".draft-{os.getpid()}-{threading.get_ident()}"
        remove_tree(str(draft))
        draft.mkdir(mode=0o755)
        fill(draft)
        try:
            draft.rename(final)
        except OSError:  # another server was faster
            remove_tree(str(draft))
    return final


def _write_mask(layer: Path, view: HostView) -> None:
    gone = {entry.path for entry in view.hidden}
    for path in sorted(gone):
        if not _is_within(os.path.dirname(path), gone):
            os.mknod(_create_parents(layer, path), stat.S_IFCHR | 0o600, _WHITEOUT_DEVICE)


def _write_skeleton(layer: Path, view: HostView) -> None:
    for entry in view.hidden:
        if entry.mode is not None:
            _create_layer_folder(layer, entry.path, entry.mode, (entry.uid, entry.gid))
    _write_fresh_folders(layer)
    for path, content, mode in view.files:
        _write_layer_file(layer, path, content, mode)


def _write_fresh_folders(layer: Path) -> None:
    for path, mode in FRESH_FOLDERS:
        _create_layer_folder(layer, path, mode, (os.geteuid(), os.getegid()))


def _create_layer_folder(layer: Path, path: str, mode: int, owner: tuple[int, int]) -> None:
    target = _create_parents(layer, path)
    target.mkdir(exist_ok=True)
    os.chmod(target, mode)
    if os.geteuid() == 0:
        os.chown(target, *owner)


def _write_layer_file(layer: Path, path: str, content: bytes, mode: int) -> None:
    target = _create_parents(layer, path)
    target.write_bytes(content)
    os.chmod(target, mode)


def _create_parents(layer: Path, path: str) -> Path:
    """Return the path in a layer, with parents that have the machine's metadata."""
    place = layer
    source = "/"
    for part in Path(path).parts[1:-1]:
        place, source = place / part, os.path.join(source, part)
        if not place.is_dir():
            place.mkdir()
            _copy_metadata(place, source)
    return place / Path(path).name


def _copy_metadata(place: Path, source: str) -> None:
    try:
        original = os.stat(source)
    except OSError:
        os.chmod(place, 0o755)
        return
    os.chmod(place, stat.S_IMODE(original.st_mode))
    if os.geteuid() == 0:
        os.chown(place, original.st_uid, original.st_gid)
