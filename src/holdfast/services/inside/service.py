"""Sessions and port connections into tasks that are running or on hold: permissions, task choice and limits."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast.core.access import Actor, build_exec_forbidden_error, can_exec
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.identity import build_unique_role_names
from holdfast.core.job import HoldScope
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary, NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import ExecCommand, ExecRefused, ExecSession
from holdfast.engines.engine_set import EngineSet
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..errors import Unavailable
from ..fair_limiter import FairLimiter
from ..job_lookup import MAX_REF_LENGTH, find_job, find_newest_live_job, list_readable_groups
from ..name_suggestions import suggest_name

log = logging.getLogger(__name__)

MAX_SESSIONS = 1000
MAX_INTRA_JOB_SESSIONS_PER_USER = 300  # sessions between tasks of all jobs of one user
MAX_PORT_CONNECTIONS = 10_000
PORT_CONNECTIONS_PER_SESSION = 10  # port connections of one user for each allowed session
EVENT_INTERVAL = 3600.0  # seconds between events of the same user, task and way
SESSION_EVENT_CACHE_SIZE = 10_000  # such events
MAX_LISTED_TASKS = 10  # tasks listed in a message


@dataclass(frozen=True, slots=True)
class ExecTarget:
    """A task that sessions can be opened in."""

    job: JobSummary
    task: str  # worker-0
    attempt_id: str
    attempt: int = 0  # of the job
    held: bool = False
    files_only: bool = False  # on hold, and its processes have ended or are being stopped
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by the names in the job file

    def describe_owner(self, actor: Actor) -> str:
        """Return a text that shows the owner of another user's job; empty for the actor's own."""
        job = self.job
        return (
            ""
            if job.user == actor.name
            else msg("{name} ({id}) of {user}, {task}", name=job.name, id=job.id, user=job.user, task=self.task)
        )


class TaskAccess:
    """Opens all sessions and connections into tasks, and checks permissions and limits."""

    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        *,
        sessions_per_user: int,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._clock = clock
        self._monotonic = monotonic
        self._session_limiter = build_connection_limiter(msg("sessions"), sessions_per_user, MAX_SESSIONS)
        self._intra_job_limiter = IntraJobLimiter(msg("sessions between tasks"), sessions_per_user, MAX_SESSIONS)
        self._port_limiter = build_connection_limiter(
            msg("port connections"), sessions_per_user * PORT_CONNECTIONS_PER_SESSION, MAX_PORT_CONNECTIONS
        )
        self._recorded_at: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._save_tasks: set[asyncio.Task[None]] = set()

    # -- which task

    async def list_targets(self, actor: Actor, ref: str) -> list[ExecTarget]:
        """List a job's tasks that the actor can open sessions in; empty without permission."""
        job = await self._resolve_job(actor, ref)
        return self.list_job_targets(actor, job)

    def list_job_targets(self, actor: Actor, job: JobSummary) -> list[ExecTarget]:
        """List the same for a loaded job, without reading the store."""
        snapshot = self._control.get_active_job(job.id)
        if snapshot is None or not can_exec(actor, job.group, job.user):
            return []
        targets = [_build_target(job, snapshot, task) for task in snapshot.tasks if _is_running_or_held(task)]
        return [target for target in targets if self._engine.supports_exec(target.attempt_id)]

    async def find_accessible_job(self, actor: Actor, ref: str) -> JobSummary:
        """Find a job, running or not. Forbidden if the actor cannot open sessions in its tasks."""
        job = await self._resolve_job(actor, ref)
        if not can_exec(actor, job.group, job.user):
            raise build_exec_forbidden_error(job.group, job.user)
        return job

    async def find_target(self, actor: Actor, ref: str, task: str | None = None) -> ExecTarget:
        """Find the task to open a session in. Default: a task on hold, else the first running one."""
        job = await self.find_accessible_job(actor, ref)
        snapshot = self._control.get_active_job(job.id)
        if snapshot is None:
            newest = await self._store.read(job_rows.find_job, job.id)  # it may have just ended
            raise _build_job_ended_error(newest if newest is not None else job)
        return _build_target(job, snapshot, _choose_task(snapshot, task, self._control.list_wait_reasons(job.id)))

    async def _resolve_job(self, actor: Actor, ref: str) -> JobSummary:
        """Find a job, also by OpenPAI's user~job. If several jobs have the name, prefer the actor's own, then one that
        they can open sessions in, so that no user can lure others into a job by its name."""
        user, tilde, name = ref.partition("~")
        groups = list_readable_groups(actor)
        if tilde and groups != () and len(ref) <= MAX_REF_LENGTH:
            found = await self._store.read(job_rows.find_newest_named_job, user, name, groups)
            if found is not None:
                return found
        newest = await find_job(self._store, actor, ref)
        if newest.id == ref:
            return newest
        own: JobSummary | None = newest
        if newest.user != actor.name:
            own = await self._store.read(job_rows.find_newest_named_job, actor.name, ref, groups)
        if own is not None:
            return await self._prefer_live_job(actor, own, ref)
        led = tuple(group for group, admin in actor.groups.items() if admin)
        if not led or can_exec(actor, newest.group, newest.user):
            return newest
        return await self._store.read(job_rows.find_job, ref, led) or newest

    async def _prefer_live_job(self, actor: Actor, own: JobSummary, name: str) -> JobSummary:
        """Return the newest active job of a name if the newest job has ended."""
        if own.name != name or self._control.get_active_job(own.id) is not None:
            return own
        found = (self._control.get_active_job(use.job) for use in self._control.list_usage_by_job())
        snapshots = [snapshot for snapshot in found if snapshot is not None]
        snapshots += [
            snapshot for snapshot, _ in self._control.list_held_tasks()
        ]  # jobs with only files on hold use no node
        return await find_newest_live_job(self._store, actor, name, snapshots) or own

    # -- sessions and connections

    async def open_session(
        self,
        actor: Actor,
        ref: str,
        task: str | None,
        command: ExecCommand,
        *,
        way: str = "ssh",
        from_within: bool = False,
    ) -> ExecSession:
        """Run a command in a task. The caller closes the session. `way` is recorded in the job's events. `from_within`:
        for another task of the same job; this is not recorded and does not count towards the user's limit."""
        entrance = await self.find_target(actor, ref, task)
        await self._prepare_task(entrance)
        release = self._acquire_slot(actor, entrance, from_within)
        try:
            session = await self._engine.open_session(entrance.attempt_id, command)
        except BaseException as error:
            release()
            raise _translate_error(error) from None
        if not from_within:
            self._record_session(actor, entrance, way)
        return _CountedSession(session, release)

    def _acquire_slot(self, actor: Actor, entrance: ExecTarget, from_within: bool) -> Callable[[], None]:
        if from_within:
            return self._intra_job_limiter.acquire_nowait(entrance.job.id, actor.name)
        return self._session_limiter.acquire_nowait(actor.name)

    async def connect_port(self, actor: Actor, ref: str, task: str | None, port: int, *, way: str = "") -> PortStream:
        """The caller closes the stream. If `way` is set, the connection is recorded in the job's events."""
        if not 0 < port < 65536:
            raise UserError(
                msg("{port} is not a valid port", port=port), field="port", hint=msg("Use a port from 1 to 65535.")
            )
        entrance = await self.find_target(actor, ref, task)
        await self._prepare_task(entrance)
        release = self._port_limiter.acquire_nowait(actor.name)
        try:
            reader, writer = await self._engine.connect_port(entrance.attempt_id, port)
        except BaseException as error:
            release()
            raise _translate_error(error) from None
        if way:
            self._record_session(actor, entrance, way)
        return PortStream(reader, writer, release)

    async def _prepare_task(self, entrance: ExecTarget) -> None:
        if not self._engine.supports_exec(entrance.attempt_id):
            raise UserError(
                msg("This engine does not support shell access"), hint=msg("Read the job's logs with `holdfast logs`.")
            )
        if entrance.files_only:
            try:
                await self._control.revive_task(entrance.job.id, entrance.task)
            except ExecRefused as error:
                raise _translate_error(error) from None

    # -- events

    def _record_session(self, actor: Actor, entrance: ExecTarget, way: str) -> None:
        """Record a session as an event of the job, at most once an hour, without delaying the session."""
        key, now = (actor.name, entrance.attempt_id, way), self._monotonic()
        recorded_at = self._recorded_at.get(key)
        if recorded_at is not None and now - recorded_at < EVENT_INTERVAL:
            return
        self._recorded_at[key] = now
        self._recorded_at.move_to_end(key)
        while len(self._recorded_at) > SESSION_EVENT_CACHE_SIZE:
            self._recorded_at.popitem(last=False)
        saving = asyncio.create_task(self._save_session_event(actor, entrance, way))
        self._save_tasks.add(saving)
        saving.add_done_callback(self._save_tasks.discard)

    async def _save_session_event(self, actor: Actor, entrance: ExecTarget, way: str) -> None:
        job = entrance.job
        message = msg("{name} opened a session in {task} ({channel})", name=actor.name, task=entrance.task, channel=way)
        event = NewEvent(
            kind="entered",
            message=message,
            at=self._clock(),
            actor=actor.name,
            task=entrance.task,
            attempt=entrance.attempt,
        )
        try:
            await self._store.write(event_rows.record_event, job.id, event)
        except StoreError as error:  # a full disk does not block sessions
            log.warning("could not record a session in a task", extra={"event": "entered", "error": str(error)})
            return
        self._control.changes.publish_job_change(job.id, job.group, job.user)


