"""Getting inside tasks that run or are held: who may, which one is meant, and what is open."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast.core.access import Actor, may_enter, refuse_entry
from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.identity import plain_roles
from holdfast.core.job import Keep
from holdfast.core.messages import msg
from holdfast.core.records import JobSummary, NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Command, Engine, ExecRefused, Session, SupportsExec
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import events as event_rows
from holdfast.store.jobs import records as job_rows

from ..control import Control
from ..fair_limiter import FairLimiter
from ..job_lookup import MAX_REF_LENGTH, find_job, newest_live, readable_groups
from ..name_suggestions import nearest
from ..refusals import Unavailable

log = logging.getLogger(__name__)

MAX_SESSIONS = 1000
MAX_BETWEEN_PER_USER = 300  # sessions, and connections, between tasks of all jobs of one user
MAX_PORTS = 10_000
PORTS_PER_SESSION = 10  # so many connections to ports may one user have for each session that they may have
TOLD_AGAIN_AFTER = 3600.0  # seconds between two events of the same user, task and way
CACHE_SIZE = 10_000  # of those
MAX_NAMED = 10  # tasks, in a message


@dataclass(frozen=True, slots=True)
class Entrance:
    """A task that can be entered now."""

    job: JobSummary
    task: str  # worker-0
    attempt_id: str
    attempt: int = 0  # of the job
    held: bool = False
    files_only: bool = False  # held, and its processes have ended or are being stopped
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by the names that the job gave them

    def whose(self, actor: Actor) -> str:
        """To be told to whoever enters a job that is not their own; empty where it is."""
        job = self.job
        return (
            ""
            if job.user == actor.name
            else msg("{name} ({id}) of {user}, {task}", name=job.name, id=job.id, user=job.user, task=self.task)
        )


class Entering:
    """The one place that lets people into tasks, whichever way they come."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        control: Control,
        *,
        sessions_per_user: int,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._engine = engine if isinstance(engine, SupportsExec) else None
        self._control = control
        self._clock = clock
        self._monotonic = monotonic
        self._sessions = limit_open("sessions", sessions_per_user, MAX_SESSIONS)
        self._between = BetweenTasksLimit(msg("sessions between tasks"), sessions_per_user, MAX_SESSIONS)
        self._ports = limit_open(msg("connections to ports"), sessions_per_user * PORTS_PER_SESSION, MAX_PORTS)
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._telling: set[asyncio.Task[None]] = set()

    # -- which task

    async def tasks(self, actor: Actor, ref: str) -> list[Entrance]:
        """All of a job's that the actor could enter now; none for whoever may only look. NotFound as for any job."""
        job = await self._find_job(actor, ref)
        return self.tasks_of(actor, job)

    def tasks_of(self, actor: Actor, job: JobSummary) -> list[Entrance]:
        """The same for a job that was found already; costs no look at the store."""
        snapshot = self._control.active(job.id)
        if snapshot is None or self._engine is None or not may_enter(actor, job.group, job.user):
            return []
        return [_entrance(job, snapshot, task) for task in snapshot.tasks if _is_open(task)]

    async def job(self, actor: Actor, ref: str) -> JobSummary:
        """The one that is meant, whether or not it runs, if the actor may enter its tasks."""
        job = await self._find_job(actor, ref)
        if not may_enter(actor, job.group, job.user):
            raise refuse_entry(job.group, job.user)
        return job

    async def find(self, actor: Actor, ref: str, task: str | None = None) -> Entrance:
        """Where somebody wants in, or why not. Without a task: one that is held, else the first that runs."""
        job = await self.job(actor, ref)
        snapshot = self._control.active(job.id)
        if snapshot is None:
            newest = await self._store.read(job_rows.find, job.id)  # it may have ended since it was found
            raise _is_over(newest if newest is not None else job)
        return _entrance(job, snapshot, _choose(snapshot, task, self._control.waiting(job.id)))

    async def _find_job(self, actor: Actor, ref: str) -> JobSummary:
        """Also by user~job, as OpenPAI's clients name jobs. Where several have a name: the actor's own, else one that
        they may enter, so that nobody leads others into a job by what they call it."""
        user, tilde, name = ref.partition("~")
        groups = readable_groups(actor)
        if tilde and groups != () and len(ref) <= MAX_REF_LENGTH:
            found = await self._store.read(job_rows.newest_named, user, name, groups)
            if found is not None:
                return found
        newest = await find_job(self._store, actor, ref)
        if newest.id == ref:
            return newest
        own: JobSummary | None = newest
        if newest.user != actor.name:
            own = await self._store.read(job_rows.newest_named, actor.name, ref, groups)
        if own is not None:
            return await self._rather_live(actor, own, ref)
        led = tuple(group for group, admin in actor.groups.items() if admin)
        if not led or may_enter(actor, newest.group, newest.user):
            return newest
        return await self._store.read(job_rows.find, ref, led) or newest

    async def _rather_live(self, actor: Actor, own: JobSummary, name: str) -> JobSummary:
        """Where the newest of a name has ended: the newest that has not."""
        if own.name != name or self._control.active(own.id) is not None:
            return own
        found = (self._control.active(use.job) for use in self._control.use_by_jobs())
        snapshots = [snapshot for snapshot in found if snapshot is not None]
        snapshots += [snapshot for snapshot, _ in self._control.held()]  # files alone have no place
        return await newest_live(self._store, actor, name, snapshots) or own

    # -- inside

    async def enter(
        self,
        actor: Actor,
        ref: str,
        task: str | None,
        command: Command,
        *,
        way: str = "ssh",
        from_within: bool = False,
    ) -> Session:
        """Run something in a task. Whoever gets the session closes it. `way` is told in the job's events.
        `from_within`: for another task of the same job, which is no event and takes no place of its user's."""
        entrance = await self.find(actor, ref, task)
        engine = await self._open(entrance)
        release = self._acquire(actor, entrance, from_within)
        try:
            session = await engine.enter(entrance.attempt_id, command)
        except BaseException as error:
            release()
            raise _translated(error) from None
        if not from_within:
            self._tell(actor, entrance, way)
        return _Counted(session, release)

    def _acquire(self, actor: Actor, entrance: Entrance, from_within: bool) -> Callable[[], None]:
        if from_within:
            return self._between.acquire_now(entrance.job.id, actor.name)
        return self._sessions.acquire_now(actor.name)

    async def connect(self, actor: Actor, ref: str, task: str | None, port: int, *, way: str = "") -> PortStream:
        """To what listens on a port of a task. Whoever gets the stream closes it. Where a `way` is named, it is told
        in the job's events."""
        if not 0 < port < 65536:
            raise UserError(msg("{port} is no port", port=port), field="port", hint=msg("Ports go from 1 to 65535."))
        entrance = await self.find(actor, ref, task)
        engine = await self._open(entrance)
        release = self._ports.acquire_now(actor.name)
        try:
            reader, writer = await engine.connect(entrance.attempt_id, port)
        except BaseException as error:
            release()
            raise _translated(error) from None
        if way:
            self._tell(actor, entrance, way)
        return PortStream(reader, writer, release)

    async def _open(self, entrance: Entrance) -> SupportsExec:
        if self._engine is None:
            raise UserError(msg("What runs the jobs here lets nobody in"), hint=msg("The logs tell what a job does."))
        if entrance.files_only:
            try:
                await self._control.revive(entrance.job.id, entrance.task)
            except ExecRefused as error:
                raise _translated(error) from None
        return self._engine

    # -- what is told of it

    def _tell(self, actor: Actor, entrance: Entrance, way: str) -> None:
        """As an event of the job, once an hour for the same; never in the way of whoever enters."""
        key, now = (actor.name, entrance.attempt_id, way), self._monotonic()
        told = self._told.get(key)
        if told is not None and now - told < TOLD_AGAIN_AFTER:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        while len(self._told) > CACHE_SIZE:
            self._told.popitem(last=False)
        telling = asyncio.create_task(self._save(actor, entrance, way))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _save(self, actor: Actor, entrance: Entrance, way: str) -> None:
        job = entrance.job
        message = msg("{name} entered {task} by {way}", name=actor.name, task=entrance.task, way=way)
        event = NewEvent(
            kind="entered",
            message=message,
            at=self._clock(),
            actor=actor.name,
            task=entrance.task,
            attempt=entrance.attempt,
        )
        try:
            await self._store.write(event_rows.note_event, job.id, event)
        except StoreError as error:  # a full disk keeps nobody out
            log.warning("could not note who entered a task", extra={"event": "entered", "error": str(error)})
            return
        self._control.changes.tell(job.id, job.group, job.user)


