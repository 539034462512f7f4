"""Deletes artifacts some days after their job has ended.

The end time comes from the store and our own files, because a job could change files beside its artifacts.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from holdfast.core.access import Actor
from holdfast.core.messages import msg
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.jobs import finish_times

from ..files.file_tree import FileTree, empty_trash, list_groups_with_files
from ..files.folder_scan import OPEN_FOLDER_FLAGS, WorkCancelled, closing_fd
from ..files.paths import ARTIFACTS_FOLDER
from ..permissions import require_admin

T = TypeVar("T")

log = logging.getLogger(__name__)

_MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # missing, or a job replaced it
DRAFT_LIFETIME = timedelta(days=1)  # far longer than collecting may take
CLEANUP_STEP_TIMEOUT = 600.0  # seconds for one step
MAX_JOBS_PER_CLEANUP = 10_000  # jobs checked in one cleanup of a group


class ArtifactCleanup:
    def __init__(
        self,
        store: Store,
        shared: SharedFolders,
        keep: timedelta | None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._shared = shared
        self._retention = keep  # None: forever
        self._clock = clock
        self._lock = asyncio.Lock()
        self._hang_guard = HangGuard("artifact-sweep")

    async def delete_expired_artifacts(self, actor: Actor) -> int:
        """Delete expired artifacts now, for an admin. Return the number of jobs."""
        require_admin(actor, msg("Only admins can delete expired artifacts"))
        return await self.run()

    async def run(self) -> int:
        """Delete expired artifacts and empty the trash. Idempotent: safe to repeat after a crash."""
        async with self._lock:
            removed = 0
            if self._retention is not None:
                for group in await self._run_in_thread(lambda stop: list_groups_with_files(self._shared)):
                    removed += await self._try_cleanup_group(group, self._clock() - self._retention)
            await self._run_in_thread(lambda stop: delete_old_drafts(self._shared, self._clock() - DRAFT_LIFETIME))
            await self._run_in_thread(lambda stop: empty_trash(self._shared, stop))
            return removed

    async def find_expired_artifacts(self, before: datetime) -> dict[str, list[str]]:
        """Return the jobs that ended before then and still have artifacts, by group."""
        found = {}
        for group in await self._run_in_thread(lambda stop: list_groups_with_files(self._shared)):
            due = await self._list_expired_artifacts(group, before)
            if due:
                found[group] = due
        return found

    async def delete_artifacts(self, due: Mapping[str, Sequence[str]]) -> int:
        """Delete the artifacts of these jobs. Return the number of jobs."""
        async with self._lock:
            removed = 0
            for group, ids in due.items():
                removed += await self._remove_artifacts(group, ids)
            await self._run_in_thread(lambda stop: empty_trash(self._shared, stop))
            return removed

    async def _try_cleanup_group(self, group: str, before: datetime) -> int:
        """Clean up one group. A full or missing disk of one group does not affect the others."""
        try:
            due = await self._list_expired_artifacts(group, before)
            return await self._remove_artifacts(group, due) if due else 0
        except (OSError, NotResponding) as error:
            extra = {"event": "retention", "group": group, "error": str(error)}
            log.warning("could not remove old artifacts", extra=extra)
            return 0

    async def _list_expired_artifacts(self, group: str, before: datetime) -> list[str]:
        old = await self._run_in_thread(lambda stop: list_jobs_with_old_artifacts(self._shared, group, before, stop))
        ended = await self._store.read(finish_times.load_finish_times, old) if old else {}
        return [id for id in old if _is_expired(id, ended, before)]

    async def _remove_artifacts(self, group: str, ids: Sequence[str]) -> int:
        return await self._run_in_thread(
            lambda stop: sum(_remove_job_artifacts(self._shared, group, id, stop) for id in ids)
        )

    async def _run_in_thread(self, work: Callable[[threading.Event], T]) -> T:
        """Run disk work with a timeout. NotResponding if the disk hangs, so that shutdown is not delayed."""
        stop = threading.Event()
        try:
            return await self._hang_guard.run_with_timeout(lambda: work(stop), CLEANUP_STEP_TIMEOUT)
        finally:
            stop.set()


def _is_expired(job_id: str, ended: dict[str, datetime | None], before: datetime) -> bool:
    """Return whether the job has ended before then. A job that is not in the store has ended."""
    if job_id not in ended:
        return True
    finished = ended[job_id]
    return finished is not None and finished <= before


def list_jobs_with_old_artifacts(
    shared: SharedFolders, group: str, before: datetime, stop: threading.Event
) -> list[str]:
    found: list[str] = []
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(shared.get_artifact_markers_folder(group)) as entries,
    ):
        for entry in entries:
            if stop.is_set():
                raise WorkCancelled
            if entry.stat(follow_symlinks=False).st_mtime <= before.timestamp():
                found.append(entry.name)
            if len(found) == MAX_JOBS_PER_CLEANUP:
                break
    return found


def _remove_job_artifacts(shared: SharedFolders, group: str, job_id: str, stop: threading.Event) -> bool:
    """Delete the artifacts first, then our own record of them. Return whether there were any."""
    if stop.is_set():
        raise WorkCancelled
    removed = True
    try:
        with closing_fd(FileTree(shared, group).open_folder((ARTIFACTS_FOLDER,))) as jobs:
            _move_to_trash(shared, group, jobs, job_id)
    except OSError as error:
        if error.errno not in _MISSING_ERRNOS:
            raise
        removed = False
    (shared.get_artifact_markers_folder(group) / job_id).unlink(missing_ok=True)
    return removed


def delete_old_drafts(shared: SharedFolders, before: datetime) -> None:
    """Delete partly collected artifacts of a server that was killed."""
    for group in list_groups_with_files(shared):
        with (
            suppress(OSError),
            closing_fd(os.open(shared.get_artifact_drafts_folder(group), OPEN_FOLDER_FLAGS)) as drafts,
        ):
            with os.scandir(drafts) as entries:
                times = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in entries}
            for name, time in times.items():
                if time <= before.timestamp():
                    _move_to_trash(shared, group, drafts, name)


def _move_to_trash(shared: SharedFolders, group: str, folder: int, name: str) -> None:
    """Move an entry to the trash, where no job sees it. Links are not followed."""
    with closing_fd(os.open(shared.create_folder(shared.get_removed_folder(group)), OPEN_FOLDER_FLAGS)) as ground:
        os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)
