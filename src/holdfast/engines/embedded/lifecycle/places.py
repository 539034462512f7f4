"""Where things lie below the engine's home, and how ended tasks are put away. Blocking: call it from a thread.

`tasks/` holds what may still be running or hold files; `logs/` what is left of removed tasks, spread over 256 folders;
`trash/` what is about to be deleted. So looking for strays costs what there is to find, however many logs are kept.
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
from ..task_folder import KEPT, TaskFolder
from ..tree_removal import remove_tree

REVIVED = "revived"  # in a task's folder: of the sandbox laid over its files after it has ended


class Places:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.tag = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]
        self._tasks = str(home / "tasks")
        self._logs = str(home / "logs")
        self._trash = str(home / "trash")

    def make(self) -> None:
        for path in (str(self.home), self._tasks, self._logs, self._trash):
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def folder(self, attempt_id: str) -> TaskFolder:
        """Of a task, wherever it is by now."""
        folder = TaskFolder(f"{self._tasks}/{attempt_id}")
        if not folder.exists():
            shelved = TaskFolder(self._shelf(attempt_id))
            if shelved.exists():
                return shelved
        return folder

    def _shelf(self, attempt_id: str) -> str:
        shard = hashlib.sha256(attempt_id.encode()).hexdigest()[:2]
        return f"{self._logs}/{shard}/{attempt_id}"

    def machine_name(self, attempt_id: str) -> str:
        """Its name among things all servers of this machine share: control groups, processes."""
        return f"{self.tag}.{attempt_id}"

    def tasks(self) -> list[str]:
        """Those not put away yet."""
        return os.listdir(self._tasks)

    def in_use(self) -> set[str]:
        """Folders that tasks not put away yet stand on."""
        folders = [f"{self._tasks}/{name}" for name in self.tasks()]
        notes = [TaskFolder(path).read_start() for folder in folders for path in (folder, f"{folder}/{REVIVED}")]
        return {path for note in notes if note is not None for path in note.stands_on}

    def put_away(self, attempt_id: str) -> list[str] | None:
        """Move the logs of an ended task to their shelf and the rest out of the way; answers what is to be deleted, or
        None where there is nothing to put away. Quick, however much there is."""
        folder = TaskFolder(f"{self._tasks}/{attempt_id}")
        if not folder.exists() or folder.is_alive():
            return None
        note = folder.read_start()
        if folder.read_claim().code != 0 and was_out_of_memory(folder, note):
            folder.mark_out_of_memory()
        left = enumerate(_remove_small(folder))
        trash = {folder[name]: f"{self._trash}/{attempt_id}.{number}" for number, name in left}
        shelf = self._shelf(attempt_id)
        try:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(shelf), 0o700)
            for source, target in trash.items():
                _move(source, target)
        except OSError:
            for source in trash:  # a full disk has no room even for a folder: make some, however long it takes
                remove_tree(source)
            raise
        os.rename(folder.path, shelf)
        return list(trash.values())

    def remove_logs(self, attempt_id: str) -> None:
        remove_tree(self._shelf(attempt_id))

    def shelved(self) -> Iterator[TaskFolder]:
        """The logs of tasks that were put away; from a random place on, for there may be more than one has time for."""
        shards = os.listdir(self._logs)
        random.shuffle(shards)
        for shard in shards:
            with suppress(OSError):
                for name in os.listdir(f"{self._logs}/{shard}"):
                    yield TaskFolder(f"{self._logs}/{shard}/{name}")

    def trash(self) -> list[str]:
        """Left by a server that died."""
        return [f"{self._trash}/{name}" for name in os.listdir(self._trash)]


def delete(trash: Iterable[str], groups: tuple[str, ...] = ()) -> None:
    cgroups.remove(groups)
    for path in trash:
        remove_tree(path)


def was_out_of_memory(folder: TaskFolder, note: StartNote | None) -> bool:
    return folder.is_marked_out_of_memory() or (note is not None and cgroups.was_out_of_memory(note.cgroups))


def _remove_small(folder: TaskFolder) -> list[str]:
    """Remove devices and empty folders, which is as quick as to move them; answers what else is not to be kept."""
    with os.scandir(folder.path) as entries:
        return [entry.name for entry in entries if entry.name not in KEPT and not _remove_at_once(entry)]


def _remove_at_once(entry: os.DirEntry[str]) -> bool:
    if entry.is_file(follow_symlinks=False):
        return False
    try:
        if entry.is_dir(follow_symlinks=False):
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)
    except OSError:
        return False
    return True


def _move(source: str, target: str) -> None:
    if os.path.lexists(target):  # left by a server that died here
        remove_tree(target)
    os.rename(source, target)
