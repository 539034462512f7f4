"""The folders below the engine's home, and the archiving of ended tasks. Blocking: call it from a thread.

`tasks/` contains tasks that may still run or have files; `logs/` the logs of removed tasks, in 256 folders; `trash/`
what is to be deleted. So finding leftovers is fast, however many logs are kept.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .. import cgroups
from ..folder_content import StartNote
from ..task_folder import KEPT_FILES, OUT_OF_MEMORY_FILE, TaskFolder
from ..tree_removal import remove_tree

_MAX_SMALL_SIZE = 1024 * 1024  # bytes of a file that is deleted at once
REVIVED_FOLDER = "revived"  # in a task's folder: for the sandbox over its files after it has ended


class TaskFolders:
    def __init__(self, home: Path, folder_type: type[TaskFolder] = TaskFolder) -> None:
        self.home = home
        self._make_folder = folder_type
        self.tag = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]
        self._tasks = str(home / "tasks")
        self._logs = str(home / "logs")
        self._trash = str(home / "trash")

    def create_folders(self) -> None:
        for path in (str(self.home), self._tasks, self._logs, self._trash):
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_active_folder(self, attempt_id: str) -> TaskFolder:
        """Return the folder of a task that is not archived. Does not block: it looks at no file."""
        return self._make_folder(f"{self._tasks}/{attempt_id}")

    def get_folder(self, attempt_id: str) -> TaskFolder:
        """Return the folder of a task, archived or not."""
        folder = self.get_active_folder(attempt_id)
        if not folder.exists():
            shelved = self._make_folder(self._get_archive_path(attempt_id))
            if shelved.exists():
                return shelved
        return folder

    def _get_archive_path(self, attempt_id: str) -> str:
        shard = hashlib.sha256(attempt_id.encode()).hexdigest()[:2]
        return f"{self._logs}/{shard}/{attempt_id}"

    def get_machine_wide_name(self, attempt_id: str) -> str:
        """Return its name in the cgroups and processes that all servers of this machine share."""
        return f"{self.tag}.{attempt_id}"

    def list_attempt_ids(self) -> list[str]:
        """Return those not archived yet."""
        return os.listdir(self._tasks)

    def find_folders_in_use(self) -> set[str]:
        """Return the shared folders that tasks not archived yet use."""
        folders = [f"{self._tasks}/{name}" for name in self.list_attempt_ids()]
        notes = [
            TaskFolder(path).read_start_note() for folder in folders for path in (folder, f"{folder}/{REVIVED_FOLDER}")
        ]
        return {path for note in notes if note is not None for path in note.lower_folders}

    def archive_task(self, attempt_id: str) -> list[str] | None:
        """Move the logs of an ended task to the archive and the rest to the trash; return what to delete, or None if
        there is nothing to archive. Fast, whatever the size."""
        folder = self._make_folder(f"{self._tasks}/{attempt_id}")
        if not folder.exists() or folder.is_alive():
            return None
        note = folder.read_start_note()
        if folder.read_claim().code != 0 and was_out_of_memory(folder, note):
            folder.mark_out_of_memory()
        try:
            left = enumerate(_delete_small_entries(folder))
        except FileNotFoundError:  # another server has archived it
            return None
        trash = {folder[name]: f"{self._trash}/{attempt_id}.{number}" for number, name in left}
        shelf = self._get_archive_path(attempt_id)
        try:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(shelf), 0o700)
            for source, target in trash.items():
                _move_folder(source, target)
        except OSError:
            for source in trash:  # a full disk has no space even for a folder: free some, however long it takes
                remove_tree(source)
            raise
        _rename_once(folder.path, shelf)
        return list(trash.values())

    def delete_logs(self, attempt_id: str) -> None:
        remove_tree(self._get_archive_path(attempt_id))

    def iter_archived_folders(self) -> Iterator[TaskFolder]:
        """Yield the archived logs, from a random start: there may be too many for one pass."""
        shards = os.listdir(self._logs)
        random.shuffle(shards)
        for shard in shards:
            with suppress(OSError):
                for name in os.listdir(f"{self._logs}/{shard}"):
                    yield self._make_folder(f"{self._logs}/{shard}/{name}")

    def list_trash(self) -> list[str]:
        """Return what a server that died left."""
        return [f"{self._trash}/{name}" for name in os.listdir(self._trash)]


def delete_trash(trash: Iterable[str], groups: tuple[str, ...] = ()) -> None:
    cgroups.remove_cgroup(groups)
    for path in trash:
        remove_tree(path)


def was_out_of_memory(folder: TaskFolder, note: StartNote | None) -> bool:
    return folder.has_file(OUT_OF_MEMORY_FILE) or (note is not None and cgroups.has_oom_kill(note.cgroups))


def _delete_small_entries(folder: TaskFolder) -> list[str]:
    """Remove small files, devices and empty folders, which is as fast as moving them; return the other entries to
    delete."""
    with os.scandir(folder.path) as entries:
        return [entry.name for entry in entries if entry.name not in KEPT_FILES and not _try_delete_entry(entry)]


def _try_delete_entry(entry: os.DirEntry[str]) -> bool:
    try:
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > _MAX_SMALL_SIZE:
            return False
        if entry.is_dir(follow_symlinks=False):
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)
    except OSError:
        return False
    return True


def _move_folder(source: str, target: str) -> None:
    if os.path.lexists(target):  # left by a server that died
        remove_tree(target)
    _rename_once(source, target)


def _rename_once(source: str, target: str) -> None:
    """Rename it, unless another server has just done so."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):
            raise
