"""Sessions in ended tasks whose files still exist: in a new job with few resources, which only waits.

It runs on a node, and never on the server's machine: there it could read the state folder. Its files are in the folder
`revived` within the task's, so the task's record stays unchanged.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import ExecRefused, LaunchSpec
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.revived_tasks import RevivedTasks
from holdfast.engines.embedded.lifecycle.task_folders import REVIVED_FOLDER, TaskFolders
from holdfast.engines.embedded.lifecycle.task_reviver import IDLE_SCRIPT, limit_resources
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_program import REPORT_FOLDER

from .commands import SlurmCommands
from .isolation.task_setup import TaskSetups
from .jobs import QueuedJob
from .names import JobNames
from .queue_watch import QueueWatch
from .reasons import describe_reason
from .render import TaskLocation
from .slurm_folder import HOME_FOLDER, SlurmFolder, read_facts
from .starter import SlurmStarter
from .task_files import create_task_files
from .users import TaskOwners, UnixUser

_START_TIMEOUT = 30.0  # seconds to wait for Slurm; the job stays in the queue after that
_POLL_INTERVAL = 0.1  # seconds between two looks at its files
_REPLACEMENT_PATTERN = re.compile(
    r"s\|(@holdfast:[0-9]{1,5}:(?:address|ports?:[0-9]{1,5})@)\|([A-Za-z0-9.,:_-]{0,10000})\|g"
)


class RevivedJobs(RevivedTasks):
    def __init__(
        self,
        names: JobNames,
        commands: SlurmCommands,
        queue: QueueWatch,
        folders: TaskFolders,
        starter: SlurmStarter,
        has_session: Callable[[str], bool],
        owners: TaskOwners,
        in_thread: ThreadRunner,
        run_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        super().__init__(has_session, in_thread, run_background)
        self._names = names
        self._commands = commands
        self._queue = queue
        self._folders = folders
        self._starter = starter
        self._owners = owners
        self._locks: dict[str, asyncio.Lock] = {}

    async def revive(self, launch: LaunchSpec) -> None:
        """Revive it. ExecRefused if that fails, or the task still runs. Idempotent."""
        folder = await self._run_in_thread(lambda: self._find_folder(launch.attempt_id))
        self.schedule_session_check(launch.attempt_id)
        try:
            async with self._locks.setdefault(launch.attempt_id, asyncio.Lock()):
                await self._submit_once(launch, folder)
            await self._wait_until_started(launch.attempt_id, SlurmFolder(folder[REVIVED_FOLDER]))
        except StartRefused as refusal:
            raise ExecRefused(refusal.message) from refusal
        except (OSError, EngineError) as error:
            text = msg("Cannot open a shell to access the task's files: {error}.", error=error)
            raise ExecRefused(text) from error

    def _find_folder(self, attempt_id: str) -> SlurmFolder:
        known = is_safe_id(attempt_id) and attempt_id in self._folders.list_attempt_ids()
        folder = SlurmFolder(self._folders.get_folder(attempt_id).path)
        if not known or folder.read_start_note() is None:
            raise ExecRefused(msg("The task's files were deleted."))
        if folder.is_alive():
            raise ExecRefused(msg("The task is still stopping. Try again in a few seconds."))
        return folder

    async def _submit_once(self, launch: LaunchSpec, folder: SlurmFolder) -> None:
        owner = await self._run_in_thread(folder.read_owner)
        await self._run_in_thread(lambda: self._owners.check_owner(owner))
        exists = await self._run_in_thread(lambda: folder.has_file(REVIVED_FOLDER))
        if exists and await self._find_job(launch.attempt_id, owner) is not None:
            return
        revived = SlurmFolder(folder[REVIVED_FOLDER])
        await self._starter.empty_user_folders(revived, owner)
        idle = await self._run_in_thread(lambda: _make_idle_launch(launch, folder))
        await self._starter.check_launch(idle)
        await self._run_in_thread(lambda: _create_files(revived, idle, folder, self._starter.setups))
        await self._starter.submit_job(self._make_name(launch.attempt_id), [TaskLocation(idle, revived.path)])

    async def _wait_until_started(self, attempt_id: str, revived: SlurmFolder) -> None:
        until = asyncio.get_running_loop().time() + _START_TIMEOUT
        while not (facts := await self._run_in_thread(lambda: read_facts(revived, attempt_id))).report.claimed:
            if not facts.exists:
                raise ExecRefused(msg("The job for the task's files has ended."))
            if asyncio.get_running_loop().time() > until:
                raise ExecRefused(await self._describe_wait(attempt_id, facts.owner))
            await asyncio.sleep(_POLL_INTERVAL)

    async def _find_job(self, attempt_id: str, owner: UnixUser | None) -> QueuedJob | None:
        jobs = (await self._queue.look()).get(self._make_name(attempt_id), ())
        uid = owner.uid if owner else os.geteuid()  # other users can submit jobs with any name
        return next((job for job in jobs if not job.is_final and job.uid == uid), None)

    async def _describe_wait(self, attempt_id: str, owner: UnixUser | None) -> str:
        job = await self._find_job(attempt_id, owner)
        if job is None:
            return msg("The job for the task's files has ended.")
        why = describe_reason(job.reason, job.start_at, datetime.now(UTC))
        return msg("Slurm has not started the job for the task's files. {why}. Try again later.", why=why)

    async def end(self, attempt_id: str) -> None:
        """End it, whichever server started it. Idempotent."""
        folder = self._folders.get_active_folder(attempt_id)
        if not await self._run_in_thread(lambda: folder.has_file(REVIVED_FOLDER)):
            return
        async with self._locks.setdefault(attempt_id, asyncio.Lock()):
            owner = await self._run_in_thread(SlurmFolder(folder.path).read_owner)
            await self._commands.cancel(self._make_name(attempt_id), user=owner)
            await self._starter.empty_user_folders(SlurmFolder(folder[REVIVED_FOLDER]), owner)
            await self._run_in_thread(lambda: remove_tree(folder[REVIVED_FOLDER]))

    async def _end_task_in_thread(self, attempt_id: str) -> None:
        await self.end(attempt_id)

    def _make_name(self, attempt_id: str) -> str:
        return f"{self._names.make_name(attempt_id)}-{REVIVED_FOLDER}"

    def find_revived_attempts(self) -> list[str]:
        """Return the revived attempts, by us or by an earlier server. Blocking."""
        folders = self._folders
        return [name for name in folders.list_attempt_ids() if folders.get_folder(name).has_file(REVIVED_FOLDER)]


def _make_idle_launch(launch: LaunchSpec, folder: SlurmFolder) -> LaunchSpec:
    """Return the same task with a command that only waits. Blocking: it reads the addresses that the task had."""
    replacements = parse_replacements(folder.read_head(f"{REPORT_FOLDER}/replacements", 1 << 20))
    return replace(
        launch,
        script="",
        entry=IDLE_SCRIPT,
        hold=False,
        gpus=(),
        ports={},
        port_counts={},
        gang=(),
        time_limit=None,
        env={name: _replace_words(value, replacements) for name, value in launch.env.items()},
        resources=limit_resources(launch),
        engine_options={name: value for name, value in launch.engine_options.items() if name != "gres"},
    )


def parse_replacements(data: bytes) -> dict[str, str]:
    """Parse the sed commands with which a node has filled in addresses. The task may have written others: a value must
    not contain what is replaced next."""
    lines = (_REPLACEMENT_PATTERN.fullmatch(line) for line in data.decode("ascii", "replace").splitlines())
    return {found[1]: found[2] for found in lines if found}


def _replace_words(text: str, replacements: Mapping[str, str]) -> str:
    for word, value in replacements.items():
        text = text.replace(word, value)
    return text


def _create_files(revived: SlurmFolder, idle: LaunchSpec, folder: SlurmFolder, setups: TaskSetups) -> None:
    remove_tree(revived.path)
    os.mkdir(revived.path, 0o700)
    os.symlink(folder[HOME_FOLDER], revived[HOME_FOLDER])
    create_task_files(revived, idle, setups, home=folder[HOME_FOLDER], owner=folder.read_owner())
