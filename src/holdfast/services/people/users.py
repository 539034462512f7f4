"""Users and their permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, Forbidden
from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.messages import msg
from holdfast.core.records import Group, User
from holdfast.engines.base import Engine, Isolation
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store import schedules as schedule_rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..name_suggestions import build_user_not_found_error, require_group
from ..names import MAX_EMAIL_LENGTH, check_text, check_user_name
from ..permissions import require_admin
from ..unfinished_jobs import has_unfinished_jobs
from .access_tokens import AccessTokens, TokenKind, delete_user_tokens
from .extensions import check_extension, merge_extension
from .login_throttle import LoginThrottle
from .passwords import Passwords, check_password, generate_password
from .ssh_keys import check_key_owners

ADMINS_ONLY_MESSAGE = msg("Only admins can manage users")
FIRST_ADMIN_NAME = "admin"
MAX_PREFERENCE_LENGTH = 100
MAX_PREFERENCES = 20
PRIMEHUB_KEY = "primehub"  # in an extension: first and last name, as PrimeHub's clients keep them


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """The fields to change; None: unchanged."""

    email: str | None = None
    admin: bool | None = None
    disabled: bool | None = None
    password: str | None = None
    groups: frozenset[str] | None = None  # in addition to the default group, which users always belong to
    standing: Mapping[str, bool] | None = None  # group -> is its admin; replaces all memberships
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

    async def ensure_first_admin(self) -> str | None:
        """On an empty database, create the user `admin` and return the password; else None."""
        if await self._store.read(people.list_users):
            return None
        password = generate_password()
        hashed = await self._passwords.hash_password(password, user=FIRST_ADMIN_NAME)
        created = await self._store.write_unaudited(_insert_first_admin, hashed, self._clock())
        return password if created else None

    # -- reading

    async def list(self, actor: Actor) -> list[User]:
        """Return the users that the actor can see; at least the actor."""
        if not _can_see_all_users(actor):
            return [await self.get(actor, actor.name)]
        return list(await self._store.read(people.list_users))

    async def get(self, actor: Actor, name: str) -> User:
        user = (
            await self._store.read(people.get_user, name) if _can_see_all_users(actor) or actor.name == name else None
        )
        if user is None:
            known = await self._store.read(people.list_users) if _can_see_all_users(actor) else ()
            raise build_user_not_found_error(name, [other.name for other in known])
        return user

    async def get_preferences(self, actor: Actor) -> Mapping[str, str]:
        """Return the actor's portal preferences, stored with the user so that every browser has them."""
        return await self._store.read(people.load_user_preferences, actor.name)

    async def update_preferences(self, actor: Actor, changes: Mapping[str, str]) -> None:
        for key, value in changes.items():
            check_text(f"{key}{value}", "preferences", longest=MAX_PREFERENCE_LENGTH)
        await self._store.write_unaudited(_merge_preferences, actor.name, changes)

    async def load_users_by_group(self, actor: Actor) -> Mapping[str, Sequence[User]]:
        """Return the members of the groups that the actor can see; extensions are only shown to the user and admins."""
        return _group_users(await self._store.read(people.list_users), actor)

    # -- writing

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
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_user_name(name)
        check_text(email, "email", longest=MAX_EMAIL_LENGTH)
        if password is not None:
            check_password(password, user=name)
        kept = merge_extension({}, extension or {}, replace=True)
        check_extension(kept)
        self._check_isolation()
        hashed = await self._passwords.hash_password(password, user=name) if password is not None else None
        member_of = {DEFAULT_GROUP: False} if groups is None else dict(groups)
        user = User(name=name, admin=admin, email=email, created_at=self._clock(), groups=member_of, extension=kept)
        detail = {"admin": admin, "groups": list(member_of)} | ({"email": email} if email else {})
        entry = AuditEntry(actor.name, AuditKind.USER, AuditAction.CREATED, name, detail)
        await self._store.write(entry, _insert_user, user, hashed)
        self._access.invalidate()
        return user

    def _check_isolation(self) -> None:
        """Reject further users without job isolation, because every job could read all files of the server."""
        health = self._engine.get_health()
        if self._settings.sandbox.isolation == "off":
            return
        if health.conditions:
            raise Conflict(
                msg("Users cannot be added yet, because job isolation on this server has not been verified"),
                hint=msg("Run `holdfast doctor` to see the problem, resolve it and try again."),
            )
        if health.isolation is not Isolation.NONE:
            return
        raise Conflict(
            msg("This server does not isolate jobs, so users could read each other's files"),
            hint=msg(
                "Run `holdfast doctor` to see what is missing, or accept the risk with the setting "
                'sandbox.isolation = "off".'
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
        """Change a user. Admins can change everything; users their own email."""
        return await self.apply_change(actor, name, UserChange(email=email, admin=admin, disabled=disabled))

    async def apply_change(self, actor: Actor, name: str, change: UserChange) -> User:
        """Change a user atomically. Admins can change everything; users their own email and extension."""
        _check_change(actor, name, change)
        hashed = None
        if change.password is not None:
            check_password(change.password, user=name)
            hashed = await self._passwords.hash_password(change.password, user=name)
        user = await self._store.write(_build_change_entry(actor, name, change), _update_user, name, change, hashed)
        self._access.invalidate()
        return user

    async def update_extension(
        self, actor: Actor, name: str, changes: Mapping[str, Any], *, replace: bool = False
    ) -> User:
        return await self.apply_change(actor, name, UserChange(extension=changes, replace_extension=replace))

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a user with all tokens; finished jobs keep the name."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.USER, AuditAction.REMOVED, name)
        await self._store.write(entry, _delete_user, name)
        self._access.invalidate()

    async def set_password(self, actor: Actor, name: str, password: str) -> None:
        """Set a user's password and delete the user's logins; admins only."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        await self.apply_change(actor, name, UserChange(password=password))

    async def change_own_password(
        self, actor: Actor, old: str, new: str, address: str, also: UserChange = NO_CHANGE
    ) -> None:
        """Delete all logins, unless the password is the same. `also`: other changes to apply atomically."""
        _check_change(actor, actor.name, also)
        attempt = self._throttle.admit_attempt(actor.name, address)
        hashed = await self._store.read(people.load_password_hash, actor.name)
        with self._throttle.guard_password_check(attempt):
            matches = await self._passwords.verify_password(hashed, old, user=actor.name, client=attempt.client)
        if not matches:
            raise Forbidden(
                msg("The old password is incorrect"), field="old", hint=msg("Ask an admin to set a new password.")
            )
        self._throttle.record_success(attempt)
        hashed = None
        if new != old:
            check_password(new, "new", user=actor.name)
            hashed = await self._passwords.hash_password(new, user=actor.name)
        entry = _build_change_entry(actor, actor.name, replace(also, password="" if hashed else None))
        await self._store.write(entry, _update_user, actor.name, also, hashed)
        self._access.invalidate()


def _build_change_entry(actor: Actor, name: str, change: UserChange) -> AuditEntry:
    """Build the audit entry of a change; a new password has its own kind."""
    kind = AuditKind.USER if change.password is None else AuditKind.PASSWORD
    return AuditEntry(actor.name, kind, AuditAction.CHANGED, name, collect_set_fields(change))


def _group_users(users: Sequence[User], actor: Actor) -> Mapping[str, Sequence[User]]:
    every = _can_see_all_users(actor)
    found: dict[str, list[User]] = {}
    for user in users:
        shown = user if every or user.name == actor.name else _hide_private_fields(user)
        for group in user.groups:
            if every or group in actor.groups:
                found.setdefault(group, []).append(shown)
    return found


def _hide_private_fields(user: User) -> User:
    """Return the user with only the fields that other members of a group can see."""
    names = user.extension.get(PRIMEHUB_KEY)
    return replace(user, extension={} if names is None else {PRIMEHUB_KEY: names}, groups={})


def _can_see_all_users(actor: Actor) -> bool:
    """Return whether the actor can see all users. Guests, who have no name, can only read jobs."""
    return actor.admin or (actor.can_read_all_jobs and bool(actor.name))


def _check_change(actor: Actor, name: str, change: UserChange) -> None:
    admin_fields = (change.admin, change.disabled, change.password, change.groups, change.standing)
    if actor.name != name or any(value is not None for value in admin_fields):
        require_admin(actor, ADMINS_ONLY_MESSAGE)
    if change.email is not None:
        check_text(change.email, "email", longest=MAX_EMAIL_LENGTH)
    if change.extension is not None:
        check_extension(merge_extension({}, change.extension, replace=True))  # early, to save writer time


# -- inside a write transaction


def _require_user(conn: Connection, name: str) -> User:
    """Load a user; for admins, or the user's own."""
    user = people.get_user(conn, name)
    if user is None:
        raise build_user_not_found_error(name, [other.name for other in people.list_users(conn)])
    return user


def _insert_first_admin(conn: Connection, hashed: str, now: datetime) -> bool:
    if people.list_users(conn):
        return False
    if people.get_group(conn, DEFAULT_GROUP) is None:
        people.create_group(conn, group=Group(name=DEFAULT_GROUP, description="Everybody"))
    first = User(name=FIRST_ADMIN_NAME, admin=True, email="", created_at=now, groups={DEFAULT_GROUP: True})
    people.create_user(conn, user=first, password_hash=hashed)
    return True


def _insert_user(conn: Connection, user: User, hashed: str | None) -> None:
    people.create_user(conn, user=user, password_hash=hashed)
    check_key_owners(conn, user.name, user.extension, {}, "extension.sshKeys")
    if schedule_rows.has_schedules(conn, user=user.name):
        raise Conflict(
            msg("Schedules of a deleted user {name} still exist and would run as the new user", name=user.name),
            field="name",
            hint=msg(
                "Delete them first. Run `holdfast schedule ls` to list them. You can also disable users "
                "instead of deleting them."
            ),
        )


def _update_user(conn: Connection, name: str, change: UserChange, hashed: str | None) -> User:
    if change.admin is False or change.disabled is True:
        _require_other_admin(conn, name)
    before = _require_user(conn, name)
    if change.groups is not None:
        requested = change.groups | {DEFAULT_GROUP}
        _replace_memberships(conn, before, {group: before.groups.get(group, False) for group in requested})
    if change.standing is not None:
        _replace_memberships(conn, before, change.standing)
    if change.extension is not None:
        extension = merge_extension(before.extension, change.extension, replace=change.replace_extension)
        check_extension(extension)
        check_key_owners(conn, name, extension, before.extension, "extension.sshKeys")
        people.set_user_extension(conn, name, extension)
    if hashed is not None:
        people.set_password_hash(conn, name, hashed)
        delete_user_tokens(conn, name, TokenKind.LOGIN)
    return people.update_user(conn, name, email=change.email, admin=change.admin, disabled=change.disabled)


def _merge_preferences(conn: Connection, name: str, changes: Mapping[str, str]) -> None:
    after = {**people.load_user_preferences(conn, name), **changes}
    people.set_user_preferences(conn, name, dict(list(after.items())[:MAX_PREFERENCES]))


def _replace_memberships(conn: Connection, user: User, wanted: Mapping[str, bool]) -> None:
    for group in sorted(user.groups.keys() - wanted.keys()):
        people.remove_group_member(conn, group, user.name)
    for group, admin in sorted(wanted.items()):
        if user.groups.get(group) is not admin:
            require_group(conn, group, "groups")
            people.set_group_member(conn, group, user.name, admin=admin)


def _delete_user(conn: Connection, name: str) -> None:
    _require_other_admin(conn, name)
    if has_unfinished_jobs(conn, user=name):
        raise Conflict(msg("{name} has unfinished jobs", name=name), hint=msg("Stop them first, or disable the user."))
    people.delete_user(conn, name)


def _require_other_admin(conn: Connection, name: str) -> None:
    _require_user(conn, name)
    others = [u for u in people.list_users(conn) if u.admin and not u.disabled and u.name != name]
    if not others:
        raise Conflict(msg("{name} is the last admin", name=name), hint=msg("Make another user an admin first."))
