"""Observes tasks: by their files first, then by Slurm's queue.

A look that fails says nothing: a task is never taken for absent or lost because of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import Reading
from holdfast.engines.embedded.lifecycle import artifacts
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.task_folder import is_safe_id

from .commands import SlurmCommands, SlurmUnavailable
from .jobs import QueuedJob, choose_job
from .names import JobNames
from .options import SlurmOptions
from .queue_watch import JobsByName, QueueWatch
from .reasons import describe_reason
from .slurm_folder import SlurmFolder, TaskFacts, read_facts
from .task_end import EndEvidence, EndRecord, add_run, build_end_observation, decide_end
from .usage import parse_usage
from .users import TaskOwners, UnixUser
from .watched_tasks import WatchedTasks

_SILENT_INTERVALS = 3  # heartbeats that are missing before a task is taken for lost


class SlurmObserver:
    def __init__(
        self,
        options: SlurmOptions,
        names: JobNames,
        folders: TaskFolders,
        commands: SlurmCommands,
        queue: QueueWatch,
        tasks: WatchedTasks,
        run_in_thread: ThreadRunner,
        owners: TaskOwners,
    ) -> None:
        self._options = options
        self._names = names
        self._folders = folders
        self._commands = commands
        self._queue = queue
        self._tasks = tasks
        self._run_in_thread = run_in_thread
        self._owners = owners
        self._heartbeats: dict[str, tuple[bytes, float]] = {}  # the last one, and since when it has not changed
        self._expected_uids: dict[str, int] = {}  # of tasks that have no files yet
        self._ended_since: dict[str, float] = {}  # attempts that have ended, but not reported it

    def get_folder(self, attempt_id: str) -> SlurmFolder:
        folder = self._folders.get_folder(attempt_id)
        assert isinstance(folder, SlurmFolder)
        return folder

    async def read_facts(self, attempt_ids: Collection[str]) -> list[TaskFacts]:
        ids = [attempt_id for attempt_id in attempt_ids if is_safe_id(attempt_id)]
        found = await self._run_in_thread(lambda: self._read_facts(ids))
        now = asyncio.get_running_loop().time()
        for facts in found:
            if facts.owner is not None:
                self._owners.note_uid(facts.owner.uid)
            last = self._heartbeats.get(facts.attempt_id)
            if facts.allocation is not None and (last is None or last[0] != facts.heartbeat):
                self._heartbeats[facts.attempt_id] = (facts.heartbeat, now)
        return found

    def _read_facts(self, attempt_ids: Sequence[str]) -> list[TaskFacts]:
        """Blocking. EngineError while the folder is not there: then nothing is known, and no task is absent."""
        try:
            self._folders.list_attempt_ids()
        except OSError as error:
            why = error.strerror or str(error)
            raise EngineError(msg("The folder that all nodes share cannot be read: {why}", why=why)) from error
        return [read_facts(self.get_folder(attempt_id), attempt_id) for attempt_id in attempt_ids]

    async def observe(self, attempt_ids: Collection[str], *, look: bool = False) -> dict[str, Observation]:
        """`look`: look at Slurm's queue, although the files of the tasks are enough."""
        seen = {id: Observation(attempt_id=id, seen=ObservedState.ABSENT) for id in attempt_ids}
        facts = await self.read_facts(attempt_ids)
        unclear = [each.attempt_id for each in facts if look or self._needs_look(each)]
        return seen | await self._observe(facts, unclear)

    async def observe_changes(self, attempt_ids: Collection[str], *, look: bool) -> dict[str, Observation]:
        """Observe tasks by their files, and by Slurm's queue if `look`, or if one has ended and Slurm knows why. Those
        about which the files say nothing are left out."""
        facts = await self.read_facts(attempt_ids)
        unclear = [each for each in facts if look or self._needs_look(each)]
        if not look and not any(map(_has_ended, unclear)):
            clear = [each for each in facts if each not in unclear]
            return await self._observe(clear, [])
        return await self._observe(facts, [each.attempt_id for each in unclear])

    async def _observe(self, facts: Sequence[TaskFacts], unclear: Sequence[str]) -> dict[str, Observation]:
        known = set(unclear)
        clear = [each for each in facts if each.attempt_id not in known]
        seen = {each.attempt_id: await self._observe_by_files(each) for each in clear}
        return seen | await self._observe_by_queue(unclear) if unclear else seen

    def _needs_look(self, facts: TaskFacts) -> bool:
        if facts.end is not None or _is_clear_end(facts):
            return False
        return not facts.is_running or self._is_silent(facts.attempt_id)

    def _is_silent(self, attempt_id: str) -> bool:
        last = self._heartbeats.get(attempt_id)
        limit = _SILENT_INTERVALS * self._options.heartbeat_interval
        return last is not None and asyncio.get_running_loop().time() - last[1] > limit

    async def _observe_by_files(self, facts: TaskFacts) -> Observation:
        if facts.end is not None:
            return await self._build_end(facts, facts.end)
        if facts.is_running:
            return _build_running(facts)
        record = decide_end(EndEvidence(allocation=facts.allocation, code=facts.report.code, stop_code=facts.stop_code))
        assert record is not None
        return await self._record_end(facts, record)

    async def _observe_by_queue(self, attempt_ids: Sequence[str]) -> dict[str, Observation]:
        try:
            jobs = await self._queue.look()
        except SlurmUnavailable as error:
            found = await self.read_facts(attempt_ids)
            return {facts.attempt_id: await self._observe_without_queue(facts, str(error)) for facts in found}
        seen = {}
        for facts in await self.read_facts(attempt_ids):  # after the look: what a job wrote before its end is there
            try:
                seen[facts.attempt_id] = await self._combine(facts, jobs)
            except SlurmUnavailable as error:
                seen[facts.attempt_id] = self._build_unreachable(facts.attempt_id, str(error))
        return seen

    async def _observe_without_queue(self, facts: TaskFacts, error: str) -> Observation:
        if not self._needs_look(facts):
            return await self._observe_by_files(facts)
        return self._build_unreachable(facts.attempt_id, error)

    def _build_unreachable(self, attempt_id: str, error: str) -> Observation:
        text = msg("Slurm does not respond: {error}", error=error)
        since = self._queue.failed_since
        return Observation(attempt_id=attempt_id, seen=ObservedState.UNREACHABLE, message=text, since=since)

    def expect_owner(self, attempt_id: str, owner: UnixUser | None) -> None:
        """Say whose job it is, before its files say so."""
        self._expected_uids[attempt_id] = owner.uid if owner else os.geteuid()

    def find_job(self, facts: TaskFacts, jobs: JobsByName) -> QueuedJob | None:
        uid = self._expected_uids.get(facts.attempt_id)
        if facts.exists:
            uid = facts.owner.uid if facts.owner else os.geteuid()
        # Other users can submit jobs with any name.
        named = [job for job in jobs.get(self._names.make_name(facts.leader), ()) if uid is None or job.uid == uid]
        return choose_job(named, facts.offset, facts.allocation.job if facts.allocation else None)

    async def _combine(self, facts: TaskFacts, jobs: JobsByName) -> Observation:
        """Return its state after a successful look."""
        if facts.end is not None:
            return await self._build_end(facts, facts.end)
        job = self.find_job(facts, jobs)
        if not facts.exists:
            return _observe_without_files(facts.attempt_id, job)
        record = await self._decide_end(facts, job)
        if record is not None:
            return await self._record_end(facts, record)
        if facts.allocation is not None:
            return _build_running(facts)
        if job is None:
            return Observation(attempt_id=facts.attempt_id, seen=ObservedState.ABSENT)
        return _build_waiting(facts.attempt_id, self._find_first_component(job, jobs))

    def _find_first_component(self, job: QueuedJob, jobs: JobsByName) -> QueuedJob:
        """Return the component whose reason is shown: the same for all tasks of a gang."""
        named = (each for each in jobs.get(job.name, ()) if each.leader == job.leader and each.offset == 0)
        return next(named, job)

    async def _decide_end(self, facts: TaskFacts, job: QueuedJob | None) -> EndRecord | None:
        is_final = job is not None and job.is_final
        unreported = facts.report.code is None and (is_final or facts.step_code is not None)
        evidence = EndEvidence(
            allocation=facts.allocation,
            code=facts.report.code,
            step_code=facts.step_code,
            state=job.state if job else "",
            reason=job.reason if job else "",
            is_final=is_final,
            stop_code=facts.stop_code,
            gang_incomplete=facts.gang_incomplete,
            oom=facts.oom or (job is not None and job.state == "OUT_OF_MEMORY"),
            silent=self._is_silent(facts.attempt_id),
            overdue=unreported and self._is_report_overdue(facts.attempt_id),
        )
        if unreported and job is not None and is_final:
            evidence = replace(evidence, exit=await self._commands.read_exit(job))
        return decide_end(evidence)

    def _is_report_overdue(self, attempt_id: str) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._ended_since.setdefault(attempt_id, now) >= self._options.report_timeout

    async def _record_end(self, facts: TaskFacts, record: EndRecord) -> Observation:
        ended = facts.report.ended
        if ended is None:
            with suppress(ValueError):
                ended = float(facts.heartbeat)
        full = add_run(record, facts.allocation, ended)
        recorded = await self._run_in_thread(lambda: self._write_end(facts, full))
        self.forget(facts.attempt_id)
        return await self._build_end(facts, recorded)

    def _write_end(self, facts: TaskFacts, record: EndRecord) -> EndRecord:
        folder = self.get_folder(facts.attempt_id)
        self._tasks.record_final_sizes(facts.attempt_id, folder)
        folder.delete_commands()
        for port in (port for ports in record.ports.values() for port in ports):
            with suppress(OSError):
                (self._folders.home / "ports" / f"{record.node}.{port}").unlink()
        return folder.record_end(replace(record, usage=folder.read_usage()))

    def read_usages(self, attempt_ids: Collection[str]) -> dict[str, Reading]:
        """Return the usage of those that run or are held, as of their last heartbeats. Blocking."""
        found: dict[str, Reading] = {}
        for attempt_id in filter(is_safe_id, attempt_ids):
            folder = self.get_folder(attempt_id)
            reading = parse_usage(folder.read_usage()) if folder.is_alive() else None
            if reading is not None:
                found[attempt_id] = reading
        return found

    def forget(self, attempt_id: str) -> None:
        self._heartbeats.pop(attempt_id, None)
        self._expected_uids.pop(attempt_id, None)
        self._ended_since.pop(attempt_id, None)

    async def _build_end(self, facts: TaskFacts, record: EndRecord) -> Observation:
        seen = build_end_observation(facts.attempt_id, record)
        return await self._run_in_thread(lambda: self._add_artifacts(facts, seen))

    def _add_artifacts(self, facts: TaskFacts, seen: Observation) -> Observation:
        if seen.seen is not ObservedState.EXITED:
            return seen
        return replace(seen, artifacts=artifacts.may_have_artifacts(self.get_folder(facts.attempt_id), facts.note))


