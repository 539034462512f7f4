"""Keep datasets of kind git at the newest commit of their branch.

An update reads the commit of the branch and, if it is new, fetches it into a fresh clone, of which only the checkout is
kept. An update that is killed at any time therefore leaves the previous checkout. One update runs per dataset, and a
few in total.
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
from holdfast.disk_space import DiskThresholds, is_disk_full_error, require_space
from holdfast.settings_sections import MountSettings
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import secrets as secret_rows
from holdfast.store.database import Store

from ..disk_work import run_to_end
from ..errors import Unavailable
from ..files.folder_removal import remove_folder
from . import git_checkouts as git_trees
from .git_program import BranchTip, GitError, GitProgram, GitSource, require_git
from .kinds import GIT

log = logging.getLogger(__name__)

MAX_CONCURRENT_UPDATES = 8
LS_REMOTE_TIMEOUT = 60.0  # seconds to wait for the git server to report the commit of a branch
READY_TIMEOUT = 30.0  # seconds that a submitted job waits for the first checkout
RETRY_INTERVAL = 10.0  # seconds after a failure without retries by submitted jobs
MAX_OLD_CHECKOUTS = 20  # earlier checkouts of one dataset that running jobs can use
SWEEP_INTERVAL = 300.0  # seconds between cleanups of old checkouts


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The sync state of a dataset."""

    commit: str = ""  # of the current checkout; empty: none yet
    synced_at: datetime | None = None  # when it was last confirmed as the newest
    error: str = ""  # of the last update; empty: it succeeded
    error_at: datetime | None = None
    url: str = ""  # origin of the checkout
    branch: str = ""
    busy: bool = False  # an update is in progress


