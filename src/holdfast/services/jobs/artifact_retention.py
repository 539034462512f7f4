"""Removing artifacts some days after their job's end.

When that is, the store and our own notes say: what lies beside the artifacts themselves, a job could change.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.jobs import endings

from ..files.paths import ARTIFACTS
from ..files.tree import Tree, clear_removed
from ..files.walk import OPEN_FOLDER, Stopped, closing_fd

T = TypeVar("T")

log = logging.getLogger(__name__)

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or a job has put something else in its place
DRAFTS = timedelta(days=1)  # far longer than collecting may take
TIMEOUT = 600.0  # seconds for one step
MAX_COUNT = 10_000  # jobs looked at in one sweep of a group


class ArtifactSweep:
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
        self._keep = keep  # None: for ever
        self._clock = clock
        self._turn = asyncio.Lock()
        self._reach = HangGuard("artifact-sweep")

    async def sweep(self, actor: Actor) -> int:
        """Now, because somebody asks for it. Answers how many jobs' artifacts were removed."""
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only an admin removes artifacts that are due"))
        return await self.run()

    async def run(self) -> int:
        """Remove what is due, and clear away what was removed before. A crash in between repeats it, harmlessly."""
        async with self._turn:
            removed = 0
            if self._keep is not None:
                for group in await self._in_thread(lambda stop: list(_groups(self._shared))):
                    removed += await self._try_group(group, self._clock() - self._keep)
            await self._in_thread(lambda stop: clear_drafts(self._shared, self._clock() - DRAFTS))
            await self._in_thread(lambda stop: clear_removed(self._shared, stop))
            return removed

    async def find_due(self, before: datetime) -> dict[str, list[str]]:
        """Jobs that ended before then and whose artifacts are kept, by group."""
        found = {}
        for group in await self._in_thread(lambda stop: list(_groups(self._shared))):
            due = await self._due(group, before)
            if due:
                found[group] = due
        return found

    async def remove(self, due: Mapping[str, Sequence[str]]) -> int:
        """What `find_due` found; of how many jobs."""
        async with self._turn:
            removed = 0
            for group, ids in due.items():
                removed += await self._remove_all(group, ids)
            await self._in_thread(lambda stop: clear_removed(self._shared, stop))
            return removed

    async def _try_group(self, group: str, before: datetime) -> int:
        """One group's disk may be full, or gone: the others' turn comes all the same."""
        try:
            return await self._sweep_group(group, before)
        except (OSError, NotResponding) as error:
            said = {"event": "retention", "group": group, "error": str(error)}
            log.warning("could not remove old artifacts", extra=said)
            return 0

    async def _sweep_group(self, group: str, before: datetime) -> int:
        due = await self._due(group, before)
        return await self._remove_all(group, due) if due else 0

    async def _due(self, group: str, before: datetime) -> list[str]:
        old = await self._in_thread(lambda stop: kept_before(self._shared, group, before, stop))
        ended = await self._store.read(endings.finished_at, old) if old else {}
        return [id for id in old if _is_due(id, ended, before)]

    async def _remove_all(self, group: str, ids: Sequence[str]) -> int:
        return await self._in_thread(lambda stop: sum(_remove(self._shared, group, id, stop) for id in ids))

    async def _in_thread(self, work: Callable[[threading.Event], T]) -> T:
        """NotResponding when it takes too long: a disk without an answer delays neither the next turn nor the end."""
        stop = threading.Event()
        try:
            return await self._reach.run(lambda: work(stop), TIMEOUT)
        finally:
            stop.set()


def _is_due(job_id: str, ended: dict[str, datetime | None], before: datetime) -> bool:
    """A job that runs on may have tasks that ended long ago; one that nobody knows any more is over."""
    if job_id not in ended:
        return True
    finished = ended[job_id]
    return finished is not None and finished <= before


def _groups(shared: SharedFolders) -> Iterator[str]:
    """Also those that are no more."""
    with suppress(FileNotFoundError), os.scandir(shared.root / "groups") as entries:
        for entry in entries:
            yield entry.name


def kept_before(shared: SharedFolders, group: str, before: datetime, stop: threading.Event) -> list[str]:
    """Jobs with artifacts that were kept before then."""
    found: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(shared.kept(group)) as entries:
        for entry in entries:
            if stop.is_set():
                raise Stopped
            if entry.stat(follow_symlinks=False).st_mtime <= before.timestamp():
                found.append(entry.name)
            if len(found) == MAX_COUNT:
                break
    return found


def _remove(shared: SharedFolders, group: str, job_id: str, stop: threading.Event) -> bool:
    """Out of the files first, then out of our notes. True when there was something."""
    if stop.is_set():
        raise Stopped
    removed = True
    try:
        with closing_fd(Tree(shared, group).folder((ARTIFACTS,))) as jobs:
            _drop(shared, group, jobs, job_id)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        removed = False
    (shared.kept(group) / job_id).unlink(missing_ok=True)
    return removed


def clear_drafts(shared: SharedFolders, before: datetime) -> None:
    """What a server that was killed had half collected."""
    for group in list(_groups(shared)):
        with suppress(OSError), closing_fd(os.open(shared.drafts(group), OPEN_FOLDER)) as drafts:
            with os.scandir(drafts) as entries:
                times = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in entries}
            for name, time in times.items():
                if time <= before.timestamp():
                    _drop(shared, group, drafts, name)


def _drop(shared: SharedFolders, group: str, folder: int, name: str) -> None:
    """Whatever it is, out of jobs' sight at once; a link is moved as the link it is."""
    with closing_fd(os.open(shared.make(shared.removed(group)), OPEN_FOLDER)) as ground:
        os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=ground)
