"""Tokens and logins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, NotLoggedIn, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Token, User
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store import tokens as token_rows

from ..audit import AuditedStore, AuditEntry
from ..names import check_text
from .access_tokens import AccessTokens, Kind, disabled_account, end_tokens, kind_of, mint
from .failed_logins import FailedLogins
from .login_devices import LoginDevices
from .login_throttle import LoginAttempt, LoginThrottle
from .passwords import MAX_LENGTH, Passwords

MAX_LIFETIME = timedelta(days=3650)
MAX_LOGINS = 1000  # of one user; with one more, that which was not used for the longest time ends
MAX_TOKENS = 1000  # of one user, for programs
SHOWN_AFTER_END = timedelta(days=30)
GUEST = ""  # no user is called so
MACHINE_TOKEN = msg("this machine")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token with its text, which is shown this once and kept nowhere."""

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

    async def actor(self, text: str) -> Actor:
        """Who holds this token."""
        return await self._access.actor(text)

    async def prove(self, token_id: str, nonce: str) -> str:
        """Shows a client that this server knows its token."""
        return await self._access.prove(token_id, nonce)

    async def holder(self, token_id: str) -> Actor:
        """Who holds the token with this id, or for an empty id a guest; NotLoggedIn once it is not valid."""
        if token_id:
            return await self._access.holder(token_id)
        guest = self.guest()
        if guest is None:
            raise NotLoggedIn(msg("Guests may not read here"), hint=msg("Log in first."))
        return guest

    @property
    def mark(self) -> int:
        """Of changes to users, groups or tokens: take it, look, then wait for `changed`."""
        return self._access.mark

    async def changed(self, mark: int, timeout: float) -> None:
        """Returns when there was one since `mark`, or after `timeout` seconds: ask anew who holds what."""
        await self._access.changed(mark, timeout)

    async def which(self, text: str) -> Token:
        """The token with this text."""
        return (await self._access.known(text)).token

    async def knows(self, user: str) -> bool:
        """Whether there is such a user. To be asked only after a login was counted as a try."""
        return await self._store.read(people.get_user, user[:200]) is not None

    def guest(self) -> Actor | None:
        """Whoever has no token; None unless the admin lets anyone read."""
        return Actor(name=GUEST, reads_all=True) if self._settings.access.reading == "anyone" else None

    async def login(self, user: str, password: str, address: str, *, device: str = "") -> NewToken:
        """By user and password. `address` and `device`, the client's device token, are for the limits on failures."""
        name = await self.verify(user, password, address, device=device)
        return await self._begin_login(name, {})

    async def login_as(self, user: str, how: str) -> NewToken:
        """For whoever has shown already that they may; `how` is told in the audit."""
        return await self._begin_login(user, {"by": how})

    async def _begin_login(self, user: str, detail: Mapping[str, str]) -> NewToken:
        deed = AuditEntry(actor=user, kind=AuditKind.LOGIN, act=Act.BEGUN, subject=user, detail=detail)
        return await self._make(deed, Kind.LOGIN, user, "login", timedelta(days=self._settings.server.login_days))

    async def verify(self, user: str, password: str, address: str, *, device: str = "") -> str:
        """The user's name if the password is right; NotLoggedIn otherwise. TooManyRequests after many failures of this
        client."""
        found, hashed = await self._store.read(_with_hash, user) if _could_be(user, password) else (None, None)
        known_device = self._devices.find_device(user, _mark(hashed), device) if found else ""
        attempt = self._throttle.admit(user, address, device=known_device, exists=found is not None)
        if not await self._matches(hashed, password[:MAX_LENGTH], attempt):
            await self._failures.note(found.name if found else None, address)
            raise NotLoggedIn(
                msg("The user or the password is not right"), hint=msg("An admin can set a new password.")
            )
        self._throttle.succeeded(attempt)
        if found is None or found.disabled:
            raise disabled_account()
        return user

    async def _matches(self, hashed: str | None, password: str, attempt: LoginAttempt) -> bool:
        with self._throttle.checking(attempt):
            return await self._passwords.verify(hashed, password, user=attempt.user, client=attempt.client)

    async def password_mark(self, user: str) -> str | None:
        """Another one for each password that the user has had; None for a user who may not come in."""
        hashed = await self._store.read(_hash_of, user)
        return None if hashed is None else _mark(hashed)

    async def issue_device(self, user: str, previous: str = "") -> str:
        """A device token for a client that has just logged in; empty where it gets none (see LoginDevices)."""
        mark = await self.password_mark(user)
        return "" if mark is None else self._devices.issue_token(user, mark, previous)

    async def logout(self, text: str) -> None:
        """The token that was used to ask is ended."""
        known = await self._access.known(text)
        await self._store.write(_ended(known.token), token_rows.delete_token, known.token.id)
        self._access.forget()

    async def end_logins(self, actor: Actor, *, keep: str | None = None) -> int:
        """All logins of one's own, in browsers and elsewhere; `keep` is the text of one that stays. How many ended.
        Tokens for programs stay."""
        kept = (await self._access.known(keep)).token.id if keep else ""
        deed = AuditEntry(
            actor=actor.name, kind=AuditKind.LOGIN, act=Act.ENDED, subject=actor.name, detail={"all": True}
        )
        ended = await self._store.write(deed, _end_logins, actor.name, kept)
        self._access.forget()
        return ended

    async def list(self, actor: Actor, user: str | None = None) -> list[Token]:
        """One's own; for admins those of all users, or of one."""
        if not actor.admin and user not in (None, actor.name):
            raise Forbidden(msg("Only admins see the tokens of others"))
        return await self._store.read(_list, user if actor.admin else actor.name)

    async def summary(self, actor: Actor) -> TokenCounts:
        """How many of one's own are good now."""
        now = self._clock()
        found = await self._store.read(token_rows.list_tokens, actor.name)
        kinds = [kind_of(token.id) for token in found if token.expires_at is None or token.expires_at > now]
        return TokenCounts(logins=kinds.count(Kind.LOGIN), programs=kinds.count(Kind.API))

    async def create(
        self, actor: Actor, *, name: str, expires_in: timedelta | None = None, user: str | None = None
    ) -> NewToken:
        owner = user or actor.name
        if owner != actor.name and not actor.admin:
            raise Forbidden(msg("Only admins make tokens for others"), field="user")
        if expires_in is not None and expires_in > MAX_LIFETIME:
            raise UserError(
                msg("A token lasts at most {days} days, or for ever", days=MAX_LIFETIME.days), field="expires_in"
            )
        check_text(name, "name")
        deed = AuditEntry(
            actor=actor.name,
            kind=AuditKind.TOKEN,
            act=Act.CREATED,
            subject=owner,
            detail={"name": name, "expires_in": expires_in},
        )
        return await self._make(deed, Kind.API, owner, name, expires_in)

    async def delete(self, actor: Actor, token_id: str) -> None:
        """One's own, or for admins anybody's."""
        found = await self._store.read(token_rows.token_user, token_id)
        if found is None or not (actor.admin or found[1].user == actor.name):
            raise NotFound(msg("There is no token {token_id}", token_id=token_id[:100]))
        token = found[1]
        deed = AuditEntry(
            actor=actor.name,
            kind=AuditKind.TOKEN,
            act=Act.REMOVED,
            subject=token.user,
            detail={"name": token.name, "id": token.id},
        )
        await self._store.write(deed, token_rows.delete_token, token_id)
        self._access.forget()

    async def sweep(self) -> int:
        """Remove tokens that ended long ago; how many. Until then lists show that they have."""
        return await self._store.write_quietly(token_rows.delete_expired, self._clock() - SHOWN_AFTER_END)

    async def local_token(self) -> str:
        """A new token of an admin for the command line on this machine; the one made before is ended."""
        minted = mint(Kind.MACHINE)
        admin = _some_admin(await self._store.read(people.list_users))
        token = Token(
            id=minted.id, user=admin, name=MACHINE_TOKEN, created_at=self._clock(), expires_at=None, last_used_at=None
        )
        await self._store.write_quietly(_replace_machine_token, token, minted.secret_hash)
        self._access.forget()
        return minted.text

    async def _make(self, deed: AuditEntry, kind: Kind, user: str, name: str, expires_in: timedelta | None) -> NewToken:
        minted = mint(kind)
        now = self._clock()
        token = Token(
            id=minted.id,
            user=user,
            name=name,
            created_at=now,
            expires_at=now + expires_in if expires_in is not None else None,
            last_used_at=None,
        )
        make = _begin if kind is Kind.LOGIN else _create
        if await self._store.write(deed, make, token, minted.secret_hash):
            self._access.forget()
        return NewToken(token, minted.text)