def _has_ended(facts: TaskFacts) -> bool:
    return facts.report.code is not None or facts.step_code is not None


def _is_clear_end(facts: TaskFacts) -> bool:
    """Return whether its report is enough: Slurm's state would add nothing."""
    return facts.report.code is not None and (facts.report.code == 0 or facts.stop_code is not None)


def _build_running(facts: TaskFacts) -> Observation:
    allocation, note = facts.allocation, facts.note
    assert allocation is not None
    elapsed = 0.0
    with suppress(ValueError):
        elapsed = max(0.0, float(facts.heartbeat) - allocation.uptime)
    held = facts.notes.code
    return Observation(
        attempt_id=facts.attempt_id,
        seen=ObservedState.RUNNING if held is None else ObservedState.HELD,
        started_at=allocation.at,
        elapsed=elapsed,
        code=held,
        node=allocation.node,
        gpus=allocation.gpus,
        ports=allocation.ports,
        warning=note.warning if note else "",
        debuggers=facts.notes.debuggers,
    )


def _build_waiting(attempt_id: str, job: QueuedJob) -> Observation:
    if job.is_pending:
        text = describe_reason(job.reason, job.start_at, datetime.now(UTC))
        return Observation(attempt_id=attempt_id, seen=ObservedState.QUEUED, message=text, since=job.submitted_at)
    text = msg("Slurm starts it on {node}", node=job.nodes) if job.nodes else msg("Slurm prepares its node")
    since = job.start_at or job.submitted_at
    return Observation(attempt_id=attempt_id, seen=ObservedState.STARTING, message=text, since=since)


def _observe_without_files(attempt_id: str, job: QueuedJob | None) -> Observation:
    """Return the state of a task whose folder does not exist."""
    if job is None:
        return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
    if job.is_final:
        text = msg("The files of the task were deleted")
        return Observation(attempt_id=attempt_id, seen=ObservedState.LOST, message=text, cause=Cause.FILES_GONE)
    if job.is_pending:
        return _build_waiting(attempt_id, job)
    return Observation(attempt_id=attempt_id, seen=ObservedState.RUNNING, node=job.nodes)
