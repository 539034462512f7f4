"""Bearer tokens: their text, and who is behind one. A known token costs no database read for CACHED_FOR seconds; every
change to users, groups or tokens made here empties the cache at once."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.core.messages import msg
from holdfast.core.records import Token, User
from holdfast.store import tokens as token_rows
from holdfast.store.database import Store
from holdfast.store.errors import StoreError

log = logging.getLogger(__name__)

CACHED_FOR = 30.0  # seconds
CACHED_MOST = 4096  # tokens
NOTE_USE_INTERVAL = timedelta(minutes=10)
EXPIRY_MARGIN = 0.05  # seconds; a timer may fire a little before the clock says so

PROOF_CONTEXT = b"holdfast server proof\0"  # as clients know it: what the HMAC is about

_ID = re.compile(r"[a-z0-9]{8,40}")
_TEXT = re.compile(r"hf_([a-z0-9]{8,40})_([A-Za-z0-9_-]{43})")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class Kind(StrEnum):
    """The first letter of a token's id."""

    API = "a"  # made by hand, for programs
    LOGIN = "l"  # by user and password; ends when the password changes
    MACHINE = "m"  # the command line on the server's own machine


@dataclass(frozen=True, slots=True)
class Minted:
    id: str
    text: str
    secret_hash: str


def mint(kind: Kind) -> Minted:
    token_id = kind.value + "".join(secrets.choice(_ALPHABET) for _ in range(15))
    secret = secrets.token_urlsafe(32)
    return Minted(token_id, f"hf_{token_id}_{secret}", token_rows.hash_secret(secret))


def kind_of(token_id: str) -> Kind:
    return Kind(token_id[:1])


@dataclass(frozen=True, slots=True)
class Known:
    """A token that was looked up, and whose it is."""

    token: Token
    secret_hash: str
    actor: Actor
    until: float  # by the monotonic clock
    disabled: bool = False


