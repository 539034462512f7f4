"""Who comes by SSH: by a key of their own, by one that holds for minutes, by a token, or by the key of a job."""

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
from holdfast.launching.keys import job_pair, job_purpose
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..audit import AuditedStore
from ..people.access_tokens import AccessTokens
from ..people.failed_logins import FailedLogins
from ..people.ssh_keys import check_public_key, key_blobs, others_key

LASTS = 600.0  # seconds that a short-lived key is good for a login
MAX_PER_USER = 20  # short-lived keys of one user
MAX_COUNT = 10_000  # of all
MAX_PASSWORD_LENGTH = 200

Derive = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Proof:
    """What somebody has shown. It may lose its worth while they are inside: ask again who they are."""

    ask: Callable[[], Awaitable[Sequence[Actor]]]
    how: str  # key, short-lived key, token, job's key
    job_id: str = ""  # the only job it is good for; empty: all that the actor may enter

    async def actors(self) -> Sequence[Actor]:
        """Whom it speaks for now: of old, several users may have one key. None once it is not good any more."""
        try:
            return await self.ask()
        except NotLoggedIn:
            return ()


@dataclass(slots=True)
class _Ring:
    """Every user's keys, as they were at `mark`."""

    mark: int = -1
    users: Mapping[bytes, tuple[User, ...]] = field(default_factory=dict)  # by the key
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class _ShortLived:
    blob: bytes
    user: str
    token_id: str
    until: float  # by the monotonic clock


class SshLogins:
    def __init__(
        self,
        store: AuditedStore,
        access: AccessTokens,
        derive: Derive | None,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._rows: Store = store.plain
        self._access = access
        self._derive = derive
        self._clock = clock
        self._monotonic = monotonic
        self._failures = FailedLogins(store, monotonic)
        self._ring = _Ring()
        self._short: list[_ShortLived] = []

    # -- showing something

    async def by_key(self, blob: bytes, job_id: str) -> Proof | None:
        """`blob`: the public key as it goes over the wire. `job_id`: where its holder wants in, if that is an id."""
        if await self._owners(blob):
            return Proof(lambda: self._owners(blob), "key")
        short = [each for each in self._good_short() if each.blob == blob]
        if short:
            return Proof(lambda: self._holders(short), msg("short-lived key"))
        if await self.is_job_key(blob, job_id):
            return Proof(lambda: self._owner_of(job_id), msg("job's key"), job_id)
        return None

    async def by_token(self, text: str, address: str) -> Proof | None:
        """A token in place of a password. A token cannot be guessed, so no failure of others refuses a right one."""
        try:
            known = await self._access.known(text[:MAX_PASSWORD_LENGTH])
        except NotLoggedIn:
            await self._failures.note(None, address)
            return None
        token_id = known.token.id
        return Proof(lambda: self._holder(token_id), "token")

    async def is_job_key(self, blob: bytes, job_id: str) -> bool:
        """Whether it is the key that all tasks of this job have."""
        if self._derive is None or not blob or not await self._rows.read(_job_user, job_id):
            return False
        public = job_pair(self._derive(job_purpose(job_id))).public
        return base64.b64decode(public.split(" ")[1]) == blob

    # -- keys that hold for minutes

    async def remember(self, login: str, public_key: str) -> datetime:
        """A key for whoever is logged in by this token; until when it opens."""
        line = check_public_key(public_key, "public_key")
        known = await self._access.known(login)
        blob, user, now = base64.b64decode(line.split(" ")[1]), known.actor.name, self._monotonic()
        if any(owner.name != user for owner in await self._owners(blob)):
            raise others_key("public_key")
        if any(each.user != user for each in self._good_short() if each.blob == blob):
            raise others_key("public_key")
        others = [each for each in self._good_short() if not (each.blob == blob and each.user == user)]
        own = [each for each in others if each.user == user]
        spare = own[: max(0, len(own) - MAX_PER_USER + 1)]
        kept = [each for each in others if each not in spare][-MAX_COUNT + 1 :]
        self._short = [*kept, _ShortLived(blob, user, known.token.id, now + LASTS)]
        return self._clock() + timedelta(seconds=LASTS)

    def _good_short(self) -> list[_ShortLived]:
        now = self._monotonic()
        return [each for each in self._short if each.until >= now]

    # -- who that is, as things stand now

    @property
    def mark(self) -> int:
        """Of changes to users, groups, keys and tokens: take it, look, then wait for `changed`."""
        return self._access.mark

    async def changed(self, mark: int, timeout: float) -> None:
        await self._access.changed(mark, timeout)

    async def _owners(self, blob: bytes) -> list[Actor]:
        async with self._ring.lock:
            if self._ring.mark != self._access.mark:
                mark = self._access.mark  # before the look: what changes meanwhile is looked at next time
                self._ring.users = await self._rows.read(_all_keys)
                self._ring.mark = mark
        return [self._access.standing(user) for user in self._ring.users.get(blob, ())]

    async def _holders(self, short: Sequence[_ShortLived]) -> list[Actor]:
        found = []
        for each in short:
            try:
                found.append(await self._access.holder(each.token_id))
            except NotLoggedIn:
                continue
        return found

    async def _holder(self, token_id: str) -> list[Actor]:
        return [await self._access.holder(token_id)]

    async def _owner_of(self, job_id: str) -> list[Actor]:
        name = await self._rows.read(_job_user, job_id)
        user = await self._rows.read(people.get_user, name) if name else None
        return [] if user is None or user.disabled else [self._access.standing(user)]


def _job_user(conn: Connection, job_id: str) -> str:
    """Of the job with exactly this id; empty when there is none."""
    found = job_rows.find(conn, job_id) if job_id else None
    return found.user if found is not None and found.id == job_id else ""


def _all_keys(conn: Connection) -> dict[bytes, tuple[User, ...]]:
    found: dict[bytes, tuple[User, ...]] = {}
    for user in people.list_users(conn):
        for blob in [] if user.disabled else key_blobs(user.extension):
            found[blob] = (*found.get(blob, ()), user)
    return found
