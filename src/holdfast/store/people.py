"""Users, groups and who is in which."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from holdfast.core.access import usual_group
from holdfast.core.codec import hold_from_json, hold_to_json
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg, noun
from holdfast.core.records import Group, Mlflow, User
from holdfast.core.scheduling.placement import Quota

from .connections import vault_of
from .rows import duration_micros, instant, micros, storable, to_json
from .tables import groups, memberships, users

USUAL_GROUP = "usual_group"  # its name among a user's preferences

# -- users


def create_user(conn: Connection, *, user: User, password_hash: str | None) -> None:
    """With its memberships; Conflict when the name is taken, NotFound when a group is missing."""
    if get_user(conn, user.name) is not None:
        raise Conflict(msg("There is a user {name} already", name=user.name), field="name")
    values = {
        "name": user.name,
        "admin": user.admin,
        "email": user.email,
        "password_hash": password_hash,
        "created_at": micros(user.created_at),
        "disabled": user.disabled,
        "extension_json": _extension_json(user.extension),
    }
    conn.execute(insert(users), values)
    for group, admin in user.groups.items():
        _put_member(conn, group, user.name, admin=admin)


def get_user(conn: Connection, name: str) -> User | None:
    row = conn.execute(select(users).where(users.c.name == storable(name))).one_or_none()
    if row is None:
        return None
    joined = conn.execute(select(memberships).where(memberships.c.user_name == row.name))
    return user_of(row, {member.group_name: member.admin for member in joined})


def list_users(conn: Connection) -> list[User]:
    joined = _nested(conn, memberships.c.user_name, memberships.c.group_name)
    rows = conn.execute(select(users).order_by(users.c.name))
    return [user_of(row, joined.get(row.name, {})) for row in rows]


def update_user(
    conn: Connection,
    name: str,
    *,
    admin: bool | None = None,
    email: str | None = None,
    disabled: bool | None = None,
) -> User:
    """Change what is not None."""
    values = {"admin": admin, "email": email, "disabled": disabled}
    _update(conn, "user", users, name, {key: value for key, value in values.items() if value is not None})
    changed = get_user(conn, name)
    assert changed is not None
    return changed


def delete_user(conn: Connection, name: str) -> None:
    """With memberships and tokens. Jobs stay, under the name."""
    if not conn.execute(delete(users).where(users.c.name == storable(name))).rowcount:
        raise _no("user", name)


def password_hash(conn: Connection, name: str) -> str | None:
    """None when there is no such user, or no password."""
    found: str | None = conn.scalar(select(users.c.password_hash).where(users.c.name == storable(name)))
    return found


def set_password_hash(conn: Connection, name: str, hash: str | None) -> None:
    _update(conn, "user", users, name, {"password_hash": hash})


def set_user_extension(conn: Connection, name: str, extension: Mapping[str, Any]) -> None:
    """All of it: what is not in `extension` is gone."""
    _update(conn, "user", users, name, {"extension_json": _extension_json(extension)})


def user_preferences(conn: Connection, name: str) -> dict[str, str]:
    """Empty also when there is no such user."""
    found = conn.scalar(select(users.c.preferences_json).where(users.c.name == storable(name)))
    return json.loads(found) if found else {}


def set_user_preferences(conn: Connection, name: str, preferences: Mapping[str, str]) -> None:
    _update(conn, "user", users, name, {"preferences_json": to_json(dict(preferences)) if preferences else None})


# -- groups


def create_group(conn: Connection, *, group: Group) -> None:
    """With its members; Conflict when the name is taken, NotFound when a user is missing."""
    if get_group(conn, group.name) is not None:
        raise Conflict(msg("There is a group {name} already", name=group.name), field="name")
    values = {"name": group.name, **_group_values(group), "extension_json": _extension_json(group.extension)}
    conn.execute(insert(groups), values)
    for user, admin in group.members.items():
        set_member(conn, group.name, user, admin=admin)


def get_group(conn: Connection, name: str) -> Group | None:
    row = conn.execute(select(groups).where(groups.c.name == storable(name))).one_or_none()
    if row is None:
        return None
    joined = conn.execute(select(memberships).where(memberships.c.group_name == row.name))
    return _group_of(row, {member.user_name: member.admin for member in joined})


def list_groups(conn: Connection) -> list[Group]:
    joined = _nested(conn, memberships.c.group_name, memberships.c.user_name)
    rows = conn.execute(select(groups).order_by(groups.c.name))
    return [_group_of(row, joined.get(row.name, {})) for row in rows]


def update_group(conn: Connection, *, group: Group) -> None:
    """All but its members, who come and go one by one, and what clients keep with it."""
    _update(conn, "group", groups, group.name, _group_values(group))


def set_group_extension(conn: Connection, name: str, extension: Mapping[str, Any]) -> None:
    """All of it: what is not in `extension` is gone."""
    _update(conn, "group", groups, name, {"extension_json": _extension_json(extension)})


def group_mlflow(conn: Connection, name: str) -> Mlflow | None:
    """None also when there is no such group."""
    sealed = conn.scalar(select(groups.c.mlflow).where(groups.c.name == storable(name)))
    if sealed is None:
        return None
    return Mlflow(**json.loads(vault_of(conn).unseal(bytes(sealed), about=_about_mlflow(name))))


def set_group_mlflow(conn: Connection, name: str, mlflow: Mlflow | None) -> None:
    sealed = None
    if mlflow is not None:
        plain = {key: getattr(mlflow, key) for key in ("tracking_uri", "ui_url")}
        plain |= {key: dict(getattr(mlflow, key)) for key in ("tracking_envs", "artifact_envs")}
        sealed = vault_of(conn).seal(to_json(plain).encode(), about=_about_mlflow(name))
    _update(conn, "group", groups, name, {"mlflow": sealed})


def _about_mlflow(group: str) -> str:
    return msg("the MLflow of group {group}", group=group)


def delete_group(conn: Connection, name: str) -> None:
    """With memberships. Jobs stay, under the name."""
    if not conn.execute(delete(groups).where(groups.c.name == storable(name))).rowcount:
        raise _no("group", name)


def set_member(conn: Connection, group: str, user: str, *, admin: bool) -> None:
    """Into the group, or another standing in it. The user's usual group stays what it was."""
    before = get_user(conn, user)
    if before is None:
        raise _no("user", user)
    _put_member(conn, group, user, admin=admin)
    usual = usual_group(before.groups, before.usual_group) if before.groups else ""
    if usual and usual_group({*before.groups, group}, before.usual_group) != usual:
        set_user_preferences(conn, user, {**user_preferences(conn, user), USUAL_GROUP: usual})