def build_connection_limiter(what: str, per_user: int, total: int) -> FairLimiter:
    """Return a limiter of open connections, per user and in total. It raises Conflict or Unavailable."""

    def build_limit_error(by_user: bool) -> UserError:
        if by_user:
            return Conflict(
                msg("You already have {per_user} {what} open", per_user=per_user, what=what),
                hint=msg("Close some first."),
            )
        return Unavailable(
            msg("Too many {what} are open on this server", what=what), hint=msg("Try again in a few minutes.")
        )

    return FairLimiter(total, per_key=per_user, refuse=build_limit_error)


class IntraJobLimiter:
    """Limits sessions between tasks: per job, per user, and in total."""

    def __init__(self, what: str, per_job: int, total: int) -> None:
        self._job_limiter = build_connection_limiter(what, per_job, total)
        self._user_limiter = build_connection_limiter(what, MAX_INTRA_JOB_SESSIONS_PER_USER, total)

    def acquire_nowait(self, job_id: str, user: str) -> Callable[[], None]:
        release_job = self._job_limiter.acquire_nowait(job_id)
        try:
            release_user = self._user_limiter.acquire_nowait(user)
        except UserError:
            release_job()
            raise

        def release_slot() -> None:
            release_job()
            release_user()

        return release_slot


class PortStream:
    """A connection to a port of a task."""

    __slots__ = ("_release", "reader", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: Callable[[], None]) -> None:
        self.reader = reader
        self.writer = writer
        self._release = release

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._release()
        self.writer.close()


