"""One connection: who it is, where it leads, and what is open on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import asyncssh

from holdfast.core.access import Actor, may_enter
from holdfast.core.errors import NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.engines.base import Command, Session
from holdfast.services import Services
from holdfast.services.audit import CLIENT_ADDRESS
from holdfast.services.fair_limiter import once
from holdfast.services.inside.service import Entrance
from holdfast.services.inside.ssh_logins import Proof
from holdfast.store.errors import StoreError

from .connections import Connections
from .flow import Gate, PortChannel, SessionChannel, gate_of
from .names import Goal, readings
from .ports import LISTENED_ON, MIN_PORT, Listener, Relay, is_loopback, plain_address
from .shells import WENT_WRONG, Shell

log = logging.getLogger(__name__)

MAX_KEYS = 20  # tried on one connection
MAX_PASSWORDS = 4
MAX_CHANNELS = 64
MAX_LISTENERS = 10
LOOK_INTERVAL = 60.0  # seconds after which it is looked whether somebody may still be inside
LOOK_AGAIN = 5.0  # seconds, where that could not be told

TOKEN_WANTED = "The password is an API token: `holdfast token create` makes one.\n"  # noqa: S105 - said to people


@dataclass(frozen=True, slots=True)
class _Inside:
    """Where the connection leads. It stays so, whatever the name would mean later."""

    actor: Actor
    entrance: Entrance


class SshConnection(asyncssh.SSHServer):
    def __init__(self, services: Services, connections: Connections) -> None:
        self._services = services
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection
        self._clear: Gate
        self.address = "unknown"
        self._goals: list[Goal] = []
        self._name = ""
        self._keys = 0
        self._passwords = 0
        self._claim: Proof | None = None  # shown; whether they also hold it, the library finds out
        self._proof: Proof | None = None
        self._inside: _Inside | None = None
        self._finding = asyncio.Lock()
        self._channels = 0
        self._listeners: set[Listener] = set()
        self._has_left = False
        self._watching: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] = lambda: None
        self._give_back: Callable[[], None] = lambda: None

    # -- coming and going

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._clear = gate_of(conn)
        peer = conn.get_extra_info("peername")
        self.address = plain_address(str(peer[0])) if peer else "unknown"
        leave = self._connections.welcome(self)
        if leave is None:
            conn.abort()
            return
        self._leave = leave

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_left = True
        for listener in list(self._listeners):
            listener.close()
        self._leave()
        self._give_back()
        if self._watching is not None:
            self._watching.cancel()

    def drop(self) -> None:
        self._connection.abort()

    def send_away(self, why: str) -> None:
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, why)

    # -- who it is

    def begin_auth(self, username: str) -> bool:
        self._claim = None
        self._name = username
        self._goals = readings(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return self._passwords < MAX_PASSWORDS

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._claim = None
        self._keys += 1
        if self._keys > 2 * MAX_KEYS:  # each is shown, and then proved
            raise _enough("Too many keys were tried")
        job_id = next((goal.job_id for goal in self._goals if goal.job_id), "") if self._is_near else ""
        try:
            claim = await self._services.ssh_logins.by_key(key.public_data, job_id)
        except Exception as error:  # the library would say nothing of it
            self._failed(error)
            return False
        self._claim = claim
        return claim is not None

    @property
    def _is_near(self) -> bool:
        """Where tasks run: from nowhere else is the key of a job taken. To itself, the machine has one address."""
        here = self._connection.get_extra_info("sockname")
        own = bool(here) and plain_address(str(here[0])) == self.address
        return own or self._connections.is_of_tasks(self.address)

    async def validate_password(self, username: str, password: str) -> bool:
        self._claim = None
        self._passwords += 1
        if self._passwords > MAX_PASSWORDS:
            raise _enough("Too many passwords were tried")
        CLIENT_ADDRESS.set(self.address)
        try:
            claim = await self._services.ssh_logins.by_token(password, self.address)
        except UserError as error:
            self._connection.send_auth_banner(f"{error.message}. {error.hint or ''}\n")
            return False
        except Exception as error:
            self._failed(error)
            return False
        if claim is None and self._passwords == 1:
            self._connection.send_auth_banner(TOKEN_WANTED)
        self._claim = claim
        return claim is not None

    def _failed(self, error: Exception) -> None:
        log.error(
            "could not let somebody in by ssh", extra={"event": "internal-error", "error": repr(error)}, exc_info=error
        )

    def auth_completed(self) -> None:
        """Called in the same step as the last `validate_…` whose proof held, so that it is this one's claim."""
        if self._has_left:
            return
        self._proof = self._claim
        self._connections.known(self)
        self._watching = asyncio.create_task(self._watch())

    @property
    def _own_job(self) -> str:
        """Of whoever comes by the key of a job; empty for people."""
        return self._proof.job_id if self._proof is not None else ""

    # -- where it leads

    async def enter(self, command: Command) -> tuple[Session, str]:
        """With what is to be said first."""
        inside = await self._find()
        job, task = inside.entrance.job, inside.entrance.task
        enter = self._services.entering.enter
        session = await enter(inside.actor, job.id, task, command, way="ssh", from_within=bool(self._own_job))
        return session, inside.entrance.whose(inside.actor)

    async def _find(self) -> _Inside:
        """As things stand now."""
        async with self._finding:
            actors = await self._proof.actors() if self._proof is not None else ()
            if actors and self._inside is None:
                self._inside = await self._look_around(actors)
            inside = self._inside
            actor = next((actor for actor in actors if inside and actor.name == inside.actor.name), None)
            if inside is None or actor is None:
                raise NotLoggedIn(msg("What you came in with is not good any more"))
            return _Inside(actor, inside.entrance)

    async def _look_around(self, actors: Sequence[Actor]) -> _Inside:
        """The first way in, or why there is none: of several reasons the one that says most."""
        refusals: list[UserError] = []
        for goal in self._goals:
            for actor in actors:
                try:
                    return await self._try(goal, actor)
                except UserError as error:
                    refusals.append(error)
        raise max(reversed(refusals), key=_tells, default=_names_nothing(self._name))

    async def _try(self, goal: Goal, actor: Actor) -> _Inside:
        if self._own_job and goal.ref != self._own_job:
            raise NotFound(msg("The key of a job opens its own tasks alone"))
        return _Inside(actor, await self._services.entering.find(actor, goal.ref, goal.task))

    async def _watch(self) -> None:
        """Ends the connection of whoever has lost the right to it."""
        logins, settled = self._services.ssh_logins, False
        while True:
            mark = logins.mark  # before the look, so that what changes meanwhile is looked at, too
            try:
                actors = await self._proof.actors() if self._proof is not None else ()
            except StoreError as error:
                log.warning("could not look who is inside", extra={"event": "ssh", "error": str(error)})
                await asyncio.sleep(LOOK_AGAIN)
                continue
            if not self._may_stay(actors):
                self.send_away("You may not be inside any more")
                return
            if not settled:
                await self._settle(actors)
                settled = True
            await logins.changed(mark, LOOK_INTERVAL)

    async def _settle(self, actors: Sequence[Actor]) -> None:
        """It counts as one of its user's, or of its job's."""
        name = actors[0].name if len(actors) == 1 else await self._who_enters(actors)
        try:
            if self._own_job:
                self._give_back = self._connections.between_tasks.acquire_now(self._own_job, name)
            else:
                self._give_back = self._connections.of_users.acquire_now(name)
        except UserError as error:
            self.send_away(error.message)

    async def _who_enters(self, actors: Sequence[Actor]) -> str:
        """Of those who have one key since before that was refused: the one whom it leads in."""
        try:
            return (await self._find()).actor.name
        except (UserError, StoreError):
            return actors[0].name  # nobody gets in

    def _may_stay(self, actors: Sequence[Actor]) -> bool:
        if self._inside is None:
            return bool(actors)
        job, name = self._inside.entrance.job, self._inside.actor.name
        return any(actor.name == name and may_enter(actor, job.group, job.user) for actor in actors)

    # -- what is open on it

    def session_requested(self) -> tuple[SessionChannel, Shell]:
        release = self._need_channel()
        return SessionChannel(self._connection), Shell(self.enter, self._clear, release)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> tuple[PortChannel, Awaitable[Relay]]:
        release = self._need_channel()
        return PortChannel(self._connection), self._connect(dest_host, dest_port, release)

    async def _connect(self, host: str, port: int, release: Callable[[], None]) -> Relay:
        try:
            inside = await self._find()
            if not self._is_own(host, inside.entrance):
                raise UserError(
                    msg(
                        "From here only {task} itself is reached: say localhost, not {host}",
                        task=inside.entrance.task,
                        host=host[:100],
                    )
                )
            job, task = inside.entrance.job, inside.entrance.task
            stream = await self._services.entering.connect(inside.actor, job.id, task, port)
        except UserError as error:
            release()
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, error.message) from None
        except Exception as error:
            release()
            self._failed(error)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, WENT_WRONG) from None
        except BaseException:
            release()
            raise
        return Relay(stream, self._clear, release)

    def _is_own(self, host: str, entrance: Entrance) -> bool:
        return is_loopback(host) or host in (entrance.task, *self._connections.addresses())

    async def server_requested(self, listen_host: str, listen_port: int) -> Listener | bool:
        own = self._proof is not None and not self._own_job
        reserved = listen_port in self._services.ssh_gate.reserved_ports
        allowed = listen_host in LISTENED_ON and (listen_port == 0 or (listen_port >= MIN_PORT and not reserved))
        if not own or not allowed or len(self._listeners) >= MAX_LISTENERS:
            return False
        listener = Listener(
            self._connection, listen_host, self._clear, self._take_channel, lambda: self._listeners.discard(listener)
        )
        self._listeners.add(listener)  # at once: many may be asked for at one time
        try:
            await self._find()  # only for those who may be inside
            await listener.listen(listen_port)
        except (UserError, OSError):
            listener.close()
            return False
        except BaseException:
            listener.close()
            raise
        if self._has_left:  # meanwhile; the library would keep it for ever
            listener.close()
            return False
        return listener

    def _take_channel(self) -> Callable[[], None] | None:
        if self._channels >= MAX_CHANNELS:
            return None
        self._channels += 1
        return once(self._give_channel_back)

    def _give_channel_back(self) -> None:
        self._channels -= 1

    def _need_channel(self) -> Callable[[], None]:
        release = self._take_channel()
        if release is None:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE,
                msg("At most {most_channels} at one time on one connection", most_channels=MAX_CHANNELS),
            )
        return release


def _enough(why: str) -> asyncssh.DisconnectError:
    return asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, why)


def _tells(error: UserError) -> int:
    if not isinstance(error, NotFound):
        return 2
    return 1 if error.field == "task" else 0


def _names_nothing(name: str) -> UserError:
    shown = name[:100] if name.isprintable() else "…"
    return NotFound(
        msg("{shown} names no job", shown=repr(shown)), hint=msg("Say `ssh JOB@HOST` or `ssh JOB.TASK@HOST`.")
    )
