"""Observes tasks: by their files first, then by Slurm's queue.

A look that fails says nothing: a task is never taken for absent or lost because of it.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import stat
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.exits.exit import Cause
from holdfast.core.messages import join_messages, msg
from holdfast.core.metrics.samples import Reading
from holdfast.engines.embedded.lifecycle import artifacts
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.task_folder import is_safe_id

from .accounting import AccountedJob, Accounting
from .commands import SlurmCommands, SlurmUnavailable
from .isolation.node_isolation import NodeIsolation, describe_missing_isolation, parse_isolation
from .job_numbers import JobNumbers
from .jobs import QueuedJob, choose_job
from .names import JobNames
from .never_starts import NeverStarts
from .options import SlurmOptions
from .queue_watch import JobsByName, QueueWatch
from .reasons import describe_reason
from .slurm_folder import SlurmFolder, TaskFacts, parse_uptime, read_facts
from .task_end import EndEvidence, EndKind, EndRecord, add_run, build_end_observation, decide_end
from .usage import parse_usage
from .users import TaskOwners, UnixUser
from .watched_tasks import WatchedTasks

_MIN_KNOWN_TIME = 60.0  # seconds for which Slurm remembers ended jobs at least; its default is five minutes
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
        self._accounting = Accounting(commands)
        self._queue = queue
        self._tasks = tasks
        self._run_in_thread = run_in_thread
        self._owners = owners
        self._heartbeats: dict[str, tuple[bytes, float]] = {}  # the last one, and since when it has not changed
        self._isolations: dict[str, NodeIsolation] = {}  # of tasks that run
        self._ended_since: dict[str, float] = {}  # attempts that have ended, but not reported it
        self._never = NeverStarts(options.never_timeout)
        self.numbers = JobNumbers()

    def get_active_folder(self, attempt_id: str) -> SlurmFolder:
        """Return the folder of a task that is not archived. Does not block."""
        folder = self._folders.get_active_folder(attempt_id)
        assert isinstance(folder, SlurmFolder)
        return folder

    def get_folder(self, attempt_id: str) -> SlurmFolder:
        """Return the folder of a task, archived or not. Blocking."""
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
                if facts.owner is None:  # another user may write any number
                    self.numbers.record_claim(facts.allocation.job, self._names.make_name(facts.leader))
        return found

    async def read_users(self, attempt_ids: Collection[str]) -> dict[str, str]:
        """Return the names of the users whose jobs they are."""
        ids = [attempt_id for attempt_id in attempt_ids if is_safe_id(attempt_id)]
        return await self._run_in_thread(lambda: {attempt_id: self._read_user(attempt_id) for attempt_id in ids})

    def _read_user(self, attempt_id: str) -> str:
        owner = self.get_folder(attempt_id).read_owner()
        return owner.name if owner else getpass.getuser()

    def _read_isolation(self, facts: TaskFacts) -> None:
        """Its node writes it once, before the task takes its claim. Blocking."""
        if facts.report.claimed and facts.end is None and facts.attempt_id not in self._isolations:
            found = parse_isolation(self.get_folder(facts.attempt_id).read_isolation())
            self._isolations[facts.attempt_id] = found

    def _read_facts(self, attempt_ids: Sequence[str]) -> list[TaskFacts]:
        """Blocking. EngineError while the folder is not there: then nothing is known, and no task is absent."""
        try:
            self._folders.list_attempt_ids()
        except OSError as error:
            why = error.strerror or str(error)
            raise EngineError(msg("The folder that all nodes share cannot be read: {why}", why=why)) from error
        found = [self._read_task_facts(attempt_id) for attempt_id in attempt_ids]
        for facts in found:
            self._read_isolation(facts)
        return found

    def _read_task_facts(self, attempt_id: str) -> TaskFacts:
        facts = read_facts(self.get_folder(attempt_id), attempt_id)
        return facts if facts.exists else replace(facts, recorded_uid=self._owners.find_task_uid(attempt_id))

    async def observe(self, attempt_ids: Collection[str], *, look: bool = False) -> dict[str, Observation]:
        """`look`: look at Slurm's queue, although the files of the tasks are enough."""
        seen = {id: Observation(attempt_id=id, seen=ObservedState.ABSENT) for id in attempt_ids}
        facts = await self.read_facts(attempt_ids)
        unclear = [each.attempt_id for each in facts if look or self._needs_look(each)]
        return seen | await self._observe(facts, unclear)

    async def observe_changes(self, attempt_ids: Collection[str], *, look: bool) -> dict[str, Observation]:
        """Observe tasks by their files, and by Slurm's queue if `look`, or if one has ended and Slurm knows why. Those
        about which the files say nothing are left out."""
        if look:  # the files are read after it
            return await self._observe_by_queue([id for id in attempt_ids if is_safe_id(id)])
        facts = await self.read_facts(attempt_ids)
        unclear = [each for each in facts if self._needs_look(each)]
        if not any(map(_has_ended, unclear)):
            clear = [each for each in facts if each not in unclear]
            return await self._observe(clear, [])
        return await self._observe(facts, [each.attempt_id for each in unclear])

    async def _observe(self, facts: Sequence[TaskFacts], unclear: Sequence[str]) -> dict[str, Observation]:
        known = set(unclear)
        seen = await self._observe_by_files([each for each in facts if each.attempt_id not in known])
        return seen | await self._observe_by_queue(unclear) if unclear else seen

    def _needs_look(self, facts: TaskFacts) -> bool:
        if facts.end is not None or _is_clear_end(facts):
            return False
        return not facts.is_running or self._is_silent(facts.attempt_id)

    def _is_silent(self, attempt_id: str) -> bool:
        last = self._heartbeats.get(attempt_id)
        limit = _SILENT_INTERVALS * self._options.heartbeat_interval
        return last is not None and asyncio.get_running_loop().time() - last[1] > limit

    async def _observe_by_files(self, found: Sequence[TaskFacts]) -> dict[str, Observation]:
        running = {facts.attempt_id: self._build_running(facts) for facts in found if facts.is_running}
        ended = [facts for facts in found if not facts.is_running]
        return running | await self._record_ends([(facts, _decide_clear_end(facts)) for facts in ended])

    async def _observe_by_queue(self, attempt_ids: Sequence[str]) -> dict[str, Observation]:
        try:
            jobs = await self._queue.look()
        except SlurmUnavailable as error:
            self._never.forget_all()
            found = await self.read_facts(attempt_ids)
            clear = [facts for facts in found if not self._needs_look(facts)]
            seen = {facts.attempt_id: self._build_unreachable(facts.attempt_id, str(error)) for facts in found}
            return seen | await self._observe_by_files(clear)
        seen, ended = {}, []
        found = await self.read_facts(attempt_ids)  # after the look: what a job wrote before its end is there
        await self._ask_accounting(found, jobs)
        for facts in found:
            try:
                state = await self._combine(facts, jobs)
            except SlurmUnavailable as error:
                state = self._build_unreachable(facts.attempt_id, str(error))
            if isinstance(state, Observation):
                seen[facts.attempt_id] = state
            else:
                ended.append((facts, state))
        return seen | await self._record_ends(ended)

    def _build_unreachable(self, attempt_id: str, error: str) -> Observation:
        text = msg("Slurm does not respond: {error}", error=error)
        since = self._queue.failed_since
        return Observation(attempt_id=attempt_id, seen=ObservedState.UNREACHABLE, message=text, since=since)

    def find_job(self, facts: TaskFacts, jobs: JobsByName) -> QueuedJob | None:
        # Other users can submit jobs with any name.
        named = [job for job in jobs.get(self._names.make_name(facts.leader), ()) if job.uid == facts.uid]
        return choose_job(named, facts.offset, facts.allocation.job if facts.allocation else None)

    async def _ask_accounting(self, found: Sequence[TaskFacts], jobs: JobsByName) -> None:
        """Ask about tasks that have ended, or were not started, and whose jobs the queue has forgotten."""
        self._accounting.forget(jobs.keys())
        forgotten = [each for each in found if self._may_be_forgotten(each) and self.find_job(each, jobs) is None]
        now = datetime.now(UTC)
        names = {self._names.make_name(each.leader): each.note.at if each.note else now for each in forgotten}
        await self._accounting.ask(names)

    def _may_be_forgotten(self, facts: TaskFacts) -> bool:
        if not facts.exists or facts.end is not None or _is_clear_end(facts) or facts.stop_code is not None:
            return False
        return facts.allocation is None or _has_ended(facts) or self._is_silent(facts.attempt_id)

    def _find_accounted(self, facts: TaskFacts) -> AccountedJob | None:
        if not self._may_be_forgotten(facts):
            return None
        claimed = facts.allocation.job if facts.allocation else None
        return self._accounting.find(self._names.make_name(facts.leader), facts.uid, facts.offset, claimed)

    async def _combine(self, facts: TaskFacts, jobs: JobsByName) -> Observation | EndRecord:
        """Return its state after a successful look, or how it ended."""
        if facts.end is not None:
            return facts.end
        job = self.find_job(facts, jobs)
        if not facts.exists:
            return _observe_without_files(facts.attempt_id, job)
        if job is not None and self._was_cancelled_for_its_number(facts, job):
            return Observation(attempt_id=facts.attempt_id, seen=ObservedState.ABSENT)
        accounted = self._find_accounted(facts) if job is None else None
        if accounted is not None:
            job = accounted.job
        record = await self._decide_end(facts, job, accounted)
        if record is not None:
            return record
        if facts.allocation is not None:
            return self._build_running(facts)
        if job is None:
            return Observation(attempt_id=facts.attempt_id, seen=ObservedState.ABSENT)
        shown = self._find_first_component(job, jobs)
        if shown.is_pending and facts.stop_code is None:
            now = asyncio.get_running_loop().time()
            if self._never.has_expired(facts.attempt_id, shown.reason, now) and await self._give_up(facts, shown):
                return (await self.observe([facts.attempt_id]))[facts.attempt_id]
        return _build_waiting(facts.attempt_id, shown)

    async def _give_up(self, facts: TaskFacts, job: QueuedJob) -> bool:
        """Cancel a job that Slurm can never start. False if it starts all the same."""
        await self._commands.cancel(job.name, pending=True, user=facts.owner)
        members = facts.gang or (facts.attempt_id,)
        record = EndRecord(kind=EndKind.NEVER_STARTS, reason=job.reason)
        return await self._run_in_thread(lambda: self._end_before_start(members, record))

    def _end_before_start(self, attempt_ids: Sequence[str], record: EndRecord) -> bool:
        """Take the claims of tasks before a node does. Blocking."""
        if not all(self.get_folder(attempt_id).take_claim() for attempt_id in attempt_ids):
            return False
        for attempt_id in attempt_ids:
            self._write_end(TaskFacts(attempt_id=attempt_id), record)
            self.forget(attempt_id)
        return True

    def find_waiting_job(self, facts: TaskFacts, jobs: JobsByName) -> QueuedJob | None:
        """Return the job whose reason is shown for a pending task; None if the task is not pending."""
        job = self.find_job(facts, jobs)
        return self._find_first_component(job, jobs) if job is not None and job.is_pending else None

    def _was_cancelled_for_its_number(self, facts: TaskFacts, job: QueuedJob) -> bool:
        """Return whether its job ended before it began because Slurm gave its number twice. Then it can be submitted
        again."""
        if not job.is_final or not self.numbers.is_reused(job.leader):
            return False
        has_begun = facts.allocation is not None or _has_ended(facts) or facts.gang_incomplete
        return not has_begun and facts.stop_code is None and self._is_report_overdue(facts.attempt_id)

    def _find_first_component(self, job: QueuedJob, jobs: JobsByName) -> QueuedJob:
        """Return the component whose reason is shown: the same for all tasks of a gang."""
        named = (each for each in jobs.get(job.name, ()) if each.leader == job.leader and each.offset == 0)
        return next(named, job)

    async def _decide_end(
        self, facts: TaskFacts, job: QueuedJob | None, accounted: AccountedJob | None
    ) -> EndRecord | None:
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
            refusal=facts.refusal,
            oom=facts.oom or (job is not None and job.state == "OUT_OF_MEMORY"),
            silent=self._is_silent(facts.attempt_id),
            overdue=unreported and self._is_report_overdue(facts.attempt_id),
            reused=job is not None and self.numbers.is_reused(job.leader),
            is_recent=facts.reported_at > time.time() - _MIN_KNOWN_TIME,
        )
        if accounted is not None:
            evidence = replace(evidence, exit=accounted.exit)
        elif job is not None and evidence.needs_exit:
            evidence = replace(evidence, exit=await self._commands.read_exit(job))
        return decide_end(evidence)

    def _is_report_overdue(self, attempt_id: str) -> bool:
        now = asyncio.get_running_loop().time()
        return now - self._ended_since.setdefault(attempt_id, now) >= self._options.report_timeout

    async def _record_ends(self, ended: Sequence[tuple[TaskFacts, EndRecord]]) -> dict[str, Observation]:
        """Record how they ended, unless that was done before. One call of a thread for all: many may end at once."""
        if not ended:
            return {}
        found = await self._run_in_thread(lambda: [self._record_end(facts, record) for facts, record in ended])
        for seen in found:
            self.forget(seen.attempt_id)
        return {seen.attempt_id: seen for seen in found}

    def _record_end(self, facts: TaskFacts, record: EndRecord) -> Observation:
        if facts.end is None:
            ended = facts.report.ended
            if ended is None:
                ended = parse_uptime(facts.heartbeat)
            record = self._write_end(facts, add_run(record, facts.allocation, ended))
        return self._add_artifacts(facts, build_end_observation(facts.attempt_id, record))

    def _write_end(self, facts: TaskFacts, record: EndRecord) -> EndRecord:
        folder = self.get_folder(facts.attempt_id)
        self._tasks.record_final_sizes(facts.attempt_id, folder)
        folder.delete_commands()
        for port in (port for ports in record.ports.values() for port in ports):
            self._release_port(f"{self._folders.home}/ports/{record.node}.{port}", facts.owner)
        return folder.record_end(replace(record, usage=folder.read_usage()))

    def _release_port(self, path: str, owner: UnixUser | None) -> None:
        """Delete the reservation of a port, unless another user has it."""
        with suppress(OSError):
            status = os.lstat(path)
            if owner is None or status.st_uid == owner.uid:
                # Nodes create a folder; earlier versions created a file.
                (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(path)

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
        self._ended_since.pop(attempt_id, None)
        self._never.forget(attempt_id)
        self._isolations.pop(attempt_id, None)

    def _build_running(self, facts: TaskFacts) -> Observation:
        seen = _build_running(facts)
        missing = describe_missing_isolation(self._isolations.get(facts.attempt_id, NodeIsolation()))
        warning = join_messages(" ", (seen.warning, missing)) if seen.warning and missing else seen.warning or missing
        return replace(seen, warning=warning)

    def _add_artifacts(self, facts: TaskFacts, seen: Observation) -> Observation:
        if seen.seen is not ObservedState.EXITED:
            return seen
        return replace(seen, artifacts=artifacts.may_have_artifacts(self.get_folder(facts.attempt_id), facts.note))


def _decide_clear_end(facts: TaskFacts) -> EndRecord:
    """Return how a task ended whose files are enough to know."""
    if facts.end is not None:
        return facts.end
    record = decide_end(
        EndEvidence(
            allocation=facts.allocation, code=facts.report.code, stop_code=facts.stop_code, refusal=facts.refusal
        )
    )
    assert record is not None
    return record


def _has_ended(facts: TaskFacts) -> bool:
    return facts.report.code is not None or facts.step_code is not None


def _is_clear_end(facts: TaskFacts) -> bool:
    """Return whether its report is enough: Slurm's state would add nothing."""
    if facts.refusal:
        return facts.stop_code is None
    return facts.report.code is not None and (facts.report.code == 0 or facts.stop_code is not None)


def _build_running(facts: TaskFacts) -> Observation:
    allocation, note = facts.allocation, facts.note
    assert allocation is not None
    elapsed = max(0.0, (parse_uptime(facts.heartbeat) or 0.0) - allocation.uptime)
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
    if job is None or (job.is_final and not job.nodes):  # Slurm also remembers a job that it refused
        return Observation(attempt_id=attempt_id, seen=ObservedState.ABSENT)
    if job.is_final:
        text = msg("The files of the task were deleted")
        return Observation(attempt_id=attempt_id, seen=ObservedState.LOST, message=text, cause=Cause.FILES_GONE)
    if job.is_pending:
        return _build_waiting(attempt_id, job)
    return Observation(attempt_id=attempt_id, seen=ObservedState.RUNNING, node=job.nodes)