class GitSync:
    def __init__(
        self,
        store: Store,
        folders: SharedFolders,
        settings: MountSettings,
        *,
        marks: DiskThresholds | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._disk_thresholds = marks or DiskThresholds()
        self._store = store
        self._root = folders.get_git_folder("x").parent
        self._update_interval = settings.git_seconds
        self._timeout = settings.git_timeout
        self._git = GitProgram(known_hosts=self._root / ".known_hosts", most_bytes=settings.git_bytes)
        self._clock = clock
        self._states: dict[str, GitState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed_at: dict[str, float] = {}  # monotonic time of the failure
        self._update_slots = asyncio.Semaphore(MAX_CONCURRENT_UPDATES)
        self._recovery: asyncio.Future[None] | None = None
        self._stop_event = threading.Event()

    async def get_state(self, dataset: Dataset) -> GitState:
        """Return the sync state. A checkout of an earlier address or branch does not count."""
        state = replace(await self._load_state(dataset.name), busy=dataset.name in self._tasks)
        return state if _has_same_source(state, dataset) else replace(state, commit="", synced_at=None)

    async def _load_state(self, name: str) -> GitState:
        if name not in self._states:
            self._states[name] = _state_from_json(await asyncio.to_thread(git_trees.read_sync_state, self._root / name))
        return self._states[name]

    async def wait_until_ready(self, dataset: Dataset) -> None:
        """Wait until there is a checkout; raise Unavailable with git's error after a timeout."""
        if await self._has_checkout(dataset):
            return
        if time.monotonic() - self._failed_at.get(dataset.name, -RETRY_INTERVAL) >= RETRY_INTERVAL:
            await asyncio.wait([self.start_update(dataset.name)], timeout=READY_TIMEOUT)
        if not await self._has_checkout(dataset):
            why = (await self.get_state(dataset)).error or msg("it is still being fetched")
            raise Unavailable(
                msg("The dataset {name} cannot be mounted yet: {why}", name=dataset.name, why=why),
                hint=msg(
                    "Try again in a minute. Run `holdfast dataset show {name}` to see the progress.", name=dataset.name
                ),
            )

    async def _has_checkout(self, dataset: Dataset) -> bool:
        folder = self._root / dataset.name
        return bool((await self.get_state(dataset)).commit) and await asyncio.to_thread(git_trees.has_checkout, folder)

    async def sync_dataset(self, dataset: Dataset, timeout: float) -> GitState:
        """Update the dataset now and return its state, at the latest after `timeout` seconds. An update in progress
        may have read an older commit, so another one follows it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                under_way = self._tasks.get(dataset.name)
                if under_way is not None:
                    await asyncio.wait([under_way])
                await asyncio.wait([self.start_update(dataset.name)])
        return await self.get_state(dataset)

    def start_update(self, name: str) -> asyncio.Task[None]:
        """Start an update in the background, or return the one in progress."""
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._run_update(name))
            task.add_done_callback(lambda done: self._tasks.pop(name) if self._tasks.get(name) is done else None)
        return task

    async def restart_update(self, name: str) -> None:
        """Cancel the update in progress, which uses the old settings, and start a new one."""
        await self._stop_update(name)
        self._failed_at.pop(name, None)
        self.start_update(name)

    async def retire_checkout(self, name: str) -> None:
        """Retire the checkout of a deleted dataset; it is kept while a running job may use it."""
        await self._stop_update(name)
        await self._ensure_recovered()
        self._states.pop(name, None)
        await asyncio.to_thread(git_trees.retire_folder, self._root / name, self._clock())

    async def run(self) -> None:
        """Update datasets periodically until cancelled."""
        try:
            while True:
                try:
                    await self.run_sync_cycle()
                except Exception:
                    log.exception("could not update git datasets", extra={"event": "git_round"})
                await asyncio.sleep(self._update_interval or SWEEP_INTERVAL)
        finally:
            await self.close()

    async def run_sync_cycle(self) -> None:
        """Start an update of each dataset and remove unused checkouts."""
        await self._ensure_recovered()
        there = await asyncio.to_thread(
            git_trees.list_checkout_names, self._root
        )  # before the rows: they are written first
        datasets = await self._store.read(dataset_rows.list_datasets)
        known = {dataset.name for dataset in datasets if dataset.kind == GIT}
        for name in set(there) - known:
            await self.retire_checkout(name)
        await self._remove_old_checkouts()
        for name in sorted(known) if self._update_interval else ():
            self.start_update(name)

    async def _ensure_recovered(self) -> None:
        """Clean up after a killed server, once, before the folders are used."""
        if self._recovery is None or (self._recovery.done() and self._recovery.exception()):
            work = asyncio.to_thread(git_trees.recover_folders, self._root, self._clock(), self._stop_event)
            self._recovery = asyncio.ensure_future(work)
        await asyncio.shield(self._recovery)

    async def close(self) -> None:
        self._stop_event.set()
        for name in list(self._tasks):
            await self._stop_update(name)

    async def _stop_update(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _remove_old_checkouts(self) -> None:
        olds = await asyncio.to_thread(git_trees.list_old_checkouts, self._root)
        if olds:
            now = self._clock()
            oldest = await self._store.read(dataset_rows.find_oldest_started_job_time)
            before = now if oldest is None else min(now, oldest)
            await asyncio.to_thread(git_trees.remove_old_checkouts, olds, before, self._stop_event)

    async def _run_update(self, name: str) -> None:
        async with self._update_slots:
            dataset = await self._store.read(dataset_rows.get_dataset, name)
            if dataset is None or dataset.kind != GIT:
                return
            self._states[name] = await self._try_update(dataset)
            await self._save_state(name)

    async def _try_update(self, dataset: Dataset) -> GitState:
        before = await self._load_state(dataset.name)
        try:
            async with asyncio.timeout(self._timeout):
                after = await self._fetch_update(dataset, before)
        except Exception as error:
            why = _describe_error(error, self._timeout)
            self._failed_at[dataset.name] = time.monotonic()
            log.warning("a git dataset is not up to date", extra={"event": "git", "dataset": dataset.name, "why": why})
            return replace(before, error=why, error_at=self._clock())
        self._failed_at.pop(dataset.name, None)
        return after

    async def _fetch_update(self, dataset: Dataset, before: GitState) -> GitState:
        require_git(shutil.which("git"))
        await self._ensure_recovered()
        source = await self._load_source(dataset)
        await asyncio.to_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)
        tip = await self._read_branch_tip(source)
        folder = self._root / dataset.name
        commit = tip.commit
        same = before.commit == commit and _has_same_source(before, dataset)
        if not same or not await asyncio.to_thread(git_trees.has_checkout, folder):
            commit = await self._replace_checkout(source, tip.ref, folder)
        return GitState(commit=commit, synced_at=self._clock(), url=source.url, branch=source.branch)

    async def _read_branch_tip(self, source: GitSource) -> BranchTip:
        """Read the branch tip with a timeout, so that an unresponsive server does not block other updates."""
        try:
            async with asyncio.timeout(LS_REMOTE_TIMEOUT):
                return await self._git.read_branch_tip(source)
        except TimeoutError:
            raise GitError(
                msg("The git server did not respond within {timeout} seconds", timeout=f"{LS_REMOTE_TIMEOUT:g}")
            ) from None

    async def _replace_checkout(self, source: GitSource, ref: str, folder: Path) -> str:
        olds = await asyncio.to_thread(git_trees.list_old_checkouts, folder)
        if len(olds) >= MAX_OLD_CHECKOUTS:
            raise GitError(
                msg(
                    "Running jobs use {count} earlier checkouts; updates resume when some of these jobs have ended",
                    count=len(olds),
                )
            )
        work = await asyncio.to_thread(git_trees.create_work_folder, folder)
        try:
            repo, tree = work / "repo", work / "tree"
            await self._require_disk_space(work, 0)
            commit = await self._git.fetch_commit(source, ref, repo)
            await self._require_disk_space(work, await self._git.check_commit_size(repo, commit))
            await self._git.check_out_commit(repo, commit, tree)
            await run_to_end(partial(git_trees.replace_checkout, tree, folder, self._clock()))
        finally:
            await run_to_end(partial(remove_folder, work, self._stop_event))
        return commit

    async def _require_disk_space(self, folder: Path, size: int) -> None:
        try:
            await asyncio.to_thread(require_space, folder, size, self._disk_thresholds)
        except OSError as error:
            if is_disk_full_error(error):
                raise GitError(msg("The disk of the shared files is full")) from error
            raise

    async def _load_source(self, dataset: Dataset) -> GitSource:
        name = dataset.data.get("secret")
        source = GitSource(url=dataset.data["url"], branch=dataset.data.get("branch", ""))
        if name is None:
            return source
        secret = await self._store.read(secret_rows.get_secret, name)
        value = await self._store.read(secret_rows.load_secret_value, name)
        if secret is None or value is None:
            raise GitError(msg("Secret {name} not found", name=name))
        return replace(source, username=secret.username, value=value)

    async def _save_state(self, name: str) -> None:
        """Save the state; on a full disk the only cost is another fetch after a restart."""
        folder = self._root / name
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(git_trees.write_sync_state, folder, _state_to_json(self._states[name]))
        except OSError as error:
            log.warning(
                "could not save the state of a git dataset", extra={"event": "git", "dataset": name, "why": str(error)}
            )


def _has_same_source(state: GitState, dataset: Dataset) -> bool:
    return (state.url, state.branch) == (dataset.data.get("url"), dataset.data.get("branch", ""))


def _describe_error(error: Exception, timeout: float) -> str:
    if isinstance(error, GitError):
        return str(error)
    if isinstance(error, UserError):
        return error.message
    if isinstance(error, TimeoutError):
        return msg("The update timed out after {timeout} seconds (mounts.git_timeout)", timeout=f"{timeout:g}")
    if isinstance(error, OSError):
        return msg("The server could not write the checkout to disk: {error}", error=error.strerror or error)
    log.error("an update of a git dataset failed", exc_info=error, extra={"event": "git"})
    return msg("The update failed with an internal error; see the server log")


def _state_to_json(state: GitState) -> dict[str, Any]:
    found = {key: value for key, value in asdict(state).items() if key != "busy"}
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in found.items()}


def _state_from_json(found: dict[str, Any]) -> GitState:
    """Parse a stored state; return an empty one if it is invalid."""
    try:
        return GitState(
            commit=str(found.get("commit", "")),
            synced_at=_parse_optional_datetime(found.get("synced_at")),
            error=str(found.get("error", "")),
            error_at=_parse_optional_datetime(found.get("error_at")),
            url=str(found.get("url", "")),
            branch=str(found.get("branch", "")),
        )
    except (ValueError, TypeError):
        return GitState()


def _parse_optional_datetime(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
