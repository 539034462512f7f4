"""Users, groups and memberships."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from holdfast.core.access import choose_default_group
from holdfast.core.codec import hold_from_json, hold_to_json
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow, User
from holdfast.core.scheduling.placement import Quota

from .connections import get_vault
from .mapping import record_from_row, record_to_row
from .named_table import NamedTable
from .rows import make_storable, to_json
from .tables import groups, memberships, users

USUAL_GROUP_KEY = "usual_group"  # key in a user's preferences


def _build_user_not_found_error(name: str) -> NotFound:
    return NotFound(msg("User {name} not found", name=name))


def _build_group_not_found_error(name: str) -> NotFound:
    return NotFound(msg("Group {name} not found", name=name))


_USER_TABLE = NamedTable(users, lambda name: msg("User {name} already exists", name=name), _build_user_not_found_error)
_GROUP_TABLE = NamedTable(
    groups, lambda name: msg("Group {name} already exists", name=name), _build_group_not_found_error
)

# -- users

delete_user = _USER_TABLE.delete_row  # with its memberships and tokens; its jobs are kept under its name


def create_user(conn: Connection, *, user: User, password_hash: str | None) -> None:
    """Create a user and its memberships; Conflict if the name is in use, NotFound if a group is missing."""
    _USER_TABLE.check_name_unused(conn, user.name)
    _USER_TABLE.insert_row(conn, record_to_row(user, users, password_hash=password_hash))
    for group, admin in user.groups.items():
        _upsert_member(conn, group, user.name, admin=admin)


def get_user(conn: Connection, name: str) -> User | None:
    row = _USER_TABLE.find_row(conn, name)
    if row is None:
        return None
    joined = conn.execute(select(memberships).where(memberships.c.user_name == row.name))
    return user_from_row(row, {member.group_name: member.admin for member in joined})


def list_users(conn: Connection) -> list[User]:
    joined = _load_memberships(conn, memberships.c.user_name, memberships.c.group_name)
    return [user_from_row(row, joined.get(row.name, {})) for row in _USER_TABLE.list_rows(conn)]


def update_user(
    conn: Connection, name: str, *, admin: bool | None = None, email: str | None = None, disabled: bool | None = None
) -> User:
    """Update the fields that are not None."""
    values = {"admin": admin, "email": email, "disabled": disabled}
    _USER_TABLE.update_row(conn, name, {key: value for key, value in values.items() if value is not None})
    changed = get_user(conn, name)
    assert changed is not None
    return changed


def load_password_hash(conn: Connection, name: str) -> str | None:
    """Return the hash; None if the user does not exist or has no password."""
    found: str | None = conn.scalar(select(users.c.password_hash).where(users.c.name == make_storable(name)))
    return found


def set_password_hash(conn: Connection, name: str, hash: str | None) -> None:
    _USER_TABLE.update_row(conn, name, {"password_hash": hash})


def set_user_extension(conn: Connection, name: str, extension: Mapping[str, Any]) -> None:
    """Replace all client data."""
    _USER_TABLE.update_row(conn, name, {"extension_json": _dump_extension(extension)})


def load_user_preferences(conn: Connection, name: str) -> dict[str, str]:
    """Return the preferences; empty if the user does not exist."""
    found = conn.scalar(select(users.c.preferences_json).where(users.c.name == make_storable(name)))
    return json.loads(found) if found else {}


def set_user_preferences(conn: Connection, name: str, preferences: Mapping[str, str]) -> None:
    _USER_TABLE.update_row(conn, name, {"preferences_json": to_json(dict(preferences)) if preferences else None})


# -- groups

delete_group = _GROUP_TABLE.delete_row  # with its memberships; its jobs are kept under its name


def create_group(conn: Connection, *, group: Group) -> None:
    """Create a group and its members; Conflict if the name is in use, NotFound if a user is missing."""
    _GROUP_TABLE.check_name_unused(conn, group.name)
    _GROUP_TABLE.insert_row(conn, _group_to_row(group))
    for user, admin in group.members.items():
        set_group_member(conn, group.name, user, admin=admin)


def get_group(conn: Connection, name: str) -> Group | None:
    row = _GROUP_TABLE.find_row(conn, name)
    if row is None:
        return None
    joined = conn.execute(select(memberships).where(memberships.c.group_name == row.name))
    return _group_from_row(row, {member.user_name: member.admin for member in joined})


def list_groups(conn: Connection) -> list[Group]:
    joined = _load_memberships(conn, memberships.c.group_name, memberships.c.user_name)
    return [_group_from_row(row, joined.get(row.name, {})) for row in _GROUP_TABLE.list_rows(conn)]


def update_group(conn: Connection, *, group: Group) -> None:
    """Update everything but the members, which are changed one by one, and client data."""
    changed = _group_to_row(group)
    del changed["extension_json"]
    _GROUP_TABLE.update_row(conn, group.name, changed)


def set_group_extension(conn: Connection, name: str, extension: Mapping[str, Any]) -> None:
    """Replace all client data."""
    _GROUP_TABLE.update_row(conn, name, {"extension_json": _dump_extension(extension)})


def load_group_mlflow(conn: Connection, name: str) -> Mlflow | None:
    """Return the MLflow settings; None also if the group does not exist."""
    sealed = conn.scalar(select(groups.c.mlflow).where(groups.c.name == make_storable(name)))
    if sealed is None:
        return None
    return Mlflow(**json.loads(get_vault(conn).unseal(bytes(sealed), about=_build_mlflow_context(name))))


def set_group_mlflow(conn: Connection, name: str, mlflow: Mlflow | None) -> None:
    sealed = None
    if mlflow is not None:
        plain = {key: getattr(mlflow, key) for key in ("tracking_uri", "ui_url")}
        plain |= {key: dict(getattr(mlflow, key)) for key in ("tracking_envs", "artifact_envs")}
        sealed = get_vault(conn).seal(to_json(plain).encode(), about=_build_mlflow_context(name))
    _GROUP_TABLE.update_row(conn, name, {"mlflow": sealed})


def _build_mlflow_context(group: str) -> str:
    return f"the MLflow of group {group}"  # never change it: stored values are bound to this text


def set_group_member(conn: Connection, group: str, user: str, *, admin: bool) -> None:
    """Add a member or change its admin flag. The user's default group is unchanged."""
    before = get_user(conn, user)
    if before is None:
        raise _build_user_not_found_error(user)
    _upsert_member(conn, group, user, admin=admin)
    usual = choose_default_group(before.groups, before.usual_group) if before.groups else ""
    if usual and choose_default_group({*before.groups, group}, before.usual_group) != usual:
        set_user_preferences(conn, user, {**load_user_preferences(conn, user), USUAL_GROUP_KEY: usual})


