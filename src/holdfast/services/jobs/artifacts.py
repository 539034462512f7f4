"""What is kept of a job's files: reading it. Whoever may see the job may see them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from holdfast.core.access import Actor
from holdfast.core.errors import NotFound
from holdfast.core.identity import group_path
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store

from ..disk_work import DiskWork
from ..files.open_file import OpenFile, open_file
from ..files.paths import ARTIFACTS, is_own, parse_path
from ..files.tree import Tree
from ..files.walk import Item, Walk, closing_fd, collect
from ..job_lookup import find_job

MAX_ITEMS = 10_000


@dataclass(frozen=True, slots=True)
class ArtifactList:
    job: JobSummary
    prefix: str  # as PrimeHub's clients know the place: groups/GROUP/jobArtifacts/JOB
    items: tuple[Item, ...]
    complete: bool


class Artifacts:
    def __init__(self, store: Store, shared: SharedFolders, work: DiskWork) -> None:
        self._store = store
        self._shared = shared
        self._work = work

    async def list(self, actor: Actor, ref: str) -> ArtifactList:
        return await self.of(await find_job(self._store, actor, ref))

    async def of(self, job: JobSummary) -> ArtifactList:
        """Of a job that somebody was allowed to see."""
        place = (ARTIFACTS, job.id)
        path = "".join(f"{part}/" for part in place)

        def work(stop: threading.Event) -> tuple[tuple[Item, ...], bool]:
            try:
                fd = Tree(self._shared, job.group).folder(place)
            except OSError:
                return (), True
            walk = Walk(stop, recursive=True)
            with closing_fd(fd):
                found = collect(walk, walk.items(fd, path), MAX_ITEMS)
            return tuple(replace(item, name=item.name[len(path) :]) for item in found.items), found.complete

        items, complete = await self._work.long(work, job.group)
        return ArtifactList(job, f"groups/{group_path(job.group)}/{ARTIFACTS}/{job.id}", items, complete)

    async def open(self, actor: Actor, ref: str, path: str) -> OpenFile:
        return (await self.open_with_job(actor, ref, path))[1]

    async def open_with_job(self, actor: Actor, ref: str, path: str) -> tuple[JobSummary, OpenFile]:
        job = await find_job(self._store, actor, ref)
        parts = (ARTIFACTS, job.id, *parse_path(path))
        if is_own(parts):
            raise NotFound(msg("There is no file {path}", path=path[:200]))
        return job, await open_file(Tree(self._shared, job.group), parts, self._work)