def _ended(token: Token) -> AuditEntry:
    """A login, or a token that a program gave back."""
    is_login = kind_of(token.id) is Kind.LOGIN
    kind, act = (AuditKind.LOGIN, Act.ENDED) if is_login else (AuditKind.TOKEN, Act.REMOVED)
    return AuditEntry(
        actor=token.user, kind=kind, act=act, subject=token.user, detail={} if is_login else {"name": token.name}
    )


def _end_logins(conn: Connection, user: str, kept: str) -> int:
    return token_rows.delete_tokens_like(conn, user, Kind.LOGIN.value, keep=kept)


def _begin(conn: Connection, token: Token, secret_hash: str) -> int:
    """How many logins ended for it."""
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)
    return token_rows.delete_least_used(conn, token.user, Kind.LOGIN.value, MAX_LOGINS)


def _create(conn: Connection, token: Token, secret_hash: str) -> int:
    """Where there are too many, those that ended make room: they are kept to be seen, and nothing else."""
    if _has_too_many(conn, token.user):
        token_rows.delete_expired(conn, token.created_at, token.user)
    if _has_too_many(conn, token.user):
        raise Conflict(
            msg("{user} has {most_tokens} tokens already", user=token.user, most_tokens=MAX_TOKENS),
            hint=msg("End those that nobody uses: `holdfast token ls`."),
        )
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)
    return 0


