"""One group: what it has in use, its MLflow, and what its admins change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound
from holdfast.core.job import GIB
from holdfast.core.records import Group, Mlflow
from holdfast.services.groups import GroupChange

from .call import Call, Info, call_of
from .errors import PhError, not_auth
from .people_shapes import EVERYONE, show_everyone, show_group
from .scalars import gigabytes

Shape = dict[str, Any]

query, mutation, group_type = QueryType(), MutationType(), ObjectType("Group")
BINDABLES = (query, mutation, group_type)

MLFLOW = ("trackingUri", "uiUrl", "trackingEnvs", "artifactEnvs")


@query.field("group")
async def get_group(_: Any, info: Info, where: Shape) -> Shape | None:
    """Null when there is none, or none that whoever asks may see."""
    call = call_of(info)
    if where["id"] == EVERYONE:
        return show_everyone()
    try:
        return show_group(await call.services.groups.get(call.actor, where["id"]))
    except NotFound:
        return None


@group_type.field("resourceStatus")
async def show_use(group: Shape, info: Info) -> Shape:
    call = call_of(info)
    capacity = await call.once("capacity", lambda: call.services.place.capacity(call.actor))
    for use in capacity.groups:
        if use.group == group["id"]:
            used = use.used
            return {"cpuUsage": used.cpu, "memUsage": round(used.memory / GIB, 1), "gpuUsage": used.gpu}
    return {"cpuUsage": 0, "memUsage": 0, "gpuUsage": 0}


@group_type.field("resourceDetails")
async def show_details(group: Shape, info: Info) -> Shape:
    """A row for each user who has something in use."""
    call = call_of(info)
    capacity = await call.once("capacity", lambda: call.services.place.capacity(call.actor))
    users = next((use.users for use in capacity.groups if use.group == group["id"]), {})
    call.spend(len(users))
    rows = [
        {"name": f"jobs of {user}", "type": "job", "user": user, **_amounts(used)}
        for user, used in sorted(users.items())
    ]
    return {"details": rows}


def _amounts(used: Any) -> Shape:
    return {"cpu": used.cpu, "mem": gigabytes(used.memory), "gpu": used.gpu}


# -- MLflow


@group_type.field("mlflow")
async def mlflow_of_group(group: Shape, info: Info) -> Shape | None:
    call = call_of(info)
    return None if group["_group"] is None else await _mlflow(call, group["id"])


@query.field("mlflow")
async def get_mlflow(_: Any, info: Info, where: Shape) -> Shape | None:
    try:
        return await _mlflow(call_of(info), where["group"])
    except NotFound:
        return None


async def _mlflow(call: Call, group: str) -> Shape | None:
    found = await call.services.groups.mlflow(call.actor, group)
    if found is None:
        return None
    return {
        "trackingUri": found.tracking_uri,
        "uiUrl": found.ui_url,
        "trackingEnvs": _variables(found.tracking_envs),
        "artifactEnvs": _variables(found.artifact_envs),
    }


def _variables(given: Mapping[str, str]) -> list[Shape]:
    return [{"name": name, "value": value} for name, value in given.items()]


# -- changing


@mutation.field("updateGroup")
async def update_group(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, name = call_of(info), where["id"]
    if not may(call.actor, Verb.MANAGE_GROUP, name):
        raise not_auth()
    group = await call.services.groups.get(call.actor, name)
    await change_group(call, group, data)
    return show_group(await call.services.groups.get(call.actor, name))


async def change_group(call: Call, group: Group, data: Shape) -> None:
    """What is not given stays."""
    change = read_change(group, data)
    if change != GroupChange():
        await call.services.groups.change(call.actor, group.name, change)
    await change_members(call, group, data)
    if any(name in data for name in MLFLOW):
        await _change_mlflow(call, group.name, data)


def read_change(group: Group, data: Shape) -> GroupChange:
    change = GroupChange()
    if "jobDefaultActiveDeadlineSeconds" in data:
        given = data["jobDefaultActiveDeadlineSeconds"]
        change = replace(change, time_limit=None if given is None else timedelta(seconds=given))
    return change


async def change_members(call: Call, group: Group, data: Shape) -> None:
    """`admins` names all admins of the group; with nobody new, those who are taken in are no admins."""
    groups, relation = call.services.groups, data.get("users") or {}
    admins = _admins(group, data.get("admins"))
    leaving = [each["id"] for each in relation.get("disconnect") or ()]
    coming = [each["id"] for each in relation.get("connect") or ()]
    wanted = {name: name in admins for name in (*group.members, *coming) if name not in leaving}
    strangers = admins - set(wanted) - set(leaving)
    if strangers:
        raise PhError(f"Only members can be admins of {group.name}: {', '.join(sorted(strangers))[:200]}")
    for name, admin in wanted.items():
        if group.members.get(name) is not admin:
            await groups.set_member(call.actor, group.name, name, admin=admin)
    for name in leaving:
        if name in group.members:
            await groups.remove_member(call.actor, group.name, name)


def _admins(group: Group, text: str | None) -> set[str]:
    if text is None:
        return {name for name, admin in group.members.items() if admin}
    return {name.strip() for name in text.split(",") if name.strip()}


async def _change_mlflow(call: Call, group: str, data: Shape) -> None:
    """Without an address of the tracking server there is none."""
    now = await call.services.groups.mlflow(call.actor, group)
    uri = data.get("trackingUri", now.tracking_uri if now else None)
    made = None
    if uri:
        made = Mlflow(
            tracking_uri=uri,
            ui_url=data.get("uiUrl", now.ui_url if now else "") or "",
            tracking_envs=_read_variables(data, "trackingEnvs", now.tracking_envs if now else {}),
            artifact_envs=_read_variables(data, "artifactEnvs", now.artifact_envs if now else {}),
        )
    await call.services.groups.set_mlflow(call.actor, group, made)


def _read_variables(data: Shape, name: str, now: Mapping[str, str]) -> Mapping[str, str]:
    if name not in data:
        return now
    given: Sequence[Shape] = data[name] or ()
    return {each["name"]: each.get("value") or "" for each in given}
