"""Users: who may come in, and with which rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, Forbidden
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.messages import msg
from holdfast.core.records import Group, User
from holdfast.engines.base import Engine, Isolation
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store import schedules as schedule_rows

from ..audit import AuditedStore, AuditEntry, given
from ..name_suggestions import need_group, no_user
from ..names import MAX_EMAIL_LENGTH, check_text, check_user_name
from ..unfinished_jobs import has_unfinished
from .access_tokens import AccessTokens, Kind, end_tokens
from .extensions import check_extension, merge
from .login_throttle import LoginThrottle
from .passwords import Passwords, check_password, generate_password
from .ssh_keys import refuse_others_keys

FIRST_ADMIN = "admin"
MAX_PREFERENCE_LENGTH = 100
MAX_PREFERENCES = 20
PRIMEHUB = "primehub"  # in an extension: first and last name, as PrimeHub's clients keep them


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """None: as it was."""

    email: str | None = None
    admin: bool | None = None
    disabled: bool | None = None
    password: str | None = None
    groups: frozenset[str] | None = None  # beside the default group, which is never left
    standing: Mapping[str, bool] | None = None  # group -> is its admin: in these and no others
    extension: Mapping[str, Any] | None = None  # merged key by key
    replace_extension: bool = False


NO_CHANGE = UserChange()


class Users:
    def __init__(
        self,
        store: AuditedStore,
        engine: Engine,
        settings: Settings,
        access: AccessTokens,
        passwords: Passwords,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._engine = engine
        self._settings = settings
        self._access = access
        self._passwords = passwords
        self._clock = clock
        self._throttle = LoginThrottle(monotonic)

    # -- the first start

    async def ensure_first_admin(self) -> str | None:
        """On an empty store: make user `admin` and return the password, this once. Else None."""
        if await self._store.read(people.list_users):
            return None
        password = generate_password()
        hashed = await self._passwords.hash(password, user=FIRST_ADMIN)
        made = await self._store.write_quietly(_make_first, hashed, self._clock())
        return password if made else None

    # -- looking

    async def list(self, actor: Actor) -> list[User]:
        """All, for admins and where everybody reads everything; oneself, for others."""
        if not _sees_all(actor):
            return [await self.get(actor, actor.name)]
        return list(await self._store.read(people.list_users))

    async def get(self, actor: Actor, name: str) -> User:
        user = await self._store.read(people.get_user, name) if _sees_all(actor) or actor.name == name else None
        if user is None:
            known = await self._store.read(people.list_users) if _sees_all(actor) else ()
            raise no_user(name, [other.name for other in known])
        return user

    async def preferences(self, actor: Actor) -> Mapping[str, str]:
        """What one chose for the portal: words of its own, kept with the user so that every browser has them."""
        return await self._store.read(people.user_preferences, actor.name)

    async def set_preferences(self, actor: Actor, changes: Mapping[str, str]) -> None:
        """Merged with those from before."""
        for key, value in changes.items():
            check_text(f"{key}{value}", "preferences", longest=MAX_PREFERENCE_LENGTH)
        await self._store.write_quietly(_prefer, actor.name, changes)

    async def by_group(self, actor: Actor) -> Mapping[str, Sequence[User]]:
        """Members of the groups one may see. What clients keep with a user is told of oneself and to admins alone."""
        return _grouped(await self._store.read(people.list_users), actor)

    # -- changing

    async def create(
        self,
        actor: Actor,
        *,
        name: str,
        password: str | None = None,
        email: str = "",
        admin: bool = False,
        groups: Mapping[str, bool] | None = None,
        extension: Mapping[str, Any] | None = None,
    ) -> User:
        _need_admin(actor)
        check_user_name(name)
        check_text(email, "email", longest=MAX_EMAIL_LENGTH)
        if password is not None:
            check_password(password, user=name)
        kept = merge({}, extension or {}, replace=True)
        check_extension(kept)
        self._refuse_company()
        hashed = await self._passwords.hash(password, user=name) if password is not None else None
        member_of = {DEFAULT_GROUP: False} if groups is None else dict(groups)
        user = User(name=name, admin=admin, email=email, created_at=self._clock(), groups=member_of, extension=kept)
        told = {"admin": admin, "groups": list(member_of)} | ({"email": email} if email else {})
        await self._store.write(_deed(actor, Act.CREATED, name, told), _create, user, hashed)
        self._access.forget()
        return user

    def _refuse_company(self) -> None:
        """Without isolation every job can read what the server can; others must not come in unasked."""
        health = self._engine.health()
        if self._settings.sandbox.isolation == "off":
            return
        if health.conditions:
            raise Conflict(
                msg("Whether this machine isolates jobs is not known yet, so no user can be added"),
                hint=msg("See `holdfast doctor` for the problem, and try again once it is resolved."),
            )
        if health.isolation is not Isolation.NONE:
            return
        raise Conflict(
            msg("This machine does not isolate jobs, so a second user could read everything of the first"),
            hint=msg(
                'See `holdfast doctor` for what is missing, or accept it: sandbox.isolation = "off" in the settings.'
            ),
        )

    async def change(
        self,
        actor: Actor,
        name: str,
        *,
        email: str | None = None,
        admin: bool | None = None,
        disabled: bool | None = None,
    ) -> User:
        """Admins change everything; anyone their own email."""
        return await self.update(actor, name, UserChange(email=email, admin=admin, disabled=disabled))

    async def update(self, actor: Actor, name: str, change: UserChange) -> User:
        """All of it or nothing. Admins change everything; anyone their own email and extension."""
        _check_change(actor, name, change)
        hashed = None
        if change.password is not None:
            check_password(change.password, user=name)
            hashed = await self._passwords.hash(change.password, user=name)
        user = await self._store.write(_deed_of(actor, name, change), _update, name, change, hashed)
        self._access.forget()
        return user

    async def extend(self, actor: Actor, name: str, changes: Mapping[str, Any], *, replace: bool = False) -> User:
        """What clients keep with a user: merged key by key, or replaced."""
        return await self.update(actor, name, UserChange(extension=changes, replace_extension=replace))

    async def delete(self, actor: Actor, name: str) -> None:
        """The user's tokens are dead at once; finished jobs keep the name."""
        _need_admin(actor)
        await self._store.write(_deed(actor, Act.REMOVED, name), _delete, name)
        self._access.forget()

    async def set_password(self, actor: Actor, name: str, password: str) -> None:
        """By an admin, for anyone. Ends the user's logins."""
        _need_admin(actor)
        await self.update(actor, name, UserChange(password=password))

    async def change_own_password(
        self, actor: Actor, old: str, new: str, address: str, also: UserChange = NO_CHANGE
    ) -> None:
        """Ends all of one's logins, also the one this came by; none when the new password is the old one. `also`: what
        else of oneself is changed with it, all of it or nothing.
        """
        _check_change(actor, actor.name, also)
        attempt = self._throttle.admit(actor.name, address)
        hashed = await self._store.read(people.password_hash, actor.name)
        with self._throttle.checking(attempt):
            matches = await self._passwords.verify(hashed, old, user=actor.name, client=attempt.client)
        if not matches:
            raise Forbidden(
                msg("The old password is not right"), field="old", hint=msg("An admin can set a new password.")
            )
        self._throttle.succeeded(attempt)
        hashed = None
        if new != old:
            check_password(new, "new", user=actor.name)
            hashed = await self._passwords.hash(new, user=actor.name)
        deed = _deed_of(actor, actor.name, replace(also, password="" if hashed else None))
        await self._store.write(deed, _update, actor.name, also, hashed)
        self._access.forget()