class AccessTokens:
    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        reads_all: bool = False,  # everybody who is logged in reads every job
        own_only: bool = False,  # members act on their own jobs alone
    ) -> None:
        self._store = store
        self._reads_all = reads_all
        self._own_only = own_only
        self._clock = clock
        self._monotonic = monotonic
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._generation = 0
        self._news = asyncio.Event()
        self._expiry: datetime | None = None  # of the known token that expires first
        self._reading: dict[tuple[str, int], asyncio.Task[Known]] = {}  # look-ups in progress

    def forget(self) -> None:
        """Something about users, groups or tokens changed."""
        self._known.clear()
        self._expiry = None
        self._generation += 1
        self._news.set()
        self._news = asyncio.Event()

    @property
    def mark(self) -> int:
        """Another one after each change."""
        return self._generation

    async def changed(self, mark: int, timeout: float) -> None:
        """Returns when something did since `mark`, when a known token expires, or after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(timeout, self._seconds_to_expiry())):
                while self._generation == mark:
                    await self._news.wait()

    def _seconds_to_expiry(self) -> float:
        """Until the first of the known tokens expires."""
        now = self._clock()
        if self._expiry is not None and self._expiry <= now:
            ends = (known.token.expires_at for known in self._known.values())
            self._expiry = min((end for end in ends if end is not None and end > now), default=None)
        return inf if self._expiry is None else max(EXPIRY_MARGIN, (self._expiry - now).total_seconds())

    async def actor(self, text: str) -> Actor:
        return (await self.known(text)).actor

    async def known(self, text: str) -> Known:
        """Whoever holds this token; NotLoggedIn when it is not one of ours, or no longer."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise _refusal()
        token_id, secret = match.groups()
        cached = self._known.get(token_id)
        fresh = cached is None or cached.until < self._monotonic()
        known = await self._look_up(token_id) if fresh or cached is None else cached
        if not hmac.compare_digest(known.secret_hash, token_rows.hash_secret(secret)):
            raise _refusal()
        self._need_good(known)
        if fresh:
            await self._note_use(known.token)
        return known

    def _need_good(self, known: Known) -> None:
        if known.disabled:
            raise disabled_account()
        if known.token.expires_at is not None and known.token.expires_at <= self._clock():
            raise NotLoggedIn(msg("This token has expired"), hint=msg("Log in again with `holdfast login`."))

    async def holder(self, token_id: str) -> Actor:
        """Who stands behind a token that was shown before; NotLoggedIn once it is not good any more."""
        return (await self._usable(token_id)).actor

    async def _usable(self, token_id: str) -> Known:
        cached = self._known.get(token_id)
        known = cached if cached is not None and cached.until >= self._monotonic() else await self._look_up(token_id)
        self._need_good(known)
        return known

    async def prove(self, token_id: str, nonce: str) -> str:
        """What shows a client that we know its token, without its being sent: an HMAC of the client's nonce, keyed by
        the hash that is kept of the token. NotLoggedIn, always the same, when no such token can be used."""
        if _ID.fullmatch(token_id) is None:
            raise _refusal()
        try:
            known = await self._usable(token_id)
        except NotLoggedIn:
            raise _refusal() from None
        return hmac.digest(known.secret_hash.encode(), PROOF_CONTEXT + nonce.encode(), "sha256").hex()

    def standing(self, user: User) -> Actor:
        """Who a user is to us, when known otherwise than by a token."""
        return replace(actor_of(user), reads_all=self._reads_all, own_only=self._own_only)

    async def _look_up(self, token_id: str) -> Known:
        """Read once for all who ask at the same time: after each change, everything that is open asks."""
        key = token_id, self._generation
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._read(token_id, self._generation))
            reading.add_done_callback(lambda done: self._was_read(key, done))
        return await asyncio.shield(reading)

    def _was_read(self, key: tuple[str, int], reading: asyncio.Future[Known]) -> None:
        self._reading.pop(key, None)
        if not reading.cancelled():
            reading.exception()  # retrieve it: if every waiter was cancelled, asyncio would log it as an error

    async def _read(self, token_id: str, generation: int) -> Known:
        found = await self._store.read(token_rows.token_user, token_id)
        if found is None:
            raise _refusal()
        secret_hash, token, user = found
        actor = replace(self.standing(user), application=kind_of(token.id) is Kind.API)
        known = Known(token, secret_hash, actor, self._monotonic() + CACHED_FOR, user.disabled)
        if generation == self._generation:  # else it was read before a change, and may be stale
            self._keep(known)
        return known

    def _keep(self, known: Known) -> None:
        self._known[known.token.id] = known
        expires = known.token.expires_at
        if expires is not None and (self._expiry is None or expires < self._expiry):
            self._expiry = expires
        while len(self._known) > CACHED_MOST:
            self._known.popitem(last=False)

    async def _note_use(self, token: Token) -> None:
        now = self._clock()
        if token.last_used_at is not None and now - token.last_used_at < NOTE_USE_INTERVAL:
            return
        try:
            await self._store.write_if_room(token_rows.touch_token, token.id, now)
        except StoreError as error:  # a full disk must not keep people from looking
            log.warning("could not note a token's use", extra={"event": "token-use", "error": str(error)})


def end_tokens(conn: Connection, user: str, kind: Kind) -> None:
    """Within a write."""
    token_rows.delete_tokens_like(conn, user, kind.value)


def actor_of(user: User, *, application: bool = False) -> Actor:
    groups, usual = dict(user.groups), user.usual_group
    return Actor(name=user.name, admin=user.admin, groups=groups, usual_group=usual, application=application)


def disabled_account() -> NotLoggedIn:
    """Only for those who have shown that it is theirs."""
    return NotLoggedIn(msg("This account is disabled"), hint=msg("Ask an admin."))


def _refusal() -> NotLoggedIn:
    return NotLoggedIn(
        msg("This token is not valid"), hint=msg("Log in again with `holdfast login`, or set HOLDFAST_TOKEN.")
    )
