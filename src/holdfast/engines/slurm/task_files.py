"""Creates the files of a task in the shared folder, before it is submitted. Blocking: runs in a thread."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.core.chosen_later import has_placeholder
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.folder_content import StartNote
from holdfast.engines.embedded.lifecycle.notes import create_notes_folder
from holdfast.engines.task_program import LOG_FILES, REPORT_FOLDER, SECRET_FILES, TaskFile, make_variable_name

from .isolation.sandbox_files import SANDBOX_FILES
from .isolation.task_setup import TaskSetup, TaskSetups, give_files_to_user
from .node_programs import NODE_PROGRAM, TASK_PROGRAMS
from .shared_files import create_file, write_file
from .slurm_folder import GANG_FILE, HOME_FOLDER, INNER_FOLDER, OWNER_FILE, USER_FOLDERS, SlurmFolder
from .users.file_access import READ, TRAVERSABLE_MODE, WRITE, give_files
from .users.unix_user import UnixUser

_OUTPUT_FILES = ("slurm.out", "variables")  # that Slurm and the node write as the task's user
_READ_FILES = ("task", "ports", "members", *SANDBOX_FILES)  # others are readable by all: programs


def create_task_files(
    folder: SlurmFolder,
    launch: LaunchSpec,
    setups: TaskSetups,
    home: str = "",
    *,
    owner: UnixUser | None = None,
    is_new: bool = False,
) -> None:
    """Create everything that the node needs; existing files are replaced. `home`: its home, if it is another folder.
    `owner`: the user that it runs as, if that is not the server's. `is_new`: its folder was created for this call."""
    if not is_new:
        os.makedirs(folder.path, mode=0o700, exist_ok=True)
        os.chmod(folder.path, 0o700)  # until the owner is set
    setups.programs.install()
    setup = setups.prepare(launch, folder.path, home or folder[HOME_FOLDER], owner)
    ports = "".join(
        f"{label} HOLDFAST_PORT_{make_variable_name(label)} {count}\n" for label, count in launch.port_counts.items()
    )
    files = {**setup.files, NODE_PROGRAM: TASK_PROGRAMS[NODE_PROGRAM]}
    if len(launch.gang) > 1:
        files[GANG_FILE] = TaskFile(text=json.dumps(launch.gang), mode=0o400)
    if ports:
        files["ports"] = TaskFile(text=ports, mode=0o400)
    if any(has_placeholder(setup.files[name].text) for name in SECRET_FILES if name in setup.files):
        members = launch.gang if len(launch.gang) > 1 else (launch.attempt_id,)
        files["members"] = TaskFile(text="".join(f"{name}\n" for name in members), mode=0o400)
    for name in (REPORT_FOLDER, INNER_FOLDER, HOME_FOLDER):
        with suppress(FileExistsError):
            os.mkdir(folder[name], 0o700)
    create_notes_folder(folder)
    for name, file in files.items():
        if name in TASK_PROGRAMS:
            setups.programs.add_to_task(name, folder[name])
        else:
            (create_file if is_new else write_file)(folder[name], file)
    for name in LOG_FILES:
        os.close(os.open(folder[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    if setup.user is not None:
        give_files_to_user(folder, home or folder[HOME_FOLDER], setup.user)
    if folder.read_start_note() is None:
        folder.write_start_note(_make_start_note(launch, setup))
    if owner is not None:
        _hand_over(folder, owner)


def _hand_over(folder: SlurmFolder, owner: UnixUser) -> None:
    """Let that user run the task. The folder itself stays the server's: nothing in it can be replaced."""
    write_file(folder[OWNER_FILE], TaskFile(text=owner.to_text(), mode=0o400))
    for name in _OUTPUT_FILES:
        os.close(os.open(folder[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    give_files([folder[name] for name in (*USER_FOLDERS, *_OUTPUT_FILES, *LOG_FILES, *SECRET_FILES)], owner, WRITE)
    give_files([folder[name] for name in _READ_FILES], owner, READ)
    os.chmod(folder.path, TRAVERSABLE_MODE)


def _make_start_note(launch: LaunchSpec, setup: TaskSetup) -> StartNote:
    now = datetime.now(UTC)
    return StartNote(
        boot="",
        at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        sandbox=False,  # its home is where it is without one
        home=HOME_FOLDER,
        hold=launch.hold,
        lower_folders=setup.lower_folders,
        warning=setup.warning,
        replaces_image=setup.replaces_image,
    )
