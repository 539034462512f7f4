"""Bearer tokens: their text and their owners. A token is cached for CACHE_TTL seconds; every change to users, groups
or tokens clears the cache."""

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

CACHE_TTL = 30.0  # seconds
MAX_CACHED_TOKENS = 4096
RECORD_USE_INTERVAL = timedelta(minutes=10)
EXPIRY_MARGIN = 0.05  # seconds; a timer may fire slightly early

PROOF_CONTEXT = b"holdfast server proof\0"  # prefix of the HMAC input, known to clients

_TOKEN_ID_PATTERN = re.compile(r"[a-z0-9]{8,40}")
_TOKEN_PATTERN = re.compile(r"hf_([a-z0-9]{8,40})_([A-Za-z0-9_-]{43})")
_ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


class TokenKind(StrEnum):
    """The kind of a token, the first letter of its id."""

    API = "a"  # created by a user, for programs
    LOGIN = "l"  # by user name and password; deleted when the password changes
    MACHINE = "m"  # for the command line on the server


@dataclass(frozen=True, slots=True)
class MintedToken:
    id: str
    text: str
    secret_hash: str


def mint_token(kind: TokenKind) -> MintedToken:
    token_id = kind.value + "".join(secrets.choice(_ID_ALPHABET) for _ in range(15))
    secret = secrets.token_urlsafe(32)
    return MintedToken(token_id, f"hf_{token_id}_{secret}", token_rows.hash_secret(secret))


def get_token_kind(token_id: str) -> TokenKind:
    return TokenKind(token_id[:1])


@dataclass(frozen=True, slots=True)
class CachedToken:
    """A cached token with its owner."""

    token: Token
    secret_hash: str
    actor: Actor
    until: float  # monotonic
    disabled: bool = False