class _CountedSession:
    """A session that counts towards the limit until it is closed."""

    __slots__ = ("_release", "_session")

    def __init__(self, session: ExecSession, release: Callable[[], None]) -> None:
        self._session = session
        self._release = release

    async def read(self) -> bytes:
        return await self._session.read()

    async def read_stderr(self) -> bytes:
        return await self._session.read_stderr()

    async def write(self, data: bytes) -> None:
        await self._session.write(data)

    def close_stdin(self) -> None:
        self._session.close_stdin()

    def resize(self, columns: int, rows: int) -> None:
        self._session.resize(columns, rows)

    def send_signal(self, number: int) -> None:
        self._session.send_signal(number)

    async def wait(self) -> int:
        return await self._session.wait()

    def close(self) -> None:
        self._release()
        self._session.close()


def _translate_error(error: BaseException) -> BaseException:
    return Conflict(str(error).rstrip(".")) if isinstance(error, ExecRefused) else error


def _build_target(job: JobSummary, snapshot: JobSnapshot, task: TaskAttempt) -> ExecTarget:
    return ExecTarget(
        job=job,
        task=task.task,
        attempt_id=snapshot.build_attempt_id(task),
        attempt=snapshot.attempt,
        held=task.state is TaskState.HELD,
        files_only=task.held is not None and (task.held.ended or task.held.keep is HoldScope.FILES),
        ports=task.ports,
    )


