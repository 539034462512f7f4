"""Prepares and submits tasks, each once: it looks for the job before it submits, and after every error.

A task whose folder this call has created was never submitted, so no look is needed for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.task_folder import is_safe_id
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.engines.start_refusal import StartRefused

from .commands import SlurmCommands, SlurmUnavailable, SubmissionRefused, UserDenied
from .isolation.task_setup import TaskSetups
from .names import JobNames
from .observer import SlurmObserver
from .options import SlurmOptions
from .queue_watch import QueueWatch
from .reasons import describe_refusal, is_too_large
from .render import TaskLocation, render_submission
from .slurm_folder import USER_FOLDERS, SlurmFolder
from .task_end import EndKind, EndRecord
from .task_files import create_task_files
from .time_limits import PartitionLimits
from .users import TaskOwners, UnixUser


class SlurmStarter:
    def __init__(
        self,
        options: SlurmOptions,
        names: JobNames,
        commands: SlurmCommands,
        queue: QueueWatch,
        observer: SlurmObserver,
        setups: TaskSetups,
        run_in_thread: ThreadRunner,
        owners: TaskOwners,
    ) -> None:
        self._options = options
        self.setups = setups
        self._names = names
        self._commands = commands
        self._limits = PartitionLimits(commands, options)
        self._queue = queue
        self._observer = observer
        self._run_in_thread = run_in_thread
        self._owners = owners
        self._locks: dict[str, asyncio.Lock] = {}
        self._gangs: dict[tuple[str, ...], dict[str, LaunchSpec]] = {}  # members that were passed, until all were
        self._forming: dict[str, datetime] = {}  # attempts that wait for the other members of their gang
        self.starting: set[str] = set()  # attempts in `start_task`

    def find_forming(self, attempt_id: str) -> Observation | None:
        """Return the state of a task that waits for the other members of its gang; None if it does not."""
        since = self._forming.get(attempt_id)
        if since is None:
            return None
        text = msg("Waits until all tasks of its gang are prepared")
        return Observation(attempt_id=attempt_id, seen=ObservedState.STARTING, message=text, since=since)

    async def start_task(self, launch: LaunchSpec) -> bool:
        """Submit it unless it was submitted before. StartRefused if it cannot run. A member of a gang is submitted with
        the last member that is passed. Return whether Slurm has accepted its job by this call."""
        if not is_safe_id(launch.attempt_id):
            raise StartRefused(msg("The attempt id {id} is not valid.", id=repr(launch.attempt_id)))
        gang = launch.gang if len(launch.gang) > 1 else (launch.attempt_id,)
        lock = self._locks.setdefault(gang[0], asyncio.Lock())
        self.starting.add(launch.attempt_id)
        try:
            async with lock:
                return await self._start_locked(launch, gang)
        finally:
            self.starting.discard(launch.attempt_id)
            if not lock.locked():
                self._locks.pop(gang[0], None)

    async def _start_locked(self, launch: LaunchSpec, gang: tuple[str, ...]) -> bool:
        is_new = self._queue.is_unknown(self._names.make_name(gang[0]))
        is_ready = is_new and await self._run_in_thread(lambda: self._prepare_new_task(launch))
        if not is_ready and not await self._prepare_known_task(launch):
            self._forget_gang(gang)  # another server may have submitted the whole gang
            return False
        members = self._gangs.setdefault(gang, {})
        members[launch.attempt_id] = launch
        if len(members) < len(gang):
            self._forming[launch.attempt_id] = datetime.now(UTC)
            return False
        try:
            await self._submit([members[attempt_id] for attempt_id in gang])
        finally:
            self._forget_gang(gang)
        return True

    def _prepare_new_task(self, launch: LaunchSpec) -> bool:
        """Create the files of a task that no server has prepared before; False if one may have, and may have submitted
        it. Blocking."""
        self.setups.check_launch(launch)
        folder = self._observer.get_folder(launch.attempt_id)
        try:
            if not folder.exists():  # it may be archived
                owner = self._owners.find_user(launch.user)
                os.mkdir(folder.path, 0o700)
                self._record_owner(launch.attempt_id, owner)
                create_task_files(folder, launch, self.setups, owner=owner, is_new=True)
                return True
        except (FileExistsError, FileNotFoundError):  # another server was first, or the shared folder is not there
            pass
        return False

    async def _prepare_known_task(self, launch: LaunchSpec) -> bool:
        """Create the files of a task that may have been submitted; False if it was."""
        seen = (await self._observer.observe([launch.attempt_id]))[launch.attempt_id]
        if seen.seen is ObservedState.UNREACHABLE:
            raise SlurmUnavailable(seen.message)
        if seen.seen is not ObservedState.ABSENT:
            return False
        await self.check_launch(launch)
        await self._run_in_thread(lambda: self._prepare_absent_task(launch))
        return True

    def _prepare_absent_task(self, launch: LaunchSpec) -> None:
        """Create the files of a task that no job runs. Blocking."""
        folder = self._observer.get_active_folder(launch.attempt_id)
        owner = self._owners.find_user(launch.user)
        self._record_owner(launch.attempt_id, owner)
        create_task_files(folder, launch, self.setups, owner=owner)

    def _record_owner(self, attempt_id: str, owner: UnixUser | None) -> None:
        if owner is not None:
            self._owners.record_task(attempt_id, owner)
        else:
            self._owners.forget_task(attempt_id)

    def _forget_gang(self, gang: tuple[str, ...]) -> None:
        self._gangs.pop(gang, None)
        for attempt_id in gang:
            self._forming.pop(attempt_id, None)

    async def _submit(self, launches: Sequence[LaunchSpec]) -> None:
        name = self._names.make_name(launches[0].attempt_id)
        get_folder = self._observer.get_active_folder
        tasks = [TaskLocation(launch, get_folder(launch.attempt_id).path) for launch in launches]
        try:
            await self.submit_job(name, tasks)
            for launch in launches:
                self._observer.forget(launch.attempt_id)  # what is known about an earlier submission
        except StartRefused:
            for launch in launches:
                await self.delete_files(launch.attempt_id)
            raise

    async def submit_job(self, name: str, tasks: Sequence[TaskLocation]) -> None:
        """Submit a job whose files exist. StartRefused if Slurm does not accept it."""
        fitted = await self._limits.fit_all([task.launch for task in tasks])
        tasks = [replace(task, launch=launch) for task, launch in zip(tasks, fitted, strict=True)]
        submission = render_submission(name, tasks, self._options)
        owner = await self._run_in_thread(SlurmFolder(tasks[0].folder).read_owner)
        self._queue.record_submission(name)
        try:
            number = await self._commands.submit(submission.arguments, submission.script, owner)
            if number is not None:
                self._observer.numbers.record_submission(number, name, len(tasks))
        except SubmissionRefused as refusal:
            cause = Cause.TOO_LARGE if is_too_large(str(refusal)) else Cause.NOT_ALLOWED
            raise StartRefused(describe_refusal(str(refusal)), cause=cause) from refusal
        except UserDenied as denial:
            raise StartRefused(str(denial), cause=Cause.NOT_ALLOWED) from denial
        except SlurmUnavailable:  # it may have been accepted all the same
            with suppress(SlurmUnavailable):
                uid = owner.uid if owner else os.geteuid()
                if any(job.uid == uid for job in (await self._queue.look()).get(name, ())):
                    return
            raise

    async def check_launch(self, launch: LaunchSpec) -> None:
        """Raise StartRefused if this engine cannot run it."""
        await self._run_in_thread(lambda: self.setups.check_launch(launch))

    async def expire_gangs(self, timeout: float) -> list[str]:
        """Give up the members that waited too long for the others; return their ids."""
        limit = datetime.now(UTC) - timedelta(seconds=timeout)
        expired = [attempt_id for attempt_id, since in self._forming.items() if since < limit]
        record = EndRecord(kind=EndKind.GANG_INCOMPLETE)
        for attempt_id in expired:
            self.discard_gang(attempt_id)
            if (await self._observer.observe([attempt_id]))[attempt_id].seen is not ObservedState.ABSENT:
                continue  # another server has submitted it
            await self._run_in_thread(partial(self._observer.get_active_folder(attempt_id).record_end, record))
        return expired

    def discard_gang(self, attempt_id: str) -> None:
        """Forget a member that is stopped before its gang was submitted."""
        self._forming.pop(attempt_id, None)
        for members in self._gangs.values():
            members.pop(attempt_id, None)

    async def delete_files(self, attempt_id: str) -> None:
        """Delete the files of a task that was never submitted."""
        path = self._observer.get_active_folder(attempt_id).path
        await self.empty_folders(attempt_id)
        await self._run_in_thread(lambda: remove_tree(path))
        await self._run_in_thread(lambda: self._owners.forget_task(attempt_id))

    async def empty_folders(self, attempt_id: str) -> None:
        """Delete what the user of an ended task has created, as that user: the server may not be allowed to."""
        folder = self._observer.get_folder(attempt_id)
        await self.empty_user_folders(folder, await self._run_in_thread(folder.read_owner))

    async def empty_user_folders(self, folder: SlurmFolder, owner: UnixUser | None) -> None:
        if owner is not None and os.geteuid() != 0:
            found = await self._run_in_thread(
                lambda: [folder[name] for name in USER_FOLDERS if os.path.isdir(folder[name])]
            )
            with suppress(UserDenied):  # the user was deleted: what remains is not in the way
                await self._commands.delete_files(found, owner)
