"""Where artifacts stay: in the shared files of the job's group, below jobArtifacts, by job. Blocking: runs in a thread.

Jobs of the group write to the same folder, and may put anything there at any time. So what is kept is gathered where no
job sees it and moved in as a whole, each folder on the way is opened as what it is, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks
from holdfast.engines.base import KeepsArtifacts
from holdfast.services.files.paths import ARTIFACTS, KEPT_APART
from holdfast.services.files.tree import Tree
from holdfast.services.files.walk import OPEN_FOLDER, LookedEnough, Walk, closing_fd
from holdfast.shared_folders import SharedFolders

from .artifact_draft import Draft, Room, Tally, make_folders

_EXPIRY = "expiredAt"  # in seconds of Unix time, for PrimeHub's clients
_MARK = "attempt"  # says that the folder is one of ours
_TRIES = 5
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Whose artifacts they are."""

    attempt_id: str
    job_id: str
    group: str
    task: str | None  # None: the only one of its job, so that no folder of its own is needed


class ArtifactPlace:
    def __init__(self, shared: SharedFolders, keep: timedelta | None, marks: DiskMarks | None = None) -> None:
        self._marks = marks
        self._shared = shared
        self._keep = keep  # None: for ever

    def keep(self, engine: KeepsArtifacts, parcel: Parcel, room: Room, now: datetime, stop: threading.Event) -> Tally:
        """Take what there is. OSError when it cannot be put in its place; then all is as it was before."""
        self._shared.make_files(parcel.group)
        drafts = self._shared.make(self._shared.drafts(parcel.group))
        name = secrets.token_hex(16)
        with closing_fd(os.open(drafts, OPEN_FOLDER)) as above:
            try:
                with closing_fd(make_folders(above, (name.encode(),))) as top:
                    if parcel.task is None:
                        self._describe(top, parcel, now)
                    tally = _gather(engine, parcel, Draft(top, room, stop.is_set, self._marks))
                if tally.files and not stop.is_set():
                    self._settle_again(parcel, above, name, now, tally)
            finally:
                shutil.rmtree(drafts / name, ignore_errors=True)  # what was not moved to its place
        return tally

    def kept_by_task(self, parcel: Parcel, most: int) -> dict[str, Room]:
        """What is there of a job's tasks, counted until there are more than `most` files."""
        path = f"{ARTIFACTS}/{parcel.job_id}/"
        found: dict[str, Room] = {}
        try:
            folder = Tree(self._shared, parcel.group).folder((ARTIFACTS, parcel.job_id))
        except OSError:
            return found
        with closing_fd(folder), suppress(LookedEnough):
            for count, item in enumerate(Walk(threading.Event(), recursive=True).items(folder, path)):
                task = item.name.removeprefix(path).partition("/")[0]
                before = found.get(task, Room(0, 0))
                found[task] = Room(before.files + 1, before.bytes + item.size)
                if count > most:
                    break
        return found

    def _settle_again(self, parcel: Parcel, above: int, name: str, now: datetime, tally: Tally) -> None:
        """Somebody may remove a folder on the way just when it was found."""
        for last in (False, False, True):
            try:
                self._settle(parcel, above, name, now, tally)
            except FileNotFoundError:
                if last:
                    raise
            else:
                return

    def _settle(self, parcel: Parcel, above: int, name: str, now: datetime, tally: Tally) -> None:
        self._note(parcel, now)
        with closing_fd(self._jobs(parcel.group, tally)) as jobs:
            if parcel.task is None:
                self._move_in(parcel.group, above, name, jobs, parcel.job_id, tally)
                return
            with closing_fd(self._job_folder(parcel, above, jobs, now, tally)) as folder:
                self._move_in(parcel.group, above, name, folder, parcel.task, tally, ours=True)

    def _note(self, parcel: Parcel, now: datetime) -> None:
        """Before they are there: what nobody knows of would never be removed."""
        path = self._shared.make(self._shared.kept(parcel.group)) / parcel.job_id
        path.touch(mode=0o600)
        os.utime(path, (now.timestamp(), now.timestamp()))

    def _describe(self, folder: int, parcel: Parcel, now: datetime) -> None:
        with closing_fd(make_folders(folder, (KEPT_APART.encode(),))) as apart:
            _write(apart, _MARK, parcel.attempt_id)
            if self._keep is not None:
                _write(apart, _EXPIRY, str(int((now + self._keep).timestamp())))

    def _jobs(self, group: str, tally: Tally) -> int:
        with closing_fd(os.open(self._shared.files(group), OPEN_FOLDER)) as files:
            for _ in range(_TRIES):
                try:
                    with suppress(FileExistsError):
                        os.mkdir(ARTIFACTS, 0o755, dir_fd=files)
                    return os.open(ARTIFACTS, OPEN_FOLDER, dir_fd=files)
                except OSError as error:
                    if error.errno not in _IN_THE_WAY:
                        raise
                    tally.moved.append(_set_aside(files, ARTIFACTS))
        raise _in_the_way()

    def _job_folder(self, parcel: Parcel, above: int, jobs: int, now: datetime, tally: Tally) -> int:
        """Of a job with several tasks: one that we made, where there is none."""
        for _ in range(_TRIES):
            with suppress(OSError):
                if _is_ours(jobs, parcel.job_id):
                    return os.open(parcel.job_id, OPEN_FOLDER, dir_fd=jobs)
            name = secrets.token_hex(16)
            try:
                with closing_fd(make_folders(above, (name.encode(),))) as fresh:
                    self._describe(fresh, parcel, now)
                self._move_in(parcel.group, above, name, jobs, parcel.job_id, tally)
            finally:
                shutil.rmtree(self._shared.drafts(parcel.group) / name, ignore_errors=True)
        raise _in_the_way()

    def _move_in(
        self, group: str, above: int, name: str, folder: int, final: str, tally: Tally, *, ours: bool = False
    ) -> None:
        for _ in range(_TRIES):
            try:
                os.rename(name, final, src_dir_fd=above, dst_dir_fd=folder)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                if ours or _is_ours(folder, final):
                    self._drop(group, folder, final)
                else:
                    tally.moved.append(f"{ARTIFACTS}/{_set_aside(folder, final)}")
            else:
                os.fsync(folder)
                return
        raise _in_the_way()

    def _drop(self, group: str, folder: int, name: str) -> None:
        """Out of sight at once; the next sweep clears it away."""
        removed = self._shared.make(self._shared.removed(group))
        with suppress(FileNotFoundError), closing_fd(os.open(removed, OPEN_FOLDER)) as ground:
            os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)


def _gather(engine: KeepsArtifacts, parcel: Parcel, draft: Draft) -> Tally:
    try:
        engine.collect(parcel.attempt_id, draft)
    finally:
        draft.close()
    return draft.tally


def _is_ours(folder: int, name: str) -> bool:
    try:
        with (
            closing_fd(os.open(name, OPEN_FOLDER, dir_fd=folder)) as fd,
            closing_fd(os.open(KEPT_APART, OPEN_FOLDER, dir_fd=fd)) as apart,
        ):
            os.stat(_MARK, dir_fd=apart, follow_symlinks=False)
    except OSError:
        return False
    return True


def _set_aside(folder: int, name: str) -> str:
    """What a job put there itself is its own, whatever it is: moved, never followed and never lost."""
    other = f"{name}.found-{secrets.token_hex(4)}"
    with suppress(FileNotFoundError):
        os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
    return other


def _in_the_way() -> OSError:
    return OSError(errno.EBUSY, msg("something in {artifacts} is in the way again and again", artifacts=ARTIFACTS))


def _write(folder: int, name: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o644, dir_fd=folder), "w") as file:
        file.write(text)
