"""One SSH connection: its user, its task, and its open channels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import asyncssh

from holdfast.core.access import Actor, can_exec
from holdfast.core.errors import NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.engines.base import ExecCommand, ExecSession
from holdfast.services import Services
from holdfast.services.audit import CLIENT_ADDRESS
from holdfast.services.fair_limiter import make_idempotent
from holdfast.services.inside.service import ExecTarget
from holdfast.services.inside.ssh_logins import SshCredential
from holdfast.store.errors import StoreError

from .connections import ConnectionRegistry
from .flow_control import PortChannel, SessionChannel, WriteGate, install_write_gate
from .ports import LISTEN_ADDRESSES, MIN_PORT, PortListener, PortRelay, is_loopback, normalize_peer_address
from .shells import INTERNAL_ERROR_MESSAGE, ShellSession
from .user_names import TargetName, parse_user_name

log = logging.getLogger(__name__)

MAX_OFFERED_KEYS = 20  # tried on one connection
MAX_PASSWORD_ATTEMPTS = 4
MAX_CHANNELS = 64
MAX_LISTENERS = 10
ACCESS_CHECK_INTERVAL = 60.0  # seconds between access checks
ACCESS_CHECK_RETRY_INTERVAL = 5.0  # seconds, after a failed check

TOKEN_BANNER = "The password is an API token. Create one with `holdfast token create`.\n"  # noqa: S105 - said to people


@dataclass(frozen=True, slots=True)
class _ConnectionTarget:
    """The task of the connection. It does not change, even if the name would later mean another."""

    actor: Actor
    target: ExecTarget


class SshConnection(asyncssh.SSHServer):
    def __init__(self, services: Services, connections: ConnectionRegistry) -> None:
        self._services = services
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection
        self._write_gate: WriteGate
        self.address = "unknown"
        self._target_names: list[TargetName] = []
        self._user_name = ""
        self._key_attempts = 0
        self._password_attempts = 0
        self._offered_credential: SshCredential | None = None  # offered; the library verifies the private key
        self._credential: SshCredential | None = None
        self._target: _ConnectionTarget | None = None
        self._target_lock = asyncio.Lock()
        self._channel_count = 0
        self._listeners: set[PortListener] = set()
        self._is_closed = False
        self._access_watcher: asyncio.Task[None] | None = None
        self._unregister: Callable[[], None] = lambda: None
        self._release_slot: Callable[[], None] = lambda: None

    # -- connecting

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._write_gate = install_write_gate(conn)
        peer = conn.get_extra_info("peername")
        self.address = normalize_peer_address(str(peer[0])) if peer else "unknown"
        leave = self._connections.add_connection(self)
        if leave is None:
            conn.abort()
            return
        self._unregister = leave

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        for listener in list(self._listeners):
            listener.close()
        self._unregister()
        self._release_slot()
        if self._access_watcher is not None:
            self._access_watcher.cancel()

    def abort_connection(self) -> None:
        self._connection.abort()

    def disconnect_client(self, why: str) -> None:
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, why)

    # -- authentication

    def begin_auth(self, username: str) -> bool:
        self._offered_credential = None
        self._user_name = username
        self._target_names = parse_user_name(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return self._password_attempts < MAX_PASSWORD_ATTEMPTS

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._offered_credential = None
        self._key_attempts += 1
        if self._key_attempts > 2 * MAX_OFFERED_KEYS:  # each is offered, and then verified
            raise _build_auth_limit_error("Too many keys")
        job_id = next((goal.job_id for goal in self._target_names if goal.job_id), "") if self._is_from_node else ""
        try:
            claim = await self._services.ssh_logins.authenticate_key(key.public_data, job_id)
        except Exception as error:  # the library would not report it
            self._log_failure(error)
            return False
        self._offered_credential = claim
        return claim is not None

    @property
    def _is_from_node(self) -> bool:
        """Whether the client is on a node: only from there are job keys accepted. The machine itself has one
        address."""
        here = self._connection.get_extra_info("sockname")
        own = bool(here) and normalize_peer_address(str(here[0])) == self.address
        return own or self._connections.is_node_address(self.address)

    async def validate_password(self, username: str, password: str) -> bool:
        self._offered_credential = None
        self._password_attempts += 1
        if self._password_attempts > MAX_PASSWORD_ATTEMPTS:
            raise _build_auth_limit_error("Too many passwords")
        CLIENT_ADDRESS.set(self.address)
        try:
            claim = await self._services.ssh_logins.authenticate_token(password, self.address)
        except UserError as error:
            self._connection.send_auth_banner(f"{error.message}. {error.hint or ''}\n")
            return False
        except Exception as error:
            self._log_failure(error)
            return False
        if claim is None and self._password_attempts == 1:
            self._connection.send_auth_banner(TOKEN_BANNER)
        self._offered_credential = claim
        return claim is not None

    def _log_failure(self, error: Exception) -> None:
        log.error("ssh connection failed", extra={"event": "internal-error", "error": repr(error)}, exc_info=error)

    def auth_completed(self) -> None:
        """Called right after the last successful `validate_…`, so the claim is its own."""
        if self._is_closed:
            return
        self._credential = self._offered_credential
        self._connections.mark_logged_in(self)
        self._access_watcher = asyncio.create_task(self._watch_access())

    @property
    def _own_job_id(self) -> str:
        """The job whose key was used; empty for users."""
        return self._credential.job_id if self._credential is not None else ""

    # -- the task

    async def start_command(self, command: ExecCommand) -> tuple[ExecSession, str]:
        """Start a command. Return its session and the text to show first."""
        inside = await self._find_target()
        job, task = inside.target.job, inside.target.task
        enter = self._services.task_access.open_session
        session = await enter(inside.actor, job.id, task, command, way="ssh", from_within=bool(self._own_job_id))
        return session, inside.target.describe_owner(inside.actor)

    async def _find_target(self) -> _ConnectionTarget:
        async with self._target_lock:
            actors = await self._credential.list_actors() if self._credential is not None else ()
            if actors and self._target is None:
                self._target = await self._find_first_target(actors)
            inside = self._target
            actor = next((actor for actor in actors if inside and actor.name == inside.actor.name), None)
            if inside is None or actor is None:
                raise NotLoggedIn(msg("Your credentials are no longer valid"))
            return _ConnectionTarget(actor, inside.target)

    async def _find_first_target(self, actors: Sequence[Actor]) -> _ConnectionTarget:
        """Return the first task that one of the actors can access, or raise the most specific error."""
        refusals: list[UserError] = []
        for goal in self._target_names:
            for actor in actors:
                try:
                    return await self._resolve_target(goal, actor)
                except UserError as error:
                    refusals.append(error)
        raise max(reversed(refusals), key=_rank_error, default=_build_bad_name_error(self._user_name))

    async def _resolve_target(self, goal: TargetName, actor: Actor) -> _ConnectionTarget:
        if self._own_job_id and goal.ref != self._own_job_id:
            raise NotFound(msg("A job's SSH key can connect only to tasks of that job"))
        return _ConnectionTarget(actor, await self._services.task_access.find_target(actor, goal.ref, goal.task))

    async def _watch_access(self) -> None:
        """Close the connection when its user loses access."""
        logins, settled = self._services.ssh_logins, False
        while True:
            mark = logins.change_mark  # before the check, so that a change during it is not missed
            try:
                actors = await self._credential.list_actors() if self._credential is not None else ()
            except StoreError as error:
                log.warning("could not check ssh access", extra={"event": "ssh", "error": str(error)})
                await asyncio.sleep(ACCESS_CHECK_RETRY_INTERVAL)
                continue
            if not self._has_access(actors):
                self.disconnect_client("Your shell access has ended")
                return
            if not settled:
                await self._acquire_connection_slot(actors)
                settled = True
            await logins.wait_for_change(mark, ACCESS_CHECK_INTERVAL)

    async def _acquire_connection_slot(self, actors: Sequence[Actor]) -> None:
        """Count the connection for its user or its job."""
        name = actors[0].name if len(actors) == 1 else await self._choose_user(actors)
        try:
            if self._own_job_id:
                self._release_slot = self._connections.intra_job_limiter.acquire_nowait(self._own_job_id, name)
            else:
                self._release_slot = self._connections.user_limiter.acquire_nowait(name)
        except UserError as error:
            self.disconnect_client(error.message)

    async def _choose_user(self, actors: Sequence[Actor]) -> str:
        """Return the user with access, of several users with the same key (from before that was rejected)."""
        try:
            return (await self._find_target()).actor.name
        except (UserError, StoreError):
            return actors[0].name  # no user has access

    def _has_access(self, actors: Sequence[Actor]) -> bool:
        if self._target is None:
            return bool(actors)
        job, name = self._target.target.job, self._target.actor.name
        return any(actor.name == name and can_exec(actor, job.group, job.user) for actor in actors)

    # -- channels

    def session_requested(self) -> tuple[SessionChannel, ShellSession]:
        release = self._require_channel()
        return SessionChannel(self._connection), ShellSession(self.start_command, self._write_gate, release)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> tuple[PortChannel, Awaitable[PortRelay]]:
        release = self._require_channel()
        return PortChannel(self._connection), self._connect_port(dest_host, dest_port, release)

    async def _connect_port(self, host: str, port: int, release: Callable[[], None]) -> PortRelay:
        try:
            inside = await self._find_target()
            if not self._is_task_host(host, inside.target):
                raise UserError(
                    msg(
                        "Port forwarding reaches only {task}: use localhost, not {host}",
                        task=inside.target.task,
                        host=host[:100],
                    )
                )
            job, task = inside.target.job, inside.target.task
            stream = await self._services.task_access.connect_port(inside.actor, job.id, task, port)
        except UserError as error:
            release()
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, error.message) from None
        except Exception as error:
            release()
            self._log_failure(error)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, INTERNAL_ERROR_MESSAGE) from None
        except BaseException:
            release()
            raise
        return PortRelay(stream, self._write_gate, release)

    def _is_task_host(self, host: str, entrance: ExecTarget) -> bool:
        return is_loopback(host) or host in (entrance.task, *self._connections.iter_node_addresses())

    async def server_requested(self, listen_host: str, listen_port: int) -> PortListener | bool:
        own = self._credential is not None and not self._own_job_id
        reserved = listen_port in self._services.ssh_gateway.reserved_ports
        allowed = listen_host in LISTEN_ADDRESSES and (listen_port == 0 or (listen_port >= MIN_PORT and not reserved))
        if not own or not allowed or len(self._listeners) >= MAX_LISTENERS:
            return False
        listener = PortListener(
            self._connection,
            listen_host,
            self._write_gate,
            self._reserve_channel,
            lambda: self._listeners.discard(listener),
        )
        self._listeners.add(listener)  # at once: many can be requested at the same time
        try:
            await self._find_target()  # only with shell access
            await listener.start_listening(listen_port)
        except (UserError, OSError):
            listener.close()
            return False
        except BaseException:
            listener.close()
            raise
        if self._is_closed:  # closed in the meantime; the library would keep it forever
            listener.close()
            return False
        return listener

    def _reserve_channel(self) -> Callable[[], None] | None:
        if self._channel_count >= MAX_CHANNELS:
            return None
        self._channel_count += 1
        return make_idempotent(self._release_channel)

    def _release_channel(self) -> None:
        self._channel_count -= 1

    def _require_channel(self) -> Callable[[], None]:
        release = self._reserve_channel()
        if release is None:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE,
                msg("A connection can have at most {max_channels} open channels", max_channels=MAX_CHANNELS),
            )
        return release


def _build_auth_limit_error(why: str) -> asyncssh.DisconnectError:
    return asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, why)


def _rank_error(error: UserError) -> int:
    if not isinstance(error, NotFound):
        return 2
    return 1 if error.field == "task" else 0


def _build_bad_name_error(name: str) -> UserError:
    shown = name[:100] if name.isprintable() else "…"
    return NotFound(
        msg("{shown} is not a job name", shown=repr(shown)), hint=msg("Use `ssh JOB@HOST` or `ssh JOB.TASK@HOST`.")
    )
