"""One group: its usage, its MLflow, and the changes of its admins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.access import Permission, has_permission
from holdfast.core.errors import NotFound
from holdfast.core.job import GIB
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import JobUsage
from holdfast.services.people.group_rules import check_mlflow
from holdfast.services.people.groups import GroupChange

from ..errors import PrimeHubError, build_not_auth_error, build_plain_not_found_error
from ..graphql.call import Call, Info, get_call
from ..graphql.scalars import to_gigabytes
from ..json_object import JsonObject
from .group_forms import parse_group_change
from .relations import check_name_unchanged, parse_relation
from .shapes import EVERYONE, everyone_to_json, group_to_json

query, mutation, group_type = QueryType(), MutationType(), ObjectType("Group")
BINDABLES = (query, mutation, group_type)

MAX_RESOURCE_DETAILS = 500
MLFLOW_FIELDS = ("trackingUri", "uiUrl", "trackingEnvs", "artifactEnvs")


@query.field("group")
async def get_group(_: Any, info: Info, where: JsonObject) -> JsonObject | None:
    """Return a group. For admins a missing group is null, as their clients expect. Others get an error, also for groups
    they cannot see."""
    call = get_call(info)
    if where["id"] == EVERYONE:
        return everyone_to_json()
    try:
        return group_to_json(await call.services.groups.get(call.actor, where["id"]))
    except NotFound:
        if call.actor.admin:
            return None
        raise build_not_auth_error() from None


@group_type.field("resourceStatus")
async def resolve_resource_status(group: JsonObject, info: Info) -> JsonObject:
    call = get_call(info)
    capacity = await call.load_once("capacity", lambda: call.services.installation.get_capacity(call.actor))
    for use in capacity.groups:
        if use.group == group["id"]:
            used = use.used
            return {"cpuUsage": used.cpu, "memUsage": round(used.memory / GIB, 1), "gpuUsage": used.gpu}
    return {"cpuUsage": 0, "memUsage": 0, "gpuUsage": 0}


@group_type.field("resourceDetails")
async def resolve_resource_details(group: JsonObject, info: Info) -> JsonObject:
    """Return a row for each job that uses resources; only the first, if there are many."""
    call = get_call(info)
    uses = await call.load_once("jobs in use", lambda: call.services.installation.get_job_usage_by_group(call.actor))
    rows = uses.get(group["id"], ())[:MAX_RESOURCE_DETAILS]
    call.spend_rows(len(rows))
    return {"details": [_usage_to_row(use) for use in rows]}


def _usage_to_row(use: JobUsage) -> JsonObject:
    return {
        "name": use.job,
        "type": "job",
        "user": use.user,
        "instanceType": ", ".join(use.instance_types) or None,
        "cpu": use.used.cpu,
        "mem": to_gigabytes(use.used.memory),
        "gpu": use.used.gpu,
    }


# -- MLflow


@group_type.field("mlflow")
async def resolve_group_mlflow(group: JsonObject, info: Info) -> JsonObject | None:
    call = get_call(info)
    if group["_group"] is None:
        return None
    return await call.load_once(("mlflow", group["id"]), lambda: _load_mlflow_json(call, group["id"]))


@query.field("mlflow")
async def get_mlflow(_: Any, info: Info, where: JsonObject) -> JsonObject | None:
    try:
        return await _load_mlflow_json(get_call(info), where["group"])
    except NotFound:
        return None


async def _load_mlflow_json(call: Call, group: str) -> JsonObject | None:
    found = await call.services.groups.get_mlflow(call.actor, group)
    if found is None:
        return None
    return {
        "trackingUri": found.tracking_uri,
        "uiUrl": found.ui_url,
        "trackingEnvs": _variables_to_list(found.tracking_envs),
        "artifactEnvs": _variables_to_list(found.artifact_envs),
    }


def _variables_to_list(given: Mapping[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in given.items()]


# -- mutations


@mutation.field("updateGroup")
async def update_group(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    """Update a group. Fields that are not given stay. All input is validated before anything changes."""
    call, name = get_call(info), where["id"]
    if not has_permission(call.actor, Permission.MANAGE_GROUP, name):
        raise build_not_auth_error()
    group = await require_group(call, name)
    check_name_unchanged(data, "name", name)
    change, (members, gone) = parse_group_change(group, data), plan_member_changes(group, data)
    await check_users_exist(call, group, members)
    mlflow = await _merge_mlflow_settings(call, name, data)
    if change != GroupChange():
        await call.services.groups.change(call.actor, name, change)
    for user, admin in members.items():
        await call.services.groups.set_member(call.actor, name, user, admin=admin)
    for user in gone:
        await call.services.groups.remove_member(call.actor, name, user)
    if any(key in data for key in MLFLOW_FIELDS):
        await call.services.groups.set_mlflow(call.actor, name, mlflow)
    return group_to_json(await call.services.groups.get(call.actor, name))


async def require_group(call: Call, name: str) -> Group:
    if name == EVERYONE:
        raise PrimeHubError("The group everyone contains all users and cannot be changed or deleted")
    return await call.services.groups.get(call.actor, name)


def plan_member_changes(group: Group, data: JsonObject) -> tuple[dict[str, bool], list[str]]:
    """Return the members to add or change, with their admin flag, and those to remove. `admins` lists all admins of the
    group; without it they do not change."""
    connect, disconnect = parse_relation(data, "users")
    admins = _parse_admins(group, data.get("admins"))
    coming = [each["id"] for each in connect]
    leaving = [name for name in disconnect if name not in coming]
    wanted = {name: name in admins for name in (*group.members, *coming) if name not in leaving}
    outsiders = admins - set(wanted) - set(leaving)
    if outsiders:
        raise PrimeHubError(f"Only members can be admins of {group.name}: {', '.join(sorted(outsiders))[:200]}")
    changed = {name: admin for name, admin in wanted.items() if group.members.get(name) is not admin}
    return changed, [name for name in leaving if name in group.members]


async def check_users_exist(call: Call, group: Group, names: Iterable[str]) -> None:
    for name in names:
        if name not in group.members and not await call.services.tokens.has_user(name):
            raise build_plain_not_found_error("User", name)


def _parse_admins(group: Group, text: str | None) -> set[str]:
    if text is None:
        return {name for name, admin in group.members.items() if admin}
    return {name.strip() for name in text.split(",") if name.strip()}


async def _merge_mlflow_settings(call: Call, group: str, data: JsonObject) -> Mlflow | None:
    """Return the stored settings with the given fields changed; None if no field or no tracking server URL is given."""
    if not any(key in data for key in MLFLOW_FIELDS):
        return None
    now = await call.services.groups.get_mlflow(call.actor, group)
    uri = data.get("trackingUri", now.tracking_uri if now else None)
    if not uri:
        return None
    made = Mlflow(
        tracking_uri=uri,
        ui_url=data.get("uiUrl", now.ui_url if now else "") or "",
        tracking_envs=_parse_variables(data, "trackingEnvs", now.tracking_envs if now else {}),
        artifact_envs=_parse_variables(data, "artifactEnvs", now.artifact_envs if now else {}),
    )
    check_mlflow(made)
    return made


def _parse_variables(data: JsonObject, name: str, now: Mapping[str, str]) -> Mapping[str, str]:
    if name not in data:
        return now
    given: Sequence[JsonObject] = data[name] or ()
    return {each["name"]: each.get("value") or "" for each in given}