def limit_open(what: str, per_user: int, total: int) -> FairLimiter:
    """A limiter of what may be open at one time, by one user and in total. Refuses with Conflict or Unavailable."""

    def refuse(by_user: bool) -> UserError:
        if by_user:
            return Conflict(
                msg("You have {per_user} {what} open already", per_user=per_user, what=what),
                hint=msg("Close some first."),
            )
        return Unavailable(msg("Too many {what} are open here", what=what), hint=msg("Try again in a while."))

    return FairLimiter(total, per_key=per_user, refuse=refuse)


class BetweenTasksLimit:
    """The same between tasks: by one job, by all jobs of one user, and in total."""

    def __init__(self, what: str, per_job: int, total: int) -> None:
        self._jobs = limit_open(what, per_job, total)
        self._users = limit_open(what, MAX_BETWEEN_PER_USER, total)

    def acquire_now(self, job_id: str, user: str) -> Callable[[], None]:
        release_job = self._jobs.acquire_now(job_id)
        try:
            release_user = self._users.acquire_now(user)
        except UserError:
            release_job()
            raise

        def release() -> None:
            release_job()
            release_user()

        return release


class PortStream:
    """A connection to a port of a task."""

    __slots__ = ("_release", "reader", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: Callable[[], None]) -> None:
        self.reader = reader
        self.writer = writer
        self._release = release

    def close(self) -> None:
        """Harmless twice."""
        self._release()
        self.writer.close()


