"""Tokens and logins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Token, User
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store import tokens as token_rows

from ..audit import AuditedStore, AuditEntry
from ..names import check_text
from .access_tokens import (
    AccessTokens,
    MintedToken,
    TokenKind,
    build_account_disabled_error,
    delete_user_tokens,
    get_token_kind,
    mint_token,
)
from .failed_logins import FailedLogins
from .login_devices import LoginDevices
from .login_throttle import LoginAttempt, LoginThrottle
from .passwords import MAX_PASSWORD_SIZE, Passwords

MAX_TOKEN_LIFETIME = timedelta(days=3650)
MAX_LOGINS = 1000  # of one user; beyond that, the least recently used login is deleted
MAX_API_TOKENS = 1000  # of one user, for programs
EXPIRED_TOKEN_RETENTION = timedelta(days=30)
GUEST_NAME = ""  # not a valid user name
MACHINE_TOKEN_NAME = msg("this machine")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token with its text, which is shown once and never stored."""

    token: Token
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    logins: int
    programs: int


class Tokens:
    def __init__(
        self,
        store: AuditedStore,
        settings: Settings,
        access: AccessTokens,
        passwords: Passwords,
        devices: LoginDevices,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._settings = settings
        self._access = access
        self._passwords = passwords
        self._clock = clock
        self._devices = devices
        self._throttle = LoginThrottle(monotonic)
        self._failures = FailedLogins(store, monotonic)

    async def resolve_actor(self, text: str) -> Actor:
        return await self._access.resolve_actor(text)

    async def prove_token(self, token_id: str, nonce: str) -> str:
        """Prove to a client that this server knows its token."""
        return await self._access.prove_token(token_id, nonce)

    async def resolve_actor_by_id(self, token_id: str) -> Actor:
        """Return the owner of the token with this id, or a guest for an empty id; else raise NotLoggedIn."""
        if token_id:
            return await self._access.resolve_actor_by_id(token_id)
        guest = self.get_guest()
        if guest is None:
            raise NotLoggedIn(msg("Guest access is disabled on this server"), hint=msg("Log in first."))
        return guest

    @property
    def generation(self) -> int:
        """Changes with users, groups or tokens: read it, check access, then call `wait_for_change`."""
        return self._access.generation

    async def wait_for_change(self, mark: int, timeout: float) -> None:
        """Wait for a change since `mark`, at most `timeout` seconds; then check access again."""
        await self._access.wait_for_change(mark, timeout)

    async def get_token(self, text: str) -> Token:
        return (await self._access.resolve_token(text)).token

    async def has_user(self, user: str) -> bool:
        """Return whether the user exists. Call it only after a login attempt was counted."""
        return await self._store.read(people.get_user, user[:200]) is not None

    def get_guest(self) -> Actor | None:
        """Return the guest, an actor without a token; None unless access.reading is "anyone"."""
        return Actor(name=GUEST_NAME, can_read_all_jobs=True) if self._settings.access.reading == "anyone" else None

    async def login(self, user: str, password: str, address: str, *, device: str = "") -> NewToken:
        """Log in by user name and password. `address` and `device`, a device token, are for rate limits."""
        name = await self.verify_password(user, password, address, device=device)
        return await self._create_login(name, {})

    async def login_authenticated_user(self, user: str, how: str) -> NewToken:
        """Log in an already authenticated user; `how` is recorded in the audit."""
        return await self._create_login(user, {"by": how})

    async def _create_login(self, user: str, detail: Mapping[str, str]) -> NewToken:
        entry = AuditEntry(user, AuditKind.LOGIN, AuditAction.BEGUN, user, detail)
        lifetime = timedelta(days=self._settings.server.login_days)
        return await self._create_token(entry, TokenKind.LOGIN, user, "login", lifetime)

    async def verify_password(self, user: str, password: str, address: str, *, device: str = "") -> str:
        """Return the user's name; raise NotLoggedIn, or TooManyRequests after many failures of this client."""
        found = hashed = None
        if len(user) <= 200 and "\0" not in user and len(password) <= MAX_PASSWORD_SIZE:
            found, hashed = await self._store.read(_load_user_and_hash, user)
        known_device = self._devices.find_device(user, _compute_password_fingerprint(hashed), device) if found else ""
        attempt = self._throttle.admit_attempt(user, address, device=known_device, exists=found is not None)
        if not await self._is_correct_password(hashed, password[:MAX_PASSWORD_SIZE], attempt):
            await self._failures.record_failure(found.name if found else None, address)
            raise NotLoggedIn(msg("Incorrect user name or password"), hint=msg("Ask an admin to set a new password."))
        self._throttle.record_success(attempt)
        if found is None or found.disabled:
            raise build_account_disabled_error()
        return user

    async def _is_correct_password(self, hashed: str | None, password: str, attempt: LoginAttempt) -> bool:
        with self._throttle.guard_password_check(attempt):
            return await self._passwords.verify_password(hashed, password, user=attempt.user, client=attempt.client)

    async def load_password_fingerprint(self, user: str) -> str | None:
        """Return a value that changes with the user's password; None for a missing or disabled user."""
        hashed = await self._store.read(_load_password_hash, user)
        return None if hashed is None else _compute_password_fingerprint(hashed)

    async def issue_device_token(self, user: str, previous: str = "") -> str:
        """Return a device token for a client that has just logged in; empty if it gets none (see LoginDevices)."""
        mark = await self.load_password_fingerprint(user)
        return "" if mark is None else self._devices.issue_token(user, mark, previous)

    async def logout(self, text: str) -> None:
        """Delete the token with this text."""
        known = await self._access.resolve_token(text)
        await self._store.write(_build_logout_entry(known.token), token_rows.delete_token, known.token.id)
        self._access.invalidate()

    async def delete_logins(self, actor: Actor, *, keep: str | None = None) -> int:
        """Return how many. `keep`: the text of a login to keep. API tokens are kept."""
        kept = (await self._access.resolve_token(keep)).token.id if keep else ""
        entry = AuditEntry(actor.name, AuditKind.LOGIN, AuditAction.ENDED, actor.name, {"all": True})
        ended = await self._store.write(
            entry, token_rows.delete_tokens_by_prefix, actor.name, TokenKind.LOGIN.value, keep=kept
        )
        self._access.invalidate()
        return ended

    async def list(self, actor: Actor, user: str | None = None) -> list[Token]:
        """Return the actor's tokens; for admins those of all users, or of one."""
        if not actor.admin and user not in (None, actor.name):
            raise Forbidden(msg("Only admins can see the tokens of other users"))
        return await self._store.read(_list_tokens, user if actor.admin else actor.name)

    async def count_tokens(self, actor: Actor) -> TokenCounts:
        """Return the numbers of the actor's valid tokens."""
        now = self._clock()
        found = await self._store.read(token_rows.list_tokens, actor.name)
        kinds = [get_token_kind(token.id) for token in found if token.expires_at is None or token.expires_at > now]
        return TokenCounts(logins=kinds.count(TokenKind.LOGIN), programs=kinds.count(TokenKind.API))

    async def create(
        self, actor: Actor, *, name: str, expires_in: timedelta | None = None, user: str | None = None
    ) -> NewToken:
        owner = user or actor.name
        if owner != actor.name and not actor.admin:
            raise Forbidden(msg("Only admins can create tokens for other users"), field="user")
        if expires_in is not None and expires_in > MAX_TOKEN_LIFETIME:
            raise UserError(
                msg("A token can be valid for at most {days} days, or have no expiry", days=MAX_TOKEN_LIFETIME.days),
                field="expires_in",
            )
        check_text(name, "name")
        detail = {"name": name, "expires_in": expires_in}
        entry = AuditEntry(actor.name, AuditKind.TOKEN, AuditAction.CREATED, owner, detail)
        return await self._create_token(entry, TokenKind.API, owner, name, expires_in)

    async def delete(self, actor: Actor, token_id: str) -> None:
        """Delete a token of the actor, or for admins of any user."""
        found = await self._store.read(token_rows.load_token_with_owner, token_id)
        if found is None or not (actor.admin or found[1].user == actor.name):
            raise NotFound(msg("Token {token_id} not found", token_id=token_id[:100]))
        token = found[1]
        detail = {"name": token.name, "id": token.id}
        entry = AuditEntry(actor.name, AuditKind.TOKEN, AuditAction.REMOVED, token.user, detail)
        await self._store.write(entry, token_rows.delete_token, token_id)
        self._access.invalidate()

    async def delete_expired_tokens(self) -> int:
        """Delete tokens that expired long ago and return how many. Until then lists show them as expired."""
        return await self._store.write_unaudited(
            token_rows.delete_expired_tokens, self._clock() - EXPIRED_TOKEN_RETENTION
        )

    async def create_machine_token(self) -> str:
        """Create an admin token for the command line on this machine and delete the previous one."""
        minted = mint_token(TokenKind.MACHINE)
        admin = _get_enabled_admin_name(await self._store.read(people.list_users))
        token = _build_token(minted, admin, MACHINE_TOKEN_NAME, self._clock(), None)
        await self._store.write_unaudited(_replace_machine_token, token, minted.secret_hash)
        self._access.invalidate()
        return minted.text

    async def _create_token(
        self, entry: AuditEntry, kind: TokenKind, user: str, name: str, expires_in: timedelta | None
    ) -> NewToken:
        minted = mint_token(kind)
        token = _build_token(minted, user, name, self._clock(), expires_in)
        insert = _insert_login if kind is TokenKind.LOGIN else _insert_token
        if await self._store.write(entry, insert, token, minted.secret_hash):
            self._access.invalidate()
        return NewToken(token, minted.text)


def _build_token(minted: MintedToken, user: str, name: str, now: datetime, expires_in: timedelta | None) -> Token:
    expires_at = None if expires_in is None else now + expires_in
    return Token(id=minted.id, user=user, name=name, created_at=now, expires_at=expires_at, last_used_at=None)


def _build_logout_entry(token: Token) -> AuditEntry:
    """Build the audit entry of a logout, or of an API token deleted by its program."""
    is_login = get_token_kind(token.id) is TokenKind.LOGIN
    kind, act = (AuditKind.LOGIN, AuditAction.ENDED) if is_login else (AuditKind.TOKEN, AuditAction.REMOVED)
    return AuditEntry(token.user, kind, act, token.user, {} if is_login else {"name": token.name})


def _insert_login(conn: Connection, token: Token, secret_hash: str) -> int:
    """Insert a login and return how many old ones were deleted for it."""
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)
    return token_rows.delete_least_used_tokens(conn, token.user, TokenKind.LOGIN.value, MAX_LOGINS)


