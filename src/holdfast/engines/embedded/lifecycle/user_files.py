"""The files of a task that runs as the user of its image. Blocking: runs in a thread.

The runner and the sandbox stay root's; only the task's command, and sessions in it, become the user. So the user must
own its home, and be able to open its logs by `/dev/stdout`.
"""

from __future__ import annotations

import os
import platform
import posixpath
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.core.job import Mount
from holdfast.core.messages import msg
from holdfast.engines.sandbox_paths import HOME_PATH
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_user import MAX_LIST_SIZE, TaskUser, UnknownUser, is_root_user, resolve_user
from holdfast.engines.user_switch import supports_user_switch

from ..descriptors import closing_fd
from ..folder_content import MAX_NOTE_SIZE, StartNote
from ..image import Image
from ..sandbox.mounts import is_within
from ..sandbox.render import Bind, SandboxRoot
from ..sandbox.roots import find_path_inside, resolve_path_inside
from ..task_folder import TaskFolder
from .artifacts import ARTIFACTS_FOLDER

_HIDDEN_FOLDERS = ("/proc", "/sys", "/dev", "/run")  # of every task its own: a home there is not the image's


def add_image_user(root: SandboxRoot, image: Image, is_privileged: bool, obstacle: str = "") -> SandboxRoot:
    """Return the root for a task that becomes the image's user; with a warning if this machine cannot do that.
    `obstacle`: why no task can; empty: nothing."""
    if is_root_user(image.user):
        return root
    why = obstacle or (describe_missing_support() if is_privileged else msg("the server does not run as root"))
    if why:
        return replace(root, warning=make_root_warning(image.user, why))
    try:
        lists = [_read_list(image.rootfs, path) for path in ("/etc/passwd", "/etc/group")]
        user = resolve_user(image.user, *lists)
    except UnknownUser as error:
        raise make_user_refusal(image.name, error) from error
    if user is None:
        return root
    user = replace(user, home=user.home if _has_usable_home_in(image.rootfs, user) else "")
    _check_artifacts_folders(image, user)
    return replace(root, task_user=user, user=user.name)


def _has_usable_home_in(rootfs: str, user: TaskUser) -> bool:
    """Return whether the image contains its home; links in its path are resolved within the image."""
    inside = resolve_path_inside(rootfs, user.home) if user.home else None
    return inside is not None and has_usable_home(replace(user, home=inside), *_find_owner(rootfs, inside))


def _check_artifacts_folders(image: Image, user: TaskUser) -> None:
    """Refuse an image in which a mount point is a link or a file: its sandbox would never start."""
    if not needs_artifacts_folder(user):
        return
    for home in (HOME_PATH, user.home):
        path = f"{resolve_path_inside(image.rootfs, home)}/{ARTIFACTS_FOLDER}"
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISDIR(os.lstat(image.rootfs + path).st_mode):
                text = msg(
                    "The image {image} cannot be used: {path} is not a folder.", image=repr(image.name), path=path
                )
                raise StartRefused(text)


def describe_missing_support() -> str:
    """Return why no task can become another user on this machine; empty if it can."""
    machine = platform.machine()
    return "" if supports_user_switch(machine) else msg("{machine} is not supported", machine=machine)


def make_root_warning(user: str, why: str) -> str:
    return msg("The task runs as root and not as the image's user {user}: {why}.", user=user, why=why)


def make_user_refusal(image: str, error: UnknownUser) -> StartRefused:
    return StartRefused(msg("The image {image} cannot be used: {error}.", image=repr(image), error=error))


def check_note_size(note: StartNote, reserved: int = 0) -> None:
    """Raise StartRefused if the start note, and `reserved` bytes added later, do not fit. Only the user of an image can
    make it that large."""
    if len(note.to_json()) + reserved > MAX_NOTE_SIZE:
        text = msg("The image cannot be used: its user has too many groups, or its name or home is too long.")
        raise StartRefused(text)