class _Counted:
    """A session that counts as open until it is closed."""

    __slots__ = ("_release", "_session")

    def __init__(self, session: Session, release: Callable[[], None]) -> None:
        self._session = session
        self._release = release

    async def read(self) -> bytes:
        return await self._session.read()

    async def read_errors(self) -> bytes:
        return await self._session.read_errors()

    async def write(self, data: bytes) -> None:
        await self._session.write(data)

    def end_input(self) -> None:
        self._session.end_input()

    def resize(self, columns: int, rows: int) -> None:
        self._session.resize(columns, rows)

    def signal(self, number: int) -> None:
        self._session.signal(number)

    async def wait(self) -> int:
        return await self._session.wait()

    def close(self) -> None:
        self._release()
        self._session.close()


def _translated(error: BaseException) -> BaseException:
    return Conflict(str(error).rstrip(".")) if isinstance(error, ExecRefused) else error


def _entrance(job: JobSummary, snapshot: JobSnapshot, task: TaskAttempt) -> Entrance:
    return Entrance(
        job=job,
        task=task.task,
        attempt_id=snapshot.attempt_id(task),
        attempt=snapshot.attempt,
        held=task.state is TaskState.HELD,
        files_only=task.held is not None and (task.held.ended or task.held.keep is Keep.FILES),
        ports=task.ports,
    )


def _is_open(task: TaskAttempt) -> bool:
    return task.state in (TaskState.RUNNING, TaskState.HELD)


# -- which task somebody means, or why there is none


def _choose(snapshot: JobSnapshot, wanted: str | None, waiting: tuple[str, ...]) -> TaskAttempt:
    if wanted is not None and snapshot.tasks:
        return _need_open(snapshot, _named(snapshot, wanted))
    open_ones = [task for task in snapshot.tasks if _is_open(task)]
    if not open_ones:
        raise _not_started(snapshot, waiting)
    return next((task for task in open_ones if task.state is TaskState.HELD), open_ones[0])


def _named(snapshot: JobSnapshot, wanted: str) -> TaskAttempt:
    """By its role's name, or as OpenPAI's variables spell it."""
    plain = plain_roles(role.name for role in snapshot.job.roles)
    for spelled in ({}, plain):
        for task in snapshot.tasks:
            if f"{spelled.get(task.role, task.role)}-{task.index}" == wanted:
                return task
    names = [task.task for task in snapshot.tasks]
    known = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    hint = nearest(wanted[:100], names) or msg("Its tasks are {known}.", known=known)
    raise NotFound(msg("{id} has no task {wanted}", id=snapshot.id, wanted=wanted[:100]), field="task", hint=hint)


def _need_open(snapshot: JobSnapshot, task: TaskAttempt) -> TaskAttempt:
    if _is_open(task):
        return task
    others = [other.task for other in snapshot.tasks if _is_open(other)]
    hint = msg("These can be entered: {others}.", others=", ".join(others[:MAX_NAMED])) if others else None
    if task.state.ended:
        when = msg(" at {finished_at}", finished_at=_moment(task.finished_at)) if task.finished_at else ""
        raise Conflict(
            msg("{task} of {id} ended{when}; its container is gone", task=task.task, id=snapshot.id, when=when),
            hint=hint,
        )
    raise Conflict(
        msg("{task} of {id} has not started yet", task=task.task, id=snapshot.id),
        hint=hint or msg("Try again once it runs."),
    )


def _not_started(snapshot: JobSnapshot, waiting: tuple[str, ...]) -> Conflict:
    if snapshot.tasks and all(task.state.ended for task in snapshot.tasks):
        return Conflict(
            msg("No task of {id} runs any more", id=snapshot.id),
            hint=msg("It is ending, or is about to be tried again."),
        )
    hint = msg("It waits: {x1}", x1=waiting[0]) if waiting else msg("Try again once it runs.")
    return Conflict(msg("{id} has not started yet", id=snapshot.id), hint=hint)


def _is_over(job: JobSummary) -> Conflict:
    when = msg(" at {finished_at}", finished_at=_moment(job.finished_at)) if job.finished_at else ""
    hint = msg("Run it again: `holdfast rerun {id}`.", id=job.id)
    if job.state is JobState.FAILED:
        hint = msg("Run it with --hold to keep it next time: `holdfast rerun {id} --hold`.", id=job.id)
    return Conflict(msg("{id} ended{when}; its container is gone", id=job.id, when=when), hint=hint)


def _moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