def _insert_token(conn: Connection, token: Token, secret_hash: str) -> int:
    """Insert an API token. If there are too many, expired ones, which are only kept for lists, are deleted first."""
    if _has_too_many_tokens(conn, token.user):
        token_rows.delete_expired_tokens(conn, token.created_at, token.user)
    if _has_too_many_tokens(conn, token.user):
        raise Conflict(
            msg("{user} already has the maximum of {max_tokens} tokens", user=token.user, max_tokens=MAX_API_TOKENS),
            hint=msg("Delete unused tokens. Run `holdfast token ls` to list them."),
        )
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)
    return 0


def _has_too_many_tokens(conn: Connection, user: str) -> bool:
    return token_rows.count_tokens_by_prefix(conn, user, TokenKind.API.value) >= MAX_API_TOKENS


def _load_user_and_hash(conn: Connection, user: str) -> tuple[User | None, str | None]:
    return people.get_user(conn, user), people.load_password_hash(conn, user)


def _load_password_hash(conn: Connection, user: str) -> str | None:
    """Return the password hash; None for a missing or disabled user, empty without a password."""
    found = people.get_user(conn, user)
    return None if found is None or found.disabled else people.load_password_hash(conn, user) or ""


def _compute_password_fingerprint(hashed: str | None) -> str:
    return hashlib.sha256((hashed or "").encode()).hexdigest()


def _list_tokens(conn: Connection, user: str | None) -> list[Token]:
    owners = [user] if user is not None else [found.name for found in people.list_users(conn)]
    return [token for owner in owners for token in token_rows.list_tokens(conn, owner)]


def _replace_machine_token(conn: Connection, token: Token, secret_hash: str) -> None:
    for user in people.list_users(conn):
        delete_user_tokens(conn, user.name, TokenKind.MACHINE)
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)


def _get_enabled_admin_name(users: list[User]) -> str:
    """Return the first enabled admin."""
    for user in users:
        if user.admin and not user.disabled:
            return user.name
    raise UserError(msg("No enabled admin found"))
