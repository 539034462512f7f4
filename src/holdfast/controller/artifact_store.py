"""Stores artifacts in the shared files of the job's group, in jobArtifacts, by job. Blocking: runs in a thread.

Jobs of the group write to the same folder at any time. So artifacts are collected where no job sees them and moved
there as a whole; each folder is opened without following links.
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
from holdfast.disk_space import DiskThresholds
from holdfast.engines.artifacts import SupportsArtifacts
from holdfast.services.files.file_tree import FileTree
from holdfast.services.files.folder_scan import OPEN_FOLDER_FLAGS, FolderScan, ScanLimitReached, closing_fd
from holdfast.services.files.paths import ARTIFACTS_FOLDER, METADATA_FOLDER
from holdfast.shared_folders import SharedFolders

from .artifact_draft import ArtifactAmount, CollectionResult, StagingArtifactSink, open_or_create_folder

_EXPIRY_FILE = "expiredAt"  # in seconds of Unix time, for PrimeHub's clients
_MARKER_FILE = "attempt"  # marks a folder that Holdfast created
_MAX_TRIES = 5
_CONFLICT_ERRORS = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSource:
    """The task whose artifacts they are."""

    attempt_id: str
    job_id: str
    group: str
    task: str | None  # None: the only task of its job, which needs no subfolder


class ArtifactStore:
    def __init__(self, shared: SharedFolders, keep: timedelta | None, marks: DiskThresholds | None = None) -> None:
        self._marks = marks
        self._shared = shared
        self._keep = keep  # None: unlimited

    def save_artifacts(
        self,
        engine: SupportsArtifacts,
        parcel: ArtifactSource,
        room: ArtifactAmount,
        now: datetime,
        stop: threading.Event,
    ) -> CollectionResult:
        """Collect and save artifacts. OSError if they cannot be moved into place; then nothing changes."""
        self._shared.create_files_folder(parcel.group)
        drafts = self._shared.create_folder(self._shared.get_artifact_drafts_folder(parcel.group))
        name = secrets.token_hex(16)
        with closing_fd(os.open(drafts, OPEN_FOLDER_FLAGS)) as above:
            try:
                with closing_fd(open_or_create_folder(above, (name.encode(),))) as top:
                    if parcel.task is None:
                        self._write_metadata(top, parcel, now)
                    tally = _collect_artifacts(engine, parcel, StagingArtifactSink(top, room, stop.is_set, self._marks))
                if tally.files and not stop.is_set():
                    self._move_with_retries(parcel, above, name, now, tally)
            finally:
                shutil.rmtree(drafts / name, ignore_errors=True)  # what was not moved
        return tally

    def count_files_by_task(self, parcel: ArtifactSource, most: int) -> dict[str, ArtifactAmount]:
        """Count the saved files of a job's tasks, until there are more than `most`."""
        path = f"{ARTIFACTS_FOLDER}/{parcel.job_id}/"
        found: dict[str, ArtifactAmount] = {}
        try:
            folder = FileTree(self._shared, parcel.group).open_folder((ARTIFACTS_FOLDER, parcel.job_id))
        except OSError:
            return found
        with closing_fd(folder), suppress(ScanLimitReached):
            for count, item in enumerate(FolderScan(threading.Event(), recursive=True).iter_entries(folder, path)):
                task = item.name.removeprefix(path).partition("/")[0]
                before = found.get(task, ArtifactAmount(0, 0))
                found[task] = ArtifactAmount(before.files + 1, before.bytes + item.size)
                if count > most:
                    break
        return found

    def _move_with_retries(
        self, parcel: ArtifactSource, above: int, name: str, now: datetime, tally: CollectionResult
    ) -> None:
        """Retry if a user removes a folder at the same time."""
        for last in (False, False, True):
            try:
                self._move_into_place(parcel, above, name, now, tally)
            except FileNotFoundError:
                if last:
                    raise
            else:
                return

    def _move_into_place(
        self, parcel: ArtifactSource, above: int, name: str, now: datetime, tally: CollectionResult
    ) -> None:
        self._record_job(parcel, now)
        with closing_fd(self._open_jobs_folder(parcel.group, tally)) as jobs:
            if parcel.task is None:
                self._move_folder(parcel.group, above, name, jobs, parcel.job_id, tally)
                return
            with closing_fd(self._open_job_folder(parcel, above, jobs, now, tally)) as folder:
                self._move_folder(parcel.group, above, name, folder, parcel.task, tally, ours=True)

    def _record_job(self, parcel: ArtifactSource, now: datetime) -> None:
        """Record the job before its artifacts exist, so that retention removes them."""
        path = self._shared.create_folder(self._shared.get_artifact_markers_folder(parcel.group)) / parcel.job_id
        path.touch(mode=0o600)
        os.utime(path, (now.timestamp(), now.timestamp()))

    def _write_metadata(self, folder: int, parcel: ArtifactSource, now: datetime) -> None:
        with closing_fd(open_or_create_folder(folder, (METADATA_FOLDER.encode(),))) as apart:
            _write_text(apart, _MARKER_FILE, parcel.attempt_id)
            if self._keep is not None:
                _write_text(apart, _EXPIRY_FILE, str(int((now + self._keep).timestamp())))

    def _open_jobs_folder(self, group: str, tally: CollectionResult) -> int:
        with closing_fd(os.open(self._shared.get_files_folder(group), OPEN_FOLDER_FLAGS)) as files:
            for _ in range(_MAX_TRIES):
                try:
                    with suppress(FileExistsError):
                        os.mkdir(ARTIFACTS_FOLDER, 0o755, dir_fd=files)
                    return os.open(ARTIFACTS_FOLDER, OPEN_FOLDER_FLAGS, dir_fd=files)
                except OSError as error:
                    if error.errno not in _CONFLICT_ERRORS:
                        raise
                    tally.moved.append(_rename_existing_entry(files, ARTIFACTS_FOLDER))
        raise _build_conflict_error()

    def _open_job_folder(
        self, parcel: ArtifactSource, above: int, jobs: int, now: datetime, tally: CollectionResult
    ) -> int:
        """Open the folder of a job with several tasks; create it if missing."""
        for _ in range(_MAX_TRIES):
            with suppress(OSError):
                if _is_artifact_folder(jobs, parcel.job_id):
                    return os.open(parcel.job_id, OPEN_FOLDER_FLAGS, dir_fd=jobs)
            name = secrets.token_hex(16)
            try:
                with closing_fd(open_or_create_folder(above, (name.encode(),))) as fresh:
                    self._write_metadata(fresh, parcel, now)
                self._move_folder(parcel.group, above, name, jobs, parcel.job_id, tally)
            finally:
                shutil.rmtree(self._shared.get_artifact_drafts_folder(parcel.group) / name, ignore_errors=True)
        raise _build_conflict_error()

    def _move_folder(
        self, group: str, above: int, name: str, folder: int, final: str, tally: CollectionResult, *, ours: bool = False
    ) -> None:
        for _ in range(_MAX_TRIES):
            try:
                os.rename(name, final, src_dir_fd=above, dst_dir_fd=folder)
            except OSError as error:
                if error.errno not in _CONFLICT_ERRORS:
                    raise
                if ours or _is_artifact_folder(folder, final):
                    self._move_to_removed_folder(group, folder, final)
                else:
                    tally.moved.append(f"{ARTIFACTS_FOLDER}/{_rename_existing_entry(folder, final)}")
            else:
                os.fsync(folder)
                return
        raise _build_conflict_error()

    def _move_to_removed_folder(self, group: str, folder: int, name: str) -> None:
        """Move it out of sight; the next sweep deletes it."""
        removed = self._shared.create_folder(self._shared.get_removed_folder(group))
        with suppress(FileNotFoundError), closing_fd(os.open(removed, OPEN_FOLDER_FLAGS)) as ground:
            os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)


def _collect_artifacts(
    engine: SupportsArtifacts, parcel: ArtifactSource, draft: StagingArtifactSink
) -> CollectionResult:
    try:
        engine.collect_artifacts(parcel.attempt_id, draft)
    finally:
        draft.close()
    return draft.tally


def _is_artifact_folder(folder: int, name: str) -> bool:
    try:
        with (
            closing_fd(os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)) as fd,
            closing_fd(os.open(METADATA_FOLDER, OPEN_FOLDER_FLAGS, dir_fd=fd)) as apart,
        ):
            os.stat(_MARKER_FILE, dir_fd=apart, follow_symlinks=False)
    except OSError:
        return False
    return True


def _rename_existing_entry(folder: int, name: str) -> str:
    """Rename what a job created itself; it is never followed or deleted."""
    other = f"{name}.found-{secrets.token_hex(4)}"
    with suppress(FileNotFoundError):
        os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
    return other


def _build_conflict_error() -> OSError:
    return OSError(errno.EBUSY, msg("other files keep appearing in {artifacts}", artifacts=ARTIFACTS_FOLDER))


def _write_text(folder: int, name: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o644, dir_fd=folder), "w") as file:
        file.write(text)
