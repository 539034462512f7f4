"""Keeping datasets of the kind git at the newest commit of their branch.

An update asks what the branch is at, and only if that is new fetches it, into a fresh clone; nothing is left of that
but the checkout. So an update that is killed at any point leaves what there was. One at a time for each dataset, a few
at a time in all.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.disk_space import DiskMarks, is_disk_full, require_room
from holdfast.settings import MountSettings
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import secrets as secret_rows
from holdfast.store.database import Store

from ..disk_work import ended
from ..files.folder_removal import remove_folder
from ..refusals import Unavailable
from . import git_checkouts as git_trees
from .git_program import GitFailed, GitProgram, Source, Tip, check_git_there
from .kinds import GIT

log = logging.getLogger(__name__)

MAX_CONCURRENT = 8  # updates
ANSWER = 60.0  # seconds that a server may take to say what a branch is at
TIMEOUT = 30.0  # seconds that a job which is submitted waits for the first checkout
INTERVAL = 10.0  # seconds after a failure in which submitted jobs do not try again
MAX_OLD = 20  # earlier checkouts of one dataset that running jobs may hold
SWEEP = 300.0  # seconds between looks for what can go


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """How far a dataset is."""

    commit: str = ""  # what jobs are given; empty: nothing yet
    synced_at: datetime | None = None  # when that was known to be the newest
    error: str = ""  # of the last try; empty: it went well
    error_at: datetime | None = None
    url: str = ""  # where the checkout is from
    branch: str = ""
    busy: bool = False  # an update is under way


class GitSync:
    def __init__(
        self,
        store: Store,
        folders: SharedFolders,
        settings: MountSettings,
        *,
        marks: DiskMarks | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._marks = marks or DiskMarks()
        self._store = store
        self._root = folders.git("x").parent
        self._every = settings.git_seconds
        self._timeout = settings.git_timeout
        self._git = GitProgram(known_hosts=self._root / ".known_hosts", most_bytes=settings.git_bytes)
        self._clock = clock
        self._known: dict[str, GitState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, float] = {}  # when, by a clock that never jumps
        self._room = asyncio.Semaphore(MAX_CONCURRENT)
        self._recovery: asyncio.Future[None] | None = None
        self._end = threading.Event()

    async def state(self, dataset: Dataset) -> GitState:
        """How far it is. A checkout of what it was before its address changed is none."""
        state = replace(await self._last(dataset.name), busy=dataset.name in self._tasks)
        return state if _is_of(state, dataset) else replace(state, commit="", synced_at=None)

    async def _last(self, name: str) -> GitState:
        if name not in self._known:
            self._known[name] = _state_of(await asyncio.to_thread(git_trees.read_state, self._root / name))
        return self._known[name]

    async def ready(self, dataset: Dataset) -> None:
        """Returns when there is a checkout; Unavailable, with git's own words, when that does not come about soon."""
        if await self._is_there(dataset):
            return
        if time.monotonic() - self._failed.get(dataset.name, -INTERVAL) >= INTERVAL:
            await asyncio.wait([self.begin(dataset.name)], timeout=TIMEOUT)
        if not await self._is_there(dataset):
            why = (await self.state(dataset)).error or msg("it is still being fetched")
            raise Unavailable(
                msg("The dataset {name} cannot be mounted yet: {why}", name=dataset.name, why=why),
                hint=msg(
                    "Try again in a minute; `holdfast dataset show {name}` tells how far it is.", name=dataset.name
                ),
            )

    async def _is_there(self, dataset: Dataset) -> bool:
        folder = self._root / dataset.name
        return bool((await self.state(dataset)).commit) and await asyncio.to_thread(git_trees.has_checkout, folder)

    async def sync(self, dataset: Dataset, patience: float) -> GitState:
        """Bring it up to date now; how far that is after so many seconds. What is under way may have looked too early,
        so another look follows it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                under_way = self._tasks.get(dataset.name)
                if under_way is not None:
                    await asyncio.wait([under_way])
                await asyncio.wait([self.begin(dataset.name)])
        return await self.state(dataset)

    def begin(self, name: str) -> asyncio.Task[None]:
        """An update in the background; the one that is under way, where there is one."""
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._update(name))
            task.add_done_callback(lambda done: self._tasks.pop(name) if self._tasks.get(name) is done else None)
        return task

    async def begin_anew(self, name: str) -> None:
        """What is under way goes by what the dataset said before."""
        await self._stop(name)
        self._failed.pop(name, None)
        self.begin(name)

    async def forget(self, name: str) -> None:
        """The dataset is gone; its checkout stays until no running job can have it."""
        await self._stop(name)
        await self._recovered()
        self._known.pop(name, None)
        await asyncio.to_thread(git_trees.set_aside, self._root / name, self._clock())

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                try:
                    await self.round()
                except Exception:
                    log.exception("could not look after git datasets", extra={"event": "git_round"})
                await asyncio.sleep(self._every or SWEEP)
        finally:
            await self.close()

    async def round(self) -> None:
        """Begin an update of each dataset, and remove what nobody needs."""
        await self._recovered()
        there = await asyncio.to_thread(git_trees.names, self._root)  # before the rows: they are written first
        datasets = await self._store.read(dataset_rows.list_datasets)
        known = {dataset.name for dataset in datasets if dataset.kind == GIT}
        for name in set(there) - known:
            await self.forget(name)
        await self._sweep()
        for name in sorted(known) if self._every else ():
            self.begin(name)

    async def _recovered(self) -> None:
        """Once, before anything else is done to the folders: what a server that was killed left there is dealt with."""
        if self._recovery is None or (self._recovery.done() and self._recovery.exception()):
            work = asyncio.to_thread(git_trees.recover, self._root, self._clock(), self._end)
            self._recovery = asyncio.ensure_future(work)
        await asyncio.shield(self._recovery)

    async def close(self) -> None:
        self._end.set()
        for name in list(self._tasks):
            await self._stop(name)

    async def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _sweep(self) -> None:
        olds = await asyncio.to_thread(git_trees.old_ones, self._root)
        if olds:
            now = self._clock()
            oldest = await self._store.read(dataset_rows.oldest_running)
            before = now if oldest is None else min(now, oldest)
            await asyncio.to_thread(git_trees.sweep, olds, before, self._end)

    async def _update(self, name: str) -> None:
        async with self._room:
            dataset = await self._store.read(dataset_rows.get_dataset, name)
            if dataset is None or dataset.kind != GIT:
                return
            self._known[name] = await self._tried(dataset)
            await self._save(name)

    async def _tried(self, dataset: Dataset) -> GitState:
        before = await self._last(dataset.name)
        try:
            async with asyncio.timeout(self._timeout):
                after = await self._fetched(dataset, before)
        except Exception as error:
            why = _why(error, self._timeout)
            self._failed[dataset.name] = time.monotonic()
            log.warning("a git dataset is not up to date", extra={"event": "git", "dataset": dataset.name, "why": why})
            return replace(before, error=why, error_at=self._clock())
        self._failed.pop(dataset.name, None)
        return after

    async def _fetched(self, dataset: Dataset, before: GitState) -> GitState:
        check_git_there(shutil.which("git"))
        await self._recovered()
        source = await self._source(dataset)
        await asyncio.to_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)
        tip = await self._tip(source)
        folder = self._root / dataset.name
        commit = tip.commit
        same = before.commit == commit and _is_of(before, dataset)
        if not same or not await asyncio.to_thread(git_trees.has_checkout, folder):
            commit = await self._replace(source, tip.ref, folder)
        return GitState(commit=commit, synced_at=self._clock(), url=source.url, branch=source.branch)

    async def _tip(self, source: Source) -> Tip:
        """Soon, or not at all: a server that is silent takes the turn of others."""
        try:
            async with asyncio.timeout(ANSWER):
                return await self._git.tip(source)
        except TimeoutError:
            raise GitFailed(msg("Its server did not answer within {answer} seconds", answer=f"{ANSWER:g}")) from None

    async def _replace(self, source: Source, ref: str, folder: Path) -> str:
        olds = await asyncio.to_thread(git_trees.old_ones, folder)
        if len(olds) >= MAX_OLD:
            raise GitFailed(
                msg(
                    "Running jobs hold {olds} earlier checkouts; it is updated again when some have ended",
                    olds=len(olds),
                )
            )
        work = await asyncio.to_thread(git_trees.new_work, folder)
        try:
            repo, tree = work / "repo", work / "tree"
            await self._require_room(work, 0)
            commit = await self._git.fetch(source, ref, repo)
            await self._require_room(work, await self._git.check_size(repo, commit))
            await self._git.check_out(repo, commit, tree)
            await ended(partial(git_trees.put_in_place, tree, folder, self._clock()))
        finally:
            await ended(partial(remove_folder, work, self._end))
        return commit

    async def _require_room(self, folder: Path, size: int) -> None:
        try:
            await asyncio.to_thread(require_room, folder, size, self._marks)
        except OSError as error:
            if is_disk_full(error):
                raise GitFailed(msg("There is no room left for it on the disk of the shared files")) from error
            raise

    async def _source(self, dataset: Dataset) -> Source:
        name = dataset.data.get("secret")
        source = Source(url=dataset.data["url"], branch=dataset.data.get("branch", ""))
        if name is None:
            return source
        secret = await self._store.read(secret_rows.get_secret, name)
        value = await self._store.read(secret_rows.secret_value, name)
        if secret is None or value is None:
            raise GitFailed(msg("There is no secret {name}", name=name))
        return replace(source, username=secret.username, value=value)

    async def _save(self, name: str) -> None:
        """A full disk costs no more than another fetch after the next start."""
        folder = self._root / name
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(git_trees.write_state, folder, _state_to_json(self._known[name]))
        except OSError as error:
            log.warning(
                "could not keep the state of a git dataset", extra={"event": "git", "dataset": name, "why": str(error)}
            )


def _is_of(state: GitState, dataset: Dataset) -> bool:
    return (state.url, state.branch) == (dataset.data.get("url"), dataset.data.get("branch", ""))


def _why(error: Exception, timeout: float) -> str:
    if isinstance(error, GitFailed):
        return str(error)
    if isinstance(error, UserError):
        return error.message
    if isinstance(error, TimeoutError):
        return msg("It took longer than {timeout} seconds (mounts.git_timeout)", timeout=f"{timeout:g}")
    if isinstance(error, OSError):
        return msg("The server could not write it to disk: {strerror}", strerror=error.strerror or error)
    log.error("an update of a git dataset failed", exc_info=error, extra={"event": "git"})
    return msg("The server failed at it; its log says more")


def _state_to_json(state: GitState) -> dict[str, Any]:
    found = {key: value for key, value in asdict(state).items() if key != "busy"}
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in found.items()}


def _state_of(found: dict[str, Any]) -> GitState:
    """What we wrote; anything else counts as nothing."""
    try:
        return GitState(
            commit=str(found.get("commit", "")),
            synced_at=_instant(found.get("synced_at")),
            error=str(found.get("error", "")),
            error_at=_instant(found.get("error_at")),
            url=str(found.get("url", "")),
            branch=str(found.get("branch", "")),
        )
    except (ValueError, TypeError):
        return GitState()


def _instant(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
