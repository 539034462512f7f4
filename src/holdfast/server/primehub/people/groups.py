"""One group: what it has in use, its MLflow, and what its admins change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ariadne import MutationType, ObjectType, QueryType

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound
from holdfast.core.job import GIB
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import JobUse
from holdfast.services.people.group_rules import check_mlflow
from holdfast.services.people.groups import GroupChange

from ..errors import NOT_FOUND, PhError, not_auth
from ..graphql.call import Call, Info, call_of
from ..graphql.scalars import gigabytes
from .group_forms import read_change
from .relations import keep_name, related
from .shapes import EVERYONE, show_everyone, show_group

Shape = dict[str, Any]

query, mutation, group_type = QueryType(), MutationType(), ObjectType("Group")
BINDABLES = (query, mutation, group_type)

MAX_DETAILS = 500
MLFLOW = ("trackingUri", "uiUrl", "trackingEnvs", "artifactEnvs")


@query.field("group")
async def get_group(_: Any, info: Info, where: Shape) -> Shape | None:
    """Admins are told by null that there is none: their clients look for that. Others are refused, alike whether it is
    another's or nobody's: their clients look into whatever comes."""
    call = call_of(info)
    if where["id"] == EVERYONE:
        return show_everyone()
    try:
        return show_group(await call.services.groups.get(call.actor, where["id"]))
    except NotFound:
        if call.actor.admin:
            return None
        raise not_auth() from None


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
    """A row for each job that has something in use; of the first, where they are many."""
    call = call_of(info)
    uses = await call.once("jobs in use", lambda: call.services.place.jobs_in_use(call.actor))
    rows = uses.get(group["id"], ())[:MAX_DETAILS]
    call.spend(len(rows))
    return {"details": [_job_row(use) for use in rows]}


def _job_row(use: JobUse) -> Shape:
    return {
        "name": use.job,
        "type": "job",
        "user": use.user,
        "instanceType": ", ".join(use.instance_types) or None,
        "cpu": use.used.cpu,
        "mem": gigabytes(use.used.memory),
        "gpu": use.used.gpu,
    }


# -- MLflow


@group_type.field("mlflow")
async def mlflow_of_group(group: Shape, info: Info) -> Shape | None:
    call = call_of(info)
    if group["_group"] is None:
        return None
    return await call.once(("mlflow", group["id"]), lambda: _mlflow(call, group["id"]))


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
    """What is not given stays. What can be known to be wrong is found before anything is changed."""
    call, name = call_of(info), where["id"]
    if not may(call.actor, Verb.MANAGE_GROUP, name):
        raise not_auth()
    group = await need_group(call, name)
    keep_name(data, "name", name)
    change, (members, gone) = read_change(group, data), plan_members(group, data)
    await check_users(call, group, members)
    mlflow = await _read_mlflow(call, name, data)
    if change != GroupChange():
        await call.services.groups.change(call.actor, name, change)
    for user, admin in members.items():
        await call.services.groups.set_member(call.actor, name, user, admin=admin)
    for user in gone:
        await call.services.groups.remove_member(call.actor, name, user)
    if any(key in data for key in MLFLOW):
        await call.services.groups.set_mlflow(call.actor, name, mlflow)
    return show_group(await call.services.groups.get(call.actor, name))


async def need_group(call: Call, name: str) -> Group:
    if name == EVERYONE:
        raise PhError("everyone stands for all users: it cannot be changed or deleted")
    return await call.services.groups.get(call.actor, name)


def plan_members(group: Group, data: Shape) -> tuple[dict[str, bool], list[str]]:
    """Who comes or changes, and whether as an admin; who goes. `admins` names all admins of the group; without it
    those stay who are."""
    connect, disconnect = related(data, "users")
    admins = _admins(group, data.get("admins"))
    coming = [each["id"] for each in connect]
    leaving = [name for name in disconnect if name not in coming]
    wanted = {name: name in admins for name in (*group.members, *coming) if name not in leaving}
    outsiders = admins - set(wanted) - set(leaving)
    if outsiders:
        raise PhError(f"Only members can be admins of {group.name}: {', '.join(sorted(outsiders))[:200]}")
    changed = {name: admin for name, admin in wanted.items() if group.members.get(name) is not admin}
    return changed, [name for name in leaving if name in group.members]


async def check_users(call: Call, group: Group, names: Iterable[str]) -> None:
    for name in names:
        if name not in group.members and not await call.services.tokens.knows(name):
            raise PhError(f"There is no user {name[:100]}", NOT_FOUND)


def _admins(group: Group, text: str | None) -> set[str]:
    if text is None:
        return {name for name, admin in group.members.items() if admin}
    return {name.strip() for name in text.split(",") if name.strip()}


async def _read_mlflow(call: Call, group: str, data: Shape) -> Mlflow | None:
    """Without an address of the tracking server there is none."""
    if not any(key in data for key in MLFLOW):
        return None
    now = await call.services.groups.mlflow(call.actor, group)
    uri = data.get("trackingUri", now.tracking_uri if now else None)
    if not uri:
        return None
    made = Mlflow(
        tracking_uri=uri,
        ui_url=data.get("uiUrl", now.ui_url if now else "") or "",
        tracking_envs=_read_variables(data, "trackingEnvs", now.tracking_envs if now else {}),
        artifact_envs=_read_variables(data, "artifactEnvs", now.artifact_envs if now else {}),
    )
    check_mlflow(made)
    return made


def _read_variables(data: Shape, name: str, now: Mapping[str, str]) -> Mapping[str, str]:
    if name not in data:
        return now
    given: Sequence[Shape] = data[name] or ()
    return {each["name"]: each.get("value") or "" for each in given}