class AccessTokens:
    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        reads_all: bool = False,  # every logged-in user can read every job
        own_only: bool = False,  # members can only act on their own jobs
    ) -> None:
        self._store = store
        self._reads_all = reads_all
        self._own_only = own_only
        self._clock = clock
        self._monotonic = monotonic
        self._cached_tokens: OrderedDict[str, CachedToken] = OrderedDict()
        self._generation = 0
        self._changed = asyncio.Event()
        self._next_expiry: datetime | None = None  # of the known token that expires first
        self._pending_reads: dict[tuple[str, int], asyncio.Task[CachedToken]] = {}  # reads in progress

    def invalidate(self) -> None:
        """Clear the cache after a change to users, groups or tokens."""
        self._cached_tokens.clear()
        self._next_expiry = None
        self._generation += 1
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def generation(self) -> int:
        """A number that changes with each invalidation."""
        return self._generation

    async def wait_for_change(self, mark: int, timeout: float) -> None:
        """Wait for a change since `mark`, the expiry of a cached token, or `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(timeout, self._compute_seconds_to_expiry())):
                while self._generation == mark:
                    await self._changed.wait()

    def _compute_seconds_to_expiry(self) -> float:
        """Return the seconds until the first cached token expires."""
        now = self._clock()
        if self._next_expiry is not None and self._next_expiry <= now:
            ends = (known.token.expires_at for known in self._cached_tokens.values())
            self._next_expiry = min((end for end in ends if end is not None and end > now), default=None)
        return inf if self._next_expiry is None else max(EXPIRY_MARGIN, (self._next_expiry - now).total_seconds())

    async def resolve_actor(self, text: str) -> Actor:
        return (await self.resolve_token(text)).actor

    async def resolve_token(self, text: str) -> CachedToken:
        """Return the token with this text; raise NotLoggedIn if it is not valid."""
        match = _TOKEN_PATTERN.fullmatch(text)
        if match is None:
            raise _build_invalid_token_error()
        token_id, secret = match.groups()
        cached = self._cached_tokens.get(token_id)
        fresh = cached is None or cached.until < self._monotonic()
        known = await self._load_token_once(token_id) if fresh or cached is None else cached
        if not hmac.compare_digest(known.secret_hash, token_rows.hash_secret(secret)):
            raise _build_invalid_token_error()
        self._check_token_usable(known)
        if fresh:
            await self._record_token_use(known.token)
        return known

    def _check_token_usable(self, known: CachedToken) -> None:
        if known.disabled:
            raise build_account_disabled_error()
        if known.token.expires_at is not None and known.token.expires_at <= self._clock():
            raise NotLoggedIn(msg("This token has expired"), hint=msg("Log in again with `holdfast login`."))

    async def resolve_actor_by_id(self, token_id: str) -> Actor:
        """Return the owner of a token by its id; raise NotLoggedIn if it is no longer valid."""
        return (await self._get_usable_token(token_id)).actor

    async def _get_usable_token(self, token_id: str) -> CachedToken:
        cached = self._cached_tokens.get(token_id)
        known = (
            cached
            if cached is not None and cached.until >= self._monotonic()
            else await self._load_token_once(token_id)
        )
        self._check_token_usable(known)
        return known

    async def prove_token(self, token_id: str, nonce: str) -> str:
        """Prove to a client that the server knows its token, without sending it: return an HMAC of the client's nonce,
        keyed by the stored hash of the token. Raise the same NotLoggedIn for every unusable token."""
        if _TOKEN_ID_PATTERN.fullmatch(token_id) is None:
            raise _build_invalid_token_error()
        try:
            known = await self._get_usable_token(token_id)
        except NotLoggedIn:
            raise _build_invalid_token_error() from None
        return hmac.digest(known.secret_hash.encode(), PROOF_CONTEXT + nonce.encode(), "sha256").hex()

    def build_actor(self, user: User) -> Actor:
        """Build the actor of a user who is authenticated without a token."""
        return replace(actor_from_user(user), can_read_all_jobs=self._reads_all, own_only=self._own_only)

    async def _load_token_once(self, token_id: str) -> CachedToken:
        """Read a token once for all concurrent callers: after each change, every open connection asks."""
        key = token_id, self._generation
        reading = self._pending_reads.get(key)
        if reading is None:
            reading = self._pending_reads[key] = asyncio.ensure_future(
                self._load_and_cache_token(token_id, self._generation)
            )
            reading.add_done_callback(lambda done: self._finish_load(key, done))
        return await asyncio.shield(reading)

    def _finish_load(self, key: tuple[str, int], reading: asyncio.Future[CachedToken]) -> None:
        self._pending_reads.pop(key, None)
        if not reading.cancelled():
            reading.exception()  # retrieve it: if every waiter was cancelled, asyncio would log it as an error

    async def _load_and_cache_token(self, token_id: str, generation: int) -> CachedToken:
        found = await self._store.read(token_rows.load_token_with_owner, token_id)
        if found is None:
            raise _build_invalid_token_error()
        secret_hash, token, user = found
        actor = replace(self.build_actor(user), application=get_token_kind(token.id) is TokenKind.API)
        known = CachedToken(token, secret_hash, actor, self._monotonic() + CACHE_TTL, user.disabled)
        if generation == self._generation:  # else it was read before a change, and may be stale
            self._cache_token(known)
        return known

    def _cache_token(self, known: CachedToken) -> None:
        self._cached_tokens[known.token.id] = known
        expires = known.token.expires_at
        if expires is not None and (self._next_expiry is None or expires < self._next_expiry):
            self._next_expiry = expires
        while len(self._cached_tokens) > MAX_CACHED_TOKENS:
            self._cached_tokens.popitem(last=False)

    async def _record_token_use(self, token: Token) -> None:
        now = self._clock()
        if token.last_used_at is not None and now - token.last_used_at < RECORD_USE_INTERVAL:
            return
        try:
            await self._store.write_without_retry(token_rows.record_token_use, token.id, now)
        except StoreError as error:  # a full disk must not block reads
            log.warning("could not record the use of a token", extra={"event": "token-use", "error": str(error)})


def delete_user_tokens(conn: Connection, user: str, kind: TokenKind) -> None:
    """Delete a user's tokens of one kind, inside a write transaction."""
    token_rows.delete_tokens_by_prefix(conn, user, kind.value)


def actor_from_user(user: User, *, application: bool = False) -> Actor:
    groups, usual = dict(user.groups), user.usual_group
    return Actor(name=user.name, admin=user.admin, groups=groups, usual_group=usual, application=application)


def build_account_disabled_error() -> NotLoggedIn:
    """Only for users who have proven that the account is theirs."""
    return NotLoggedIn(msg("This account is disabled"), hint=msg("Ask an admin."))


def _build_invalid_token_error() -> NotLoggedIn:
    return NotLoggedIn(
        msg("This token is not valid"), hint=msg("Log in again with `holdfast login`, or set HOLDFAST_TOKEN.")
    )