def _deed(actor: Actor, act: Act, name: str, detail: Mapping[str, Any] | None = None) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.USER, act=act, subject=name, detail=detail or {})


def _deed_of(actor: Actor, name: str, change: UserChange) -> AuditEntry:
    """A new password is a thing of its own, whatever else is changed with it."""
    deed = _deed(actor, Act.CHANGED, name, given(change))
    return deed if change.password is None else replace(deed, kind=AuditKind.PASSWORD)


def _grouped(users: Sequence[User], actor: Actor) -> Mapping[str, Sequence[User]]:
    every = _sees_all(actor)
    found: dict[str, list[User]] = {}
    for user in users:
        shown = user if every or user.name == actor.name else _named(user)
        for group in user.groups:
            if every or group in actor.groups:
                found.setdefault(group, []).append(shown)
    return found


def _named(user: User) -> User:
    """With what members of a group know of each other."""
    names = user.extension.get(PRIMEHUB)
    return replace(user, extension={} if names is None else {PRIMEHUB: names}, groups={})


def _sees_all(actor: Actor) -> bool:
    """Guests, who have no name, read jobs and nothing of people."""
    return actor.admin or (actor.reads_all and bool(actor.name))


def _check_change(actor: Actor, name: str, change: UserChange) -> None:
    if actor.name != name or _needs_admin(change):
        _need_admin(actor)
    if change.email is not None:
        check_text(change.email, "email", longest=MAX_EMAIL_LENGTH)
    if change.extension is not None:
        check_extension(merge({}, change.extension, replace=True))  # before it holds up the writer; and again there


