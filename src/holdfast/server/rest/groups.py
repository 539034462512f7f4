"""/groups and their members."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from holdfast.api import groups as api
from holdfast.api import resources
from holdfast.api.pages import ItemList
from holdfast.core.job import Hold, HoldScope
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.jobspec.holds import format_hold, parse_hold
from holdfast.services.people.groups import GroupChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty, respond_json
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import record_to_json

router = build_router("groups")

_MAX_DURATION = 1e9  # seconds; more is the same as no limit


@router.get("/groups", response_model=ItemList[api.Group])
async def list_groups(actor: Caller, services: ServicesDep) -> Response:
    """List all groups for admins; your own groups for other users."""
    return respond_json({"items": [_group_to_json(group) for group in await services.groups.list(actor)]})


@router.post("/groups", response_model=api.Group, status_code=201)
async def add_group(body: Body[api.NewGroup], actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    group = Group(**_convert_fields(get_sent_fields(body)))
    return respond_json(_group_to_json(await services.groups.create(actor, group)), 201)


@router.get("/groups/{name}", response_model=api.Group)
async def show_group(name: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_json(_group_to_json(await services.groups.get(actor, name)))


@router.patch("/groups/{name}", response_model=api.Group)
async def change_group(name: str, body: Body[api.GroupFields], actor: Caller, services: ServicesDep) -> Response:
    """For admins; admins of the group can change time limit and hold. Changes the given fields, a quota as a whole."""
    change = GroupChange(**_convert_fields(get_sent_fields(body, "time_limit", "volume_capacity", "hold")))
    return respond_json(_group_to_json(await services.groups.change(actor, name, change)))


@router.get("/groups/{name}/mlflow", response_model=api.Mlflow | None)
async def show_mlflow(name: str, actor: Caller, services: ServicesDep) -> Response:
    """For members; null if there are none. Only admins of the group see the values of variables."""
    found = await services.groups.get_mlflow(actor, name)
    return respond_json(None if found is None else record_to_json(api.Mlflow, found))


@router.put("/groups/{name}/mlflow", status_code=204)
async def set_mlflow(name: str, body: Body[api.MlflowChange], actor: Caller, services: ServicesDep) -> Response:
    """For admins of the group; applies to jobs that start from now on."""
    await services.groups.set_mlflow(actor, name, Mlflow(**get_sent_fields(body)))
    return respond_empty()


@router.delete("/groups/{name}/mlflow", status_code=204)
async def remove_mlflow(name: str, actor: Caller, services: ServicesDep) -> Response:
    """For admins of the group."""
    await services.groups.set_mlflow(actor, name, None)
    return respond_empty()


@router.delete("/groups/{name}", status_code=204)
async def remove_group(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only; rejected while the group has unfinished jobs."""
    await services.groups.delete(actor, name)
    return respond_empty()


@router.put("/groups/{name}/members/{user}", response_model=api.Group)
async def set_member(
    name: str, user: str, actor: Caller, services: ServicesDep, body: Body[api.Membership] | None = None
) -> Response:
    """For admins of the group."""
    admin = (body or {}).get("admin", False)
    return respond_json(_group_to_json(await services.groups.set_member(actor, name, user, admin=admin)))


@router.delete("/groups/{name}/members/{user}", status_code=204)
async def remove_member(name: str, user: str, actor: Caller, services: ServicesDep) -> Response:
    """For admins of the group."""
    await services.groups.remove_member(actor, name, user)
    return respond_empty()


def _group_to_json(group: Group) -> dict[str, Any]:
    return record_to_json(api.Group, group, hold=None if group.hold is None else format_hold(group.hold))


def _convert_fields(sent: dict[str, Any]) -> dict[str, Any]:
    """Convert the fields of a request to core types."""
    return {key: _FIELD_CONVERTERS[key](value) if key in _FIELD_CONVERTERS else value for key, value in sent.items()}


def _convert_quota(quota: resources.Quota) -> Quota:
    return Quota(cpu=quota.cpu, memory=quota.memory, gpu=quota.gpu)


def _convert_hold(word: str | None) -> Hold | None:
    """Convert a hold; "none" is the same as null."""
    hold = None if word is None else parse_hold(word)
    return None if hold is None or hold.keep is HoldScope.NOTHING else hold


def _convert_duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=min(seconds, _MAX_DURATION))


_FIELD_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "quota": _convert_quota,
    "user_quota": _convert_quota,
    "time_limit": _convert_duration,
    "hold": _convert_hold,
}
