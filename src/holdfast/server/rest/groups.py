"""/groups and their members."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from holdfast.api import groups as api
from holdfast.api import resources
from holdfast.api.pages import Items
from holdfast.core.job import Hold, Keep
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.jobspec.holds import parse_hold
from holdfast.services.people.groups import GroupChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body, get_sent_fields
from .views import show_group

router = rest_router("groups")

_MAX_LENGTH = 1e9  # seconds; more is as good as no limit


@router.get("/groups", response_model=Items[api.Group])
async def list_groups(actor: Caller, services: Ask) -> Response:
    """All, for admins; one's own, for others."""
    return answer({"items": [show_group(group) for group in await services.groups.list(actor)]})


@router.post("/groups", response_model=api.Group, status_code=201)
async def add_group(body: Body[api.NewGroup], actor: Caller, services: Ask) -> Response:
    """Admins only."""
    group = Group(**_convert_fields(get_sent_fields(body)))
    return answer(show_group(await services.groups.create(actor, group)), 201)


@router.get("/groups/{name}", response_model=api.Group)
async def show_one_group(name: str, actor: Caller, services: Ask) -> Response:
    return answer(show_group(await services.groups.get(actor, name)))


@router.patch("/groups/{name}", response_model=api.Group)
async def change_group(name: str, body: Body[api.GroupFields], actor: Caller, services: Ask) -> Response:
    """Admins; time limit and hold also by admins of the group. What is given; a quota is replaced as a whole."""
    change = GroupChange(**_convert_fields(get_sent_fields(body, "time_limit", "volume_capacity", "hold")))
    return answer(show_group(await services.groups.change(actor, name, change)))


@router.get("/groups/{name}/mlflow", response_model=api.Mlflow | None)
async def show_mlflow(name: str, actor: Caller, services: Ask) -> Response:
    """For members; null when there is none. Values of variables are told to admins of the group alone."""
    found = await services.groups.mlflow(actor, name)
    return answer(None if found is None else _show_mlflow(found))


@router.put("/groups/{name}/mlflow", status_code=204)
async def set_mlflow(name: str, body: Body[api.MlflowChange], actor: Caller, services: Ask) -> Response:
    """By an admin of the group; for jobs that start from now on."""
    await services.groups.set_mlflow(actor, name, Mlflow(**get_sent_fields(body)))
    return answer_nothing()


@router.delete("/groups/{name}/mlflow", status_code=204)
async def remove_mlflow(name: str, actor: Caller, services: Ask) -> Response:
    """By an admin of the group."""
    await services.groups.set_mlflow(actor, name, None)
    return answer_nothing()


@router.delete("/groups/{name}", status_code=204)
async def remove_group(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only, and only when none of its jobs is unfinished."""
    await services.groups.delete(actor, name)
    return answer_nothing()


@router.put("/groups/{name}/members/{user}", response_model=api.Group)
async def set_member(
    name: str, user: str, actor: Caller, services: Ask, body: Body[api.Membership] | None = None
) -> Response:
    """By an admin of the group."""
    admin = (body or {}).get("admin", False)
    return answer(show_group(await services.groups.set_member(actor, name, user, admin=admin)))


@router.delete("/groups/{name}/members/{user}", status_code=204)
async def remove_member(name: str, user: str, actor: Caller, services: Ask) -> Response:
    """By an admin of the group."""
    await services.groups.remove_member(actor, name, user)
    return answer_nothing()


def _show_mlflow(mlflow: Mlflow) -> dict[str, Any]:
    return {
        "tracking_uri": mlflow.tracking_uri,
        "ui_url": mlflow.ui_url,
        "tracking_envs": dict(mlflow.tracking_envs),
        "artifact_envs": dict(mlflow.artifact_envs),
    }


def _convert_fields(sent: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request as the core has them."""
    return {key: _CONVERTERS[key](value) if key in _CONVERTERS else value for key, value in sent.items()}


def _quota(quota: resources.Quota) -> Quota:
    return Quota(cpu=quota.cpu, memory=quota.memory, gpu=quota.gpu)


def _hold(word: str | None) -> Hold | None:
    """That none is held needs no saying."""
    hold = None if word is None else parse_hold(word)
    return None if hold is None or hold.keep is Keep.NOTHING else hold


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=min(seconds, _MAX_LENGTH))


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "quota": _quota,
    "user_quota": _quota,
    "time_limit": _duration,
    "hold": _hold,
}
