"""Creates the files of a task in a container, before it starts. Blocking: runs in a thread."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.folder_content import StartNote
from holdfast.engines.embedded.lifecycle.artifacts import ARTIFACTS_FOLDER
from holdfast.engines.embedded.lifecycle.notes import create_notes_folder
from holdfast.engines.embedded.lifecycle.user_files import (
    create_owned_file,
    create_owned_folder,
    needs_artifacts_folder,
    overlaps_mounts,
)
from holdfast.engines.embedded.sandbox.host import write_folder
from holdfast.engines.embedded.sandbox.library import PackageLibrary
from holdfast.engines.embedded.sandbox.mounts import is_within
from holdfast.engines.sandbox_paths import HOLDFAST_PATH, HOME_PATH, LIBRARY_PATH, NOTES_PATH
from holdfast.engines.task_program import LOG_FILES, REPORT_FOLDER, WRITABLE_FOLDERS, TaskFile
from holdfast.engines.task_user import TaskUser

from .container_folder import HOME_FOLDER, INSIDE_FOLDER, ContainerFolder
from .render import ContainerMount

_MOUNT_POINTS = (*WRITABLE_FOLDERS, "lib")  # folders in the read-only one


def create_task_files(folder: ContainerFolder, files: Mapping[str, TaskFile]) -> None:
    """Create everything that the container gets from the task's folder; existing files are replaced."""
    _create_folder(folder[INSIDE_FOLDER], 0o755)
    for name in _MOUNT_POINTS:
        _create_folder(folder[f"{INSIDE_FOLDER}/{name}"], 0o755)
    for name, file in files.items():
        _write_file(folder[f"{INSIDE_FOLDER}/{name}"], file)
    create_notes_folder(folder)
    _create_folder(folder[REPORT_FOLDER], 0o700)
    _create_folder(folder[HOME_FOLDER], 0o755)
    for name in LOG_FILES:
        _create_empty_file(folder[f"{INSIDE_FOLDER}/{name}"])
        _create_empty_file(folder[name])


def create_user_files(folder: ContainerFolder, launch: LaunchSpec, user: TaskUser) -> None:
    """Create what the image's user owns."""
    for name in LOG_FILES:
        create_owned_file(folder[name], user)
    create_owned_folder(folder[HOME_FOLDER], user)
    if _list_artifacts_targets(launch, user):
        create_owned_folder(folder[ARTIFACTS_FOLDER], user)


def _list_artifacts_targets(launch: LaunchSpec, user: TaskUser | None) -> list[str]:
    """Return where the folder of artifacts is mounted, if the image's user has a home of its own."""
    if user is None or not needs_artifacts_folder(user) or not has_own_home(launch):
        return []
    targets = [f"{HOME_PATH}/{ARTIFACTS_FOLDER}", f"{os.path.normpath(user.home)}/{ARTIFACTS_FOLDER}"]
    return [] if overlaps_mounts(targets, launch.mounts) else targets


def list_own_mounts(
    folder: ContainerFolder,
    home_folder: ContainerFolder | None,
    launch: LaunchSpec,
    user: TaskUser | None,
    library: str,
) -> list[ContainerMount]:
    """Return the mounts of the task's own files. Its claim, start note and timeline are not among them. The home is in
    `home_folder`, unless a mount of the job is there; None: in a volume of the daemon."""
    mounts = [
        ContainerMount(source=folder[INSIDE_FOLDER], target=HOLDFAST_PATH),
        ContainerMount(source=folder["notes"], target=NOTES_PATH, read_only=False),
        ContainerMount(source=folder[REPORT_FOLDER], target=f"{HOLDFAST_PATH}/report", read_only=False),
        ContainerMount(source=folder["stdout"], target=f"{HOLDFAST_PATH}/stdout", read_only=False),
        ContainerMount(source=folder["stderr"], target=f"{HOLDFAST_PATH}/stderr", read_only=False),
    ]
    if library:
        mounts.append(ContainerMount(source=library, target=LIBRARY_PATH))
    if has_own_home(launch):
        source = home_folder[HOME_FOLDER] if home_folder else ""
        mounts.append(ContainerMount(source=source, target=HOME_PATH, read_only=False))
    for target in _list_artifacts_targets(launch, user):
        source = home_folder[ARTIFACTS_FOLDER] if home_folder else ""
        mounts.append(ContainerMount(source=source, target=target, read_only=False))
    return mounts


def has_own_home(launch: LaunchSpec) -> bool:
    return not is_within(HOME_PATH, [os.path.normpath(mount.target) for mount in launch.mounts])


def make_start_note(
    launch: LaunchSpec, boot: str, user: TaskUser | None, *, keeps_home: bool, warning: str = ""
) -> StartNote:
    """`keeps_home`: the home is in the task's folder, not in a volume of the daemon."""
    now = datetime.now(UTC)
    return StartNote(
        boot=boot,
        at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        sandbox=True,
        home=HOME_FOLDER if keeps_home and has_own_home(launch) else "",
        scratch=launch.scratch or 0,
        hold=launch.hold,
        gpus=launch.gpus,
        user=user,
        warning=warning,
    )


def write_library(home: Path, packages: tuple[str, ...]) -> str:
    """Write the packages of every task, and return their folder; empty if there are none."""
    files = PackageLibrary(packages).list_files("")
    if not files:
        return ""
    base = home / "libraries"
    base.mkdir(mode=0o700, exist_ok=True)
    return str(write_folder(base, files))


def _create_folder(path: str, mode: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(path)
    os.chmod(path, mode)


def _create_empty_file(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def _write_file(path: str, content: TaskFile) -> None:
    draft = f"{path}.draft"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content.encode())
        os.fchmod(fd, content.mode)
    os.rename(draft, path)
