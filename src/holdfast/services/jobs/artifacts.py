"""Reading a job's artifacts. Users who can read the job can read them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound
from holdfast.core.identity import format_group_path
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store

from ..disk_work import DiskExecutor
from ..files.file_tree import FileTree
from ..files.folder_scan import FileEntry, FolderScan, build_listing, closing_fd
from ..files.open_file import OpenFile, open_file
from ..files.paths import ARTIFACTS_FOLDER, is_reserved_path, parse_path
from ..job_lookup import find_job

MAX_LISTED_ARTIFACTS = 10_000


@dataclass(frozen=True, slots=True)
class ArtifactList:
    job: JobSummary
    prefix: str  # path for PrimeHub's clients: groups/GROUP/jobArtifacts/JOB
    items: tuple[FileEntry, ...]
    complete: bool


class Artifacts:
    def __init__(self, store: Store, shared: SharedFolders, work: DiskExecutor) -> None:
        self._store = store
        self._shared = shared
        self._work = work

    async def list(self, actor: Actor, ref: str) -> ArtifactList:
        return await self.list_job_artifacts(await find_job(self._store, actor, ref))

    async def list_job_artifacts(self, job: JobSummary) -> ArtifactList:
        """List the artifacts of a job. The caller has checked permissions."""
        place = (ARTIFACTS_FOLDER, job.id)
        path = "".join(f"{part}/" for part in place)

        def read_folder(stop: threading.Event) -> tuple[tuple[FileEntry, ...], bool]:
            try:
                fd = FileTree(self._shared, job.group).open_folder(place)
            except OSError:
                return (), True
            walk = FolderScan(stop, recursive=True)
            with closing_fd(fd):
                found = build_listing(walk, walk.iter_entries(fd, path), MAX_LISTED_ARTIFACTS)
            return tuple(replace(item, name=item.name[len(path) :]) for item in found.items), found.complete

        items, complete = await self._work.run_long(read_folder, job.group)
        return ArtifactList(job, f"groups/{format_group_path(job.group)}/{ARTIFACTS_FOLDER}/{job.id}", items, complete)

    async def open(self, actor: Actor, ref: str, path: str) -> OpenFile:
        return (await self.open_with_job(actor, ref, path))[1]

    async def open_with_job(self, actor: Actor, ref: str, path: str) -> tuple[JobSummary, OpenFile]:
        job = await find_job(self._store, actor, ref)
        parts = (ARTIFACTS_FOLDER, job.id, *parse_path(path))
        if is_reserved_path(parts):
            raise NotFound(msg("File {path} not found", path=path[:200]))
        return job, await open_file(FileTree(self._shared, job.group), parts, self._work)