def _put_member(conn: Connection, group: str, user: str, *, admin: bool) -> None:
    if get_group(conn, group) is None:
        raise _no("group", group)
    remove_member(conn, group, user)
    conn.execute(insert(memberships), {"user_name": user, "group_name": group, "admin": admin})


def remove_member(conn: Connection, group: str, user: str) -> bool:
    """Whether there was anything to remove."""
    here = (memberships.c.group_name == storable(group)) & (memberships.c.user_name == storable(user))
    return bool(conn.execute(delete(memberships).where(here)).rowcount)


# -- rows


def user_of(row: Row[Any], joined: Mapping[str, bool]) -> User:
    return User(
        name=row.name,
        admin=row.admin,
        email=row.email,
        created_at=instant(row.created_at),
        groups=dict(sorted(joined.items())),
        disabled=row.disabled,
        extension=_extension(row),
        usual_group=json.loads(row.preferences_json).get(USUAL_GROUP, "") if row.preferences_json else "",
    )


def _group_of(row: Row[Any], members: Mapping[str, bool]) -> Group:
    return Group(
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        quota=Quota(cpu=row.quota_cpu, memory=row.quota_memory, gpu=row.quota_gpu),
        user_quota=Quota(cpu=row.user_quota_cpu, memory=row.user_quota_memory, gpu=row.user_quota_gpu),
        time_limit=None if row.time_limit is None else timedelta(microseconds=row.time_limit),
        members=dict(sorted(members.items())),
        shared_volume=row.shared_volume,
        volume_capacity=row.volume_capacity,
        launch_only=row.launch_only,
        home_symlink=row.home_symlink,
        hold=hold_from_json(json.loads(row.hold_json)) if row.hold_json else None,
        extension=_extension(row),
    )


def _group_values(group: Group) -> dict[str, Any]:
    return {
        "display_name": group.display_name,
        "description": group.description,
        "quota_cpu": group.quota.cpu,
        "quota_memory": group.quota.memory,
        "quota_gpu": group.quota.gpu,
        "user_quota_cpu": group.user_quota.cpu,
        "user_quota_memory": group.user_quota.memory,
        "user_quota_gpu": group.user_quota.gpu,
        "time_limit": None if group.time_limit is None else duration_micros(group.time_limit),
        "shared_volume": group.shared_volume,
        "volume_capacity": group.volume_capacity,
        "launch_only": group.launch_only,
        "home_symlink": group.home_symlink,
        "hold_json": to_json(hold_to_json(group.hold)) if group.hold else None,
    }


def _extension_json(extension: Mapping[str, Any]) -> str | None:
    return to_json(dict(extension)) if extension else None


def _extension(row: Row[Any]) -> dict[str, Any]:
    return json.loads(row.extension_json) if row.extension_json else {}


def _nested(conn: Connection, outer: Any, inner: Any) -> dict[str, dict[str, bool]]:
    """All memberships: outer name -> inner name -> is admin."""
    nested: dict[str, dict[str, bool]] = {}
    rows: Iterable[Any] = conn.execute(select(outer, inner, memberships.c.admin))
    for name, member, admin in rows:
        nested.setdefault(name, {})[member] = admin
    return nested


def _update(conn: Connection, kind: str, table: Any, name: str, values: dict[str, Any]) -> None:
    if not values:
        return
    if not conn.execute(update(table).where(table.c.name == storable(name)).values(values)).rowcount:
        raise _no(kind, name)


def _no(kind: str, name: str) -> NotFound:
    return NotFound(msg("There is no {kind} {name}", kind=noun(kind), name=name))
