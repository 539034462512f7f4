"""SSH authentication: by a user's key, a short-lived key, a token, or a job's key."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg
from holdfast.core.records import User
from holdfast.launching.keys import make_job_key_pair, make_job_key_purpose
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..audit import AuditedStore
from ..people.access_tokens import AccessTokens
from ..people.failed_logins import FailedLogins
from ..people.ssh_keys import build_key_in_use_error, list_key_blobs, parse_public_key

KEY_LIFETIME = 600.0  # seconds that a short-lived key is valid
MAX_SHORT_LIVED_KEYS_PER_USER = 20  # short-lived keys of one user
MAX_SHORT_LIVED_KEYS = 10_000  # of all
MAX_PASSWORD_LENGTH = 200

KeyDeriver = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class SshCredential:
    """An accepted credential. It can be revoked during a session, so load its actors again."""

    load_actors: Callable[[], Awaitable[Sequence[Actor]]]
    kind: str  # key, short-lived key, token, job's key
    job_id: str = ""  # the only job it is valid for; empty: all that the actor can open sessions in

    async def list_actors(self) -> Sequence[Actor]:
        """Return its users: old installations can have one key for several users. Empty once it is revoked."""
        try:
            return await self.load_actors()
        except NotLoggedIn:
            return ()


@dataclass(slots=True)
class _KeyIndex:
    """The keys of all users, as of `mark`."""

    mark: int = -1
    users: Mapping[bytes, tuple[User, ...]] = field(default_factory=dict)  # by the key
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class _ShortLivedKey:
    blob: bytes
    user: str
    token_id: str
    until: float  # monotonic


class SshLogins:
    def __init__(
        self,
        store: AuditedStore,
        access: AccessTokens,
        derive: KeyDeriver | None,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store: Store = store.unaudited_store
        self._access = access
        self._derive = derive
        self._clock = clock
        self._monotonic = monotonic
        self._failures = FailedLogins(store, monotonic)
        self._key_index = _KeyIndex()
        self._short_lived_keys: list[_ShortLivedKey] = []

    # -- authentication

    async def authenticate_key(self, blob: bytes, job_id: str) -> SshCredential | None:
        """Authenticate by public key. `blob`: in wire format. `job_id`: the requested job, if given by id."""
        if await self._find_key_owners(blob):
            return SshCredential(lambda: self._find_key_owners(blob), "key")
        short = [each for each in self._list_valid_keys() if each.blob == blob]
        if short:
            return SshCredential(lambda: self._load_key_holders(short), msg("short-lived key"))
        if await self.is_job_key(blob, job_id):
            return SshCredential(lambda: self._find_job_owner(job_id), msg("job key"), job_id)
        return None

    async def authenticate_token(self, text: str, address: str) -> SshCredential | None:
        """Authenticate by a token used as password. Valid tokens are never throttled: they cannot be guessed."""
        try:
            known = await self._access.resolve_token(text[:MAX_PASSWORD_LENGTH])
        except NotLoggedIn:
            await self._failures.record_failure(None, address)
            return None
        token_id = known.token.id
        return SshCredential(lambda: self._load_token_holder(token_id), "token")

    async def is_job_key(self, blob: bytes, job_id: str) -> bool:
        """Return whether this is the key shared by all tasks of the job."""
        if self._derive is None or not blob or not await self._store.read(_find_job_user, job_id):
            return False
        public = make_job_key_pair(self._derive(make_job_key_purpose(job_id))).public
        return base64.b64decode(public.split(" ")[1]) == blob

    # -- short-lived keys

    async def register_key(self, login: str, public_key: str) -> datetime:
        """Register a key for the user of this login. Return when it expires."""
        line = parse_public_key(public_key, "public_key")
        known = await self._access.resolve_token(login)
        blob, user, now = base64.b64decode(line.split(" ")[1]), known.actor.name, self._monotonic()
        if any(owner.name != user for owner in await self._find_key_owners(blob)):
            raise build_key_in_use_error("public_key")
        if any(each.user != user for each in self._list_valid_keys() if each.blob == blob):
            raise build_key_in_use_error("public_key")
        others = [each for each in self._list_valid_keys() if not (each.blob == blob and each.user == user)]
        own = [each for each in others if each.user == user]
        spare = own[: max(0, len(own) - MAX_SHORT_LIVED_KEYS_PER_USER + 1)]
        kept = [each for each in others if each not in spare][-MAX_SHORT_LIVED_KEYS + 1 :]
        self._short_lived_keys = [*kept, _ShortLivedKey(blob, user, known.token.id, now + KEY_LIFETIME)]
        return self._clock() + timedelta(seconds=KEY_LIFETIME)

    def _list_valid_keys(self) -> list[_ShortLivedKey]:
        now = self._monotonic()
        return [each for each in self._short_lived_keys if each.until >= now]

    # -- current users

    @property
    def change_mark(self) -> int:
        """Version of users, groups, keys and tokens. Read it before a check, then wait for a newer one."""
        return self._access.generation

    async def wait_for_change(self, mark: int, timeout: float) -> None:
        await self._access.wait_for_change(mark, timeout)

    async def _find_key_owners(self, blob: bytes) -> list[Actor]:
        async with self._key_index.lock:
            if self._key_index.mark != self._access.generation:
                mark = self._access.generation  # before reading: later changes are read next time
                self._key_index.users = await self._store.read(_load_users_by_key)
                self._key_index.mark = mark
        return [self._access.build_actor(user) for user in self._key_index.users.get(blob, ())]

    async def _load_key_holders(self, short: Sequence[_ShortLivedKey]) -> list[Actor]:
        found = []
        for each in short:
            try:
                found.append(await self._access.resolve_actor_by_id(each.token_id))
            except NotLoggedIn:
                continue
        return found

    async def _load_token_holder(self, token_id: str) -> list[Actor]:
        return [await self._access.resolve_actor_by_id(token_id)]

    async def _find_job_owner(self, job_id: str) -> list[Actor]:
        name = await self._store.read(_find_job_user, job_id)
        user = await self._store.read(people.get_user, name) if name else None
        return [] if user is None or user.disabled else [self._access.build_actor(user)]


def _find_job_user(conn: Connection, job_id: str) -> str:
    """Return the user of the job with exactly this id; empty if there is none."""
    found = job_rows.find_job(conn, job_id) if job_id else None
    return found.user if found is not None and found.id == job_id else ""


def _load_users_by_key(conn: Connection) -> dict[bytes, tuple[User, ...]]:
    found: dict[bytes, tuple[User, ...]] = {}
    for user in people.list_users(conn):
        for blob in [] if user.disabled else list_key_blobs(user.extension):
            found[blob] = (*found.get(blob, ()), user)
    return found