def _is_running_or_held(task: TaskAttempt) -> bool:
    return task.state in (TaskState.RUNNING, TaskState.HELD)


# -- task choice


def _choose_task(snapshot: JobSnapshot, wanted: str | None, waiting: tuple[str, ...]) -> TaskAttempt:
    if wanted is not None and snapshot.tasks:
        return _require_running_or_held(snapshot, _find_task(snapshot, wanted))
    open_ones = [task for task in snapshot.tasks if _is_running_or_held(task)]
    if not open_ones:
        raise _build_not_running_error(snapshot, waiting)
    return next((task for task in open_ones if task.state is TaskState.HELD), open_ones[0])


def _find_task(snapshot: JobSnapshot, wanted: str) -> TaskAttempt:
    """Find a task by name, also in the spelling of OpenPAI's variables."""
    plain = build_unique_role_names(role.name for role in snapshot.job.roles)
    for spelled in ({}, plain):
        for task in snapshot.tasks:
            if f"{spelled.get(task.role, task.role)}-{task.index}" == wanted:
                return task
    names = [task.task for task in snapshot.tasks]
    known = ", ".join(names[:MAX_LISTED_TASKS]) + (", …" if len(names) > MAX_LISTED_TASKS else "")
    hint = suggest_name(wanted[:100], names) or msg("Choose one of its tasks: {known}.", known=known)
    raise NotFound(msg("{id} has no task {wanted}", id=snapshot.id, wanted=wanted[:100]), field="task", hint=hint)


def _require_running_or_held(snapshot: JobSnapshot, task: TaskAttempt) -> TaskAttempt:
    if _is_running_or_held(task):
        return task
    others = [other.task for other in snapshot.tasks if _is_running_or_held(other)]
    hint = (
        msg("Choose a task that is running or on hold: {others}.", others=", ".join(others[:MAX_LISTED_TASKS]))
        if others
        else None
    )
    if task.state.ended:
        when = msg(" at {finished_at}", finished_at=_format_time(task.finished_at)) if task.finished_at else ""
        raise Conflict(
            msg(
                "{task} of {id} ended{when}; its container no longer exists", task=task.task, id=snapshot.id, when=when
            ),
            hint=hint,
        )
    raise Conflict(
        msg("{task} of {id} has not started yet", task=task.task, id=snapshot.id),
        hint=hint or msg("Try again when it is running."),
    )


def _build_not_running_error(snapshot: JobSnapshot, waiting: tuple[str, ...]) -> Conflict:
    if snapshot.tasks and all(task.state.ended for task in snapshot.tasks):
        return Conflict(
            msg("No task of {id} is running", id=snapshot.id),
            hint=msg("Check its state with `holdfast show`: it is ending or about to be retried."),
        )
    hint = msg("The job is pending: {reason}", reason=waiting[0]) if waiting else msg("Try again when it is running.")
    return Conflict(msg("{id} has not started yet", id=snapshot.id), hint=hint)


def _build_job_ended_error(job: JobSummary) -> Conflict:
    when = msg(" at {finished_at}", finished_at=_format_time(job.finished_at)) if job.finished_at else ""
    hint = msg("Rerun the job: `holdfast rerun {id}`.", id=job.id)
    if job.state is JobState.FAILED:
        hint = msg("Rerun the job with a hold on failure: `holdfast rerun {id} --hold`.", id=job.id)
    return Conflict(msg("{id} ended{when}; its containers no longer exist", id=job.id, when=when), hint=hint)


def _format_time(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
