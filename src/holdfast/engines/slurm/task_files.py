"""Creates the files of a task in the shared folder, before it is submitted. Blocking: runs in a thread."""

from __future__ import annotations

import getpass
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.chosen_later import has_placeholder
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.core.volumes import LOCAL_KINDS, is_mountable
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.folder_content import StartNote
from holdfast.engines.embedded.lifecycle.notes import create_notes_folder
from holdfast.engines.start_refusal import StartRefused, check_task_program
from holdfast.engines.task_program import (
    LOG_FILES,
    NOTES_FOLDER,
    REPORT_FOLDER,
    SECRET_FILES,
    TaskFile,
    build_task_program,
    make_variable_name,
)

from .render import MAX_GANG_SIZE, NODE_PROGRAM
from .slurm_folder import GANG_FILE, HOME_FOLDER, OWNER_FILE, SlurmFolder
from .users import UnixUser
from .users.file_access import READ, TRAVERSABLE_MODE, WRITE, give_files, give_open_file

HOST_IMAGE = "host"
_OUTPUT_FILES = ("slurm.out",)  # that Slurm writes as the task's user
_READ_FILES = ("task", "ports", "members")  # others are readable by all: programs
# Read at import: an upgrade may replace the file under a running server.
_NODE_PROGRAM = (Path(__file__).parents[2] / "runtime" / "slurm_task.sh").read_text()


def check_launch(launch: LaunchSpec, unknown_image: str) -> None:
    """Raise StartRefused if this engine cannot run it. Blocking: it looks at the sources of mounts."""
    check_task_program(launch)
    if launch.image != HOST_IMAGE and unknown_image != HOST_IMAGE:
        text = msg(
            "The Slurm engine does not run images yet, so it has no image {image}. Use the image `host`.",
            image=launch.image,
        )
        raise StartRefused(text, cause=Cause.IMAGE_MISSING)
    if len(launch.gang) > MAX_GANG_SIZE:
        text = msg("Slurm starts at most {limit} tasks together.", limit=MAX_GANG_SIZE)
        raise StartRefused(text, cause=Cause.NOT_ALLOWED)
    _check_mounts(launch)


def _check_mounts(launch: LaunchSpec) -> None:
    for mount in launch.mounts:
        source, target = mount.volume.folder, os.path.normpath(mount.target)
        if not is_mountable(mount.volume, LOCAL_KINDS):
            text = msg("The Slurm engine cannot mount {source}.", source=mount.volume.address)
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        if os.path.normpath(source) != target:
            why = msg("without isolation, the target must equal the source")
            text = msg("{source} cannot be mounted at {target}: {why}.", source=source, target=target, why=why)
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        if not os.path.exists(source):
            raise StartRefused(msg("The mount source {source} does not exist.", source=source))


def create_task_files(folder: SlurmFolder, launch: LaunchSpec, home: str = "", owner: UnixUser | None = None) -> None:
    """Create everything that the node needs; existing files are replaced. `home`: its home, if it is another folder.
    `owner`: the user that it runs as, if that is not the server's."""
    os.makedirs(folder.path, mode=0o700, exist_ok=True)
    os.chmod(folder.path, 0o700)  # until the owner is set
    user_name = owner.name if owner else getpass.getuser()
    program = build_task_program(launch, folder=folder.path, home=home or folder[HOME_FOLDER], user_name=user_name)
    ports = "".join(
        f"{label} HOLDFAST_PORT_{make_variable_name(label)} {count}\n" for label, count in launch.port_counts.items()
    )
    files = {
        **program.files,
        NODE_PROGRAM: TaskFile(text=_NODE_PROGRAM, mode=0o555),
        GANG_FILE: TaskFile(text=json.dumps(launch.gang if len(launch.gang) > 1 else ()), mode=0o400),
        "ports": TaskFile(text=ports, mode=0o400),
    }
    if any(has_placeholder(program.files[name].text) for name in SECRET_FILES if name in program.files):
        members = launch.gang if len(launch.gang) > 1 else (launch.attempt_id,)
        files["members"] = TaskFile(text="".join(f"{name}\n" for name in members), mode=0o400)
    for name in (REPORT_FOLDER, HOME_FOLDER):
        with suppress(FileExistsError):
            os.mkdir(folder[name], 0o700)
    create_notes_folder(folder)
    for name, file in files.items():
        write_file(folder[name], file)
    for name in LOG_FILES:
        os.close(os.open(folder[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    if folder.read_start_note() is None:
        folder.write_start_note(_make_start_note(launch))
    if owner is not None:
        _hand_over(folder, owner)


def _hand_over(folder: SlurmFolder, owner: UnixUser) -> None:
    """Let that user run the task. The folder itself stays the server's: nothing in it can be replaced."""
    write_file(folder[OWNER_FILE], TaskFile(text=owner.to_text(), mode=0o400))
    for name in _OUTPUT_FILES:
        os.close(os.open(folder[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    folders = (REPORT_FOLDER, HOME_FOLDER, NOTES_FOLDER)
    give_files([folder[name] for name in (*folders, *_OUTPUT_FILES, *LOG_FILES, *SECRET_FILES)], owner, WRITE)
    give_files([folder[name] for name in _READ_FILES], owner, READ)
    os.chmod(folder.path, TRAVERSABLE_MODE)


def _make_start_note(launch: LaunchSpec) -> StartNote:
    now = datetime.now(UTC)
    warning = ""
    if launch.image != HOST_IMAGE:
        warning = msg("{image} is not used: tasks in Slurm run on the files of the node.", image=launch.image)
    return StartNote(
        boot="",
        at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        sandbox=False,
        home=HOME_FOLDER,
        hold=launch.hold,
        warning=warning,
        replaces_image=bool(warning),
    )


def write_file(path: str, content: TaskFile, owner: UnixUser | None = None) -> None:
    """Write a file of a task at once, with its mode. `owner`: who gets it."""
    draft = f"{path}.{os.urandom(4).hex()}.draft"  # another server may do the same
    mode = content.mode & 0o700 if content.secret else content.mode
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content.encode())
        os.fchmod(fd, mode)
        if owner is not None:
            give_open_file(fd, owner, READ)
    os.rename(draft, path)