def has_usable_home(user: TaskUser, mode: int, uid: int, gid: int) -> bool:
    """Return whether the home in the image's user list is a folder that the user can write to. Otherwise its home is
    that of every task."""
    home = posixpath.normpath(f"/{user.home.lstrip('/')}")
    if not stat.S_ISDIR(mode) or home == "/" or is_within(home, _HIDDEN_FOLDERS):
        return False
    needed = 0o300 if uid == user.uid else 0o030 if gid in user.groups else 0o003
    return mode & needed == needed


def _find_owner(rootfs: str, home: str) -> tuple[int, int, int]:
    """Return its mode, user and group; zeros if it does not exist."""
    found = find_path_inside(rootfs, home) if home else None
    status = os.lstat(found) if found is not None else None
    return (status.st_mode, status.st_uid, status.st_gid) if status else (0, 0, 0)


def _read_list(rootfs: str, path: str) -> bytes:
    """Return the beginning of a regular file of the image; empty if there is none."""
    found = find_path_inside(rootfs, path)
    if found is None:
        return b""
    with suppress(OSError), closing_fd(_open_regular_file(found)) as fd, open(fd, "rb", closefd=False) as file:
        return file.read(MAX_LIST_SIZE)
    return b""


def _open_regular_file(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(path)
    return fd


def create_user_folders(folder: TaskFolder, root: SandboxRoot, mounts: Sequence[Mount]) -> None:
    """Create what the image's user owns. The task has never run, so no link is in the way."""
    user = root.task_user
    if user is None:
        return
    for name in ("stdout", "stderr"):
        create_owned_file(folder[name], user)
    for source in _list_home_folders(root):
        os.makedirs(source, mode=0o755, exist_ok=True)
        os.chown(source, user.uid, user.gid)
    if make_artifacts_binds(folder, root, mounts):
        create_owned_folder(folder[ARTIFACTS_FOLDER], user)


def _list_home_folders(root: SandboxRoot) -> list[str]:
    uppers = [f"{overlay.upper}{HOME_PATH}" for overlay in root.overlays if overlay.target == "/" and overlay.upper]
    return [*uppers, *(bind.source for bind in root.binds if bind.target == HOME_PATH and not bind.read_only)]


def create_owned_file(path: str, user: TaskUser) -> None:
    with closing_fd(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)) as fd:
        os.fchown(fd, user.uid, user.gid)


def create_owned_folder(path: str, user: TaskUser) -> None:
    with suppress(FileExistsError):
        os.mkdir(path, 0o755)
    os.chown(path, user.uid, user.gid, follow_symlinks=False)


def needs_artifacts_folder(user: TaskUser) -> bool:
    """Return whether `~/artifacts` of this user is not in the home that artifacts are collected from."""
    return bool(user.home) and os.path.normpath(user.home) != HOME_PATH


def make_artifacts_binds(folder: TaskFolder, root: SandboxRoot, mounts: Sequence[Mount]) -> list[Bind]:
    """Return the binds that make `~/artifacts` of the image's user the folder that is collected."""
    user = root.task_user
    home = resolve_path_inside(root.lower, user.home) if user and needs_artifacts_folder(user) else None
    if home is None:
        return []
    targets = [f"{HOME_PATH}/{ARTIFACTS_FOLDER}", f"{home}/{ARTIFACTS_FOLDER}"]
    if overlaps_mounts(targets, mounts):
        return []
    return [Bind(source=folder[ARTIFACTS_FOLDER], target=target, read_only=False) for target in targets]


def overlaps_mounts(paths: Sequence[str], mounts: Sequence[Mount]) -> bool:
    """Return whether one of these paths is inside a mount of the job, or contains one."""
    targets = [os.path.normpath(mount.target) for mount in mounts]
    return any(is_within(path, targets) or any(is_within(target, [path]) for target in targets) for path in paths)