def _upsert_member(conn: Connection, group: str, user: str, *, admin: bool) -> None:
    if get_group(conn, group) is None:
        raise _build_group_not_found_error(group)
    remove_group_member(conn, group, user)
    conn.execute(insert(memberships), {"user_name": user, "group_name": group, "admin": admin})


def remove_group_member(conn: Connection, group: str, user: str) -> bool:
    """Remove a member; return whether it was one."""
    here = (memberships.c.group_name == make_storable(group)) & (memberships.c.user_name == make_storable(user))
    return bool(conn.execute(delete(memberships).where(here)).rowcount)


# -- rows


def user_from_row(row: Row[Any], joined: Mapping[str, bool]) -> User:
    usual = json.loads(row.preferences_json).get(USUAL_GROUP_KEY, "") if row.preferences_json else ""
    return record_from_row(User, row, groups=dict(sorted(joined.items())), usual_group=usual)


def _group_from_row(row: Row[Any], members: Mapping[str, bool]) -> Group:
    return record_from_row(
        Group,
        row,
        quota=Quota(cpu=row.quota_cpu, memory=row.quota_memory, gpu=row.quota_gpu),
        user_quota=Quota(cpu=row.user_quota_cpu, memory=row.user_quota_memory, gpu=row.user_quota_gpu),
        members=dict(sorted(members.items())),
        hold=hold_from_json(json.loads(row.hold_json)) if row.hold_json else None,
    )


def _group_to_row(group: Group) -> dict[str, Any]:
    quotas = {"quota": group.quota, "user_quota": group.user_quota}
    return record_to_row(
        group,
        groups,
        **{
            f"{name}_{kind}": getattr(quota, kind)
            for name, quota in quotas.items()
            for kind in ("cpu", "memory", "gpu")
        },
        hold_json=to_json(hold_to_json(group.hold)) if group.hold else None,
    )


def _dump_extension(extension: Mapping[str, Any]) -> str | None:
    return to_json(dict(extension)) if extension else None


def _load_memberships(conn: Connection, outer: Any, inner: Any) -> dict[str, dict[str, bool]]:
    """Load all memberships: outer name -> inner name -> is admin."""
    nested: dict[str, dict[str, bool]] = {}
    rows: Iterable[Any] = conn.execute(select(outer, inner, memberships.c.admin))
    for name, member, admin in rows:
        nested.setdefault(name, {})[member] = admin
    return nested