def _needs_admin(change: UserChange) -> bool:
    wanted = (change.admin, change.disabled, change.password, change.groups, change.standing)
    return any(value is not None for value in wanted)


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage users"))


# -- within one write each


def _need(conn: Connection, name: str) -> User:
    """Of an admin's, or of oneself."""
    user = people.get_user(conn, name)
    if user is None:
        raise no_user(name, [other.name for other in people.list_users(conn)])
    return user


def _make_first(conn: Connection, hashed: str, now: datetime) -> bool:
    if people.list_users(conn):
        return False
    if people.get_group(conn, DEFAULT_GROUP) is None:
        people.create_group(conn, group=Group(name=DEFAULT_GROUP, description="Everybody"))
    first = User(name=FIRST_ADMIN, admin=True, email="", created_at=now, groups={DEFAULT_GROUP: True})
    people.create_user(conn, user=first, password_hash=hashed)
    return True


def _create(conn: Connection, user: User, hashed: str | None) -> None:
    people.create_user(conn, user=user, password_hash=hashed)
    refuse_others_keys(conn, user.name, user.extension, {}, "extension.sshKeys")
    if schedule_rows.any_of(conn, user=user.name):
        raise Conflict(
            msg("Schedules of an earlier user {name} are on record, and would run as the new one", name=user.name),
            field="name",
            hint=msg(
                "Remove them first: `holdfast schedule ls` lists them, and users can be disabled instead of removed."
            ),
        )


def _update(conn: Connection, name: str, change: UserChange, hashed: str | None) -> User:
    if change.admin is False or change.disabled is True:
        _keep_an_admin(conn, name)
    before = _need(conn, name)
    if change.groups is not None:
        _set_groups(conn, before, change.groups | {DEFAULT_GROUP})
    if change.standing is not None:
        _set_standing(conn, before, change.standing)
    if change.extension is not None:
        extension = merge(before.extension, change.extension, replace=change.replace_extension)
        check_extension(extension)
        refuse_others_keys(conn, name, extension, before.extension, "extension.sshKeys")
        people.set_user_extension(conn, name, extension)
    if hashed is not None:
        _set_password(conn, name, hashed)
    return people.update_user(conn, name, email=change.email, admin=change.admin, disabled=change.disabled)


def _prefer(conn: Connection, name: str, changes: Mapping[str, str]) -> None:
    after = {**people.user_preferences(conn, name), **changes}
    people.set_user_preferences(conn, name, dict(list(after.items())[:MAX_PREFERENCES]))


def _set_groups(conn: Connection, user: User, wanted: frozenset[str]) -> None:
    for group in sorted(user.groups.keys() - wanted):
        people.remove_member(conn, group, user.name)
    for group in sorted(wanted - user.groups.keys()):
        need_group(conn, group, "groups")
        people.set_member(conn, group, user.name, admin=False)


def _set_standing(conn: Connection, user: User, wanted: Mapping[str, bool]) -> None:
    for group in sorted(user.groups.keys() - wanted.keys()):
        people.remove_member(conn, group, user.name)
    for group, admin in sorted(wanted.items()):
        if user.groups.get(group) is not admin:
            need_group(conn, group, "groups")
            people.set_member(conn, group, user.name, admin=admin)


def _delete(conn: Connection, name: str) -> None:
    _keep_an_admin(conn, name)
    if has_unfinished(conn, user=name):
        raise Conflict(
            msg("{name} has jobs that are not finished", name=name), hint=msg("Stop them first, or disable the user.")
        )
    people.delete_user(conn, name)


def _set_password(conn: Connection, name: str, hashed: str) -> None:
    people.set_password_hash(conn, name, hashed)
    end_tokens(conn, name, Kind.LOGIN)


def _keep_an_admin(conn: Connection, name: str) -> None:
    _need(conn, name)
    others = [u for u in people.list_users(conn) if u.admin and not u.disabled and u.name != name]
    if not others:
        raise Conflict(msg("{name} is the last admin", name=name), hint=msg("Make another user an admin first."))
