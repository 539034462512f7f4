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
    REPORT_FOLDER,
    SECRET_FILES,
    TaskFile,
    build_task_program,
    make_variable_name,
)

from .render import MAX_GANG_SIZE, NODE_PROGRAM
from .slurm_folder import GANG_FILE, HOME_FOLDER, SlurmFolder

HOST_IMAGE = "host"
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


def create_task_files(folder: SlurmFolder, launch: LaunchSpec, home: str = "", *, is_new: bool = False) -> None:
    """Create everything that the node needs; existing files are replaced. `home`: its home, if it is another folder.
    `is_new`: its folder was created for this call."""
    os.makedirs(folder.path, mode=0o700, exist_ok=True)
    program = build_task_program(
        launch, folder=folder.path, home=home or folder[HOME_FOLDER], user_name=getpass.getuser()
    )
    ports = "".join(
        f"{label} HOLDFAST_PORT_{make_variable_name(label)} {count}\n" for label, count in launch.port_counts.items()
    )
    files = {**program.files, NODE_PROGRAM: TaskFile(text=_NODE_PROGRAM, mode=0o555)}
    if len(launch.gang) > 1:
        files[GANG_FILE] = TaskFile(text=json.dumps(launch.gang), mode=0o400)
    if ports:
        files["ports"] = TaskFile(text=ports, mode=0o400)
    if any(has_placeholder(program.files[name].text) for name in SECRET_FILES if name in program.files):
        members = launch.gang if len(launch.gang) > 1 else (launch.attempt_id,)
        files["members"] = TaskFile(text="".join(f"{name}\n" for name in members), mode=0o400)
    for name in (REPORT_FOLDER, HOME_FOLDER):
        with suppress(FileExistsError):
            os.mkdir(folder[name], 0o700)
    create_notes_folder(folder)
    for name, file in files.items():
        (create_file if is_new else write_file)(folder[name], file)
    for name in LOG_FILES:
        os.close(os.open(folder[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    if folder.read_start_note() is None:
        folder.write_start_note(_make_start_note(launch))


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


def write_file(path: str, content: TaskFile) -> None:
    """Write a file of a task at once, with its mode."""
    draft = f"{path}.{os.urandom(4).hex()}.draft"  # another server may do the same
    create_file(draft, content)
    os.rename(draft, path)


def create_file(path: str, content: TaskFile) -> None:
    """Create a file of a task that nobody reads yet."""
    mode = content.mode & 0o700 if content.secret else content.mode
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, mode)
        data = content.encode()
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