def _has_too_many(conn: Connection, user: str) -> bool:
    return token_rows.count_tokens_like(conn, user, Kind.API.value) >= MAX_TOKENS


def _with_hash(conn: Connection, user: str) -> tuple[User | None, str | None]:
    return people.get_user(conn, user), people.password_hash(conn, user)


def _hash_of(conn: Connection, user: str) -> str | None:
    """None for a user who may not come in; empty for one who has no password."""
    found = people.get_user(conn, user)
    return None if found is None or found.disabled else people.password_hash(conn, user) or ""


def _mark(hashed: str | None) -> str:
    return hashlib.sha256((hashed or "").encode()).hexdigest()


def _list(conn: Connection, user: str | None) -> list[Token]:
    owners = [user] if user is not None else [found.name for found in people.list_users(conn)]
    return [token for owner in owners for token in token_rows.list_tokens(conn, owner)]


def _replace_machine_token(conn: Connection, token: Token, secret_hash: str) -> None:
    for user in people.list_users(conn):
        end_tokens(conn, user.name, Kind.MACHINE)
    token_rows.create_token(conn, token=token, secret_hash=secret_hash)


def _some_admin(users: list[User]) -> str:
    """The first of those who may come in."""
    for user in users:
        if user.admin and not user.disabled:
            return user.name
    raise UserError(msg("There is no admin who is not disabled"))


def _could_be(user: str, password: str) -> bool:
    return len(user) <= 200 and "\0" not in user and len(password) <= MAX_LENGTH
