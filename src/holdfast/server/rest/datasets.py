"""/datasets, the groups they are granted to, and what only some kinds have."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import datasets as api
from holdfast.api.pages import Items
from holdfast.core.access import Actor
from holdfast.core.records import Dataset
from holdfast.services import Services
from holdfast.services.datasets.service import DatasetChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body, get_sent_fields
from .views import show_dataset, show_git_state

router = rest_router("datasets")


@router.get("/datasets", response_model=Items[api.Dataset])
async def list_datasets(actor: Caller, services: Ask) -> Response:
    """All, for admins; those granted to them, for others."""
    return answer({"items": [await _show(actor, services, dataset) for dataset in await services.datasets.list(actor)]})


@router.post("/datasets", response_model=api.Dataset, status_code=201)
async def add_dataset(body: Body[api.NewDataset], actor: Caller, services: Ask) -> Response:
    """Admins only. A folder must be there, and what is kept is its real path; a volume is made; git is cloned in the
    background."""
    given = {"path": "", **get_sent_fields(body)}
    variables, adopt = given.pop("variables", None), given.pop("adopt", False)
    made = await services.datasets.create(actor, Dataset(**given), variables=variables, adopt=adopt)
    return answer(await _show(actor, services, made), 201)


@router.get("/datasets/{name}", response_model=api.Dataset)
async def show_one_dataset(name: str, actor: Caller, services: Ask) -> Response:
    return answer(await _show(actor, services, await services.datasets.get(actor, name)))


@router.patch("/datasets/{name}", response_model=api.Dataset)
async def change_dataset(name: str, body: Body[api.DatasetChange], actor: Caller, services: Ask) -> Response:
    """Admins only. What is given; jobs that were submitted before keep what they have."""
    change = DatasetChange(**get_sent_fields(body))
    return answer(await _show(actor, services, await services.datasets.change(actor, name, change)))


@router.delete("/datasets/{name}", status_code=204)
async def remove_dataset(name: str, actor: Caller, services: Ask, purge: bool = False) -> Response:
    """Admins only. The folder stays, and jobs that were submitted before keep it; with purge=true the data of a volume
    is removed, too."""
    await services.datasets.delete(actor, name, purge=purge)
    return answer_nothing()


@router.get("/datasets/{name}/variables", response_model=api.Variables)
async def show_variables(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only. Of the kind env, with their values."""
    return answer({"variables": await services.datasets.variables(actor, name)})


@router.post("/datasets/{name}/sync", response_model=api.GitState)
async def sync_dataset(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only. Of the kind git: bring it up to date. Answers when that is done, or after a minute, busy."""
    return answer(show_git_state(await services.datasets.sync(actor, name)))


@router.put("/datasets/{name}/groups/{group}", response_model=api.Dataset)
async def grant_dataset(name: str, group: str, actor: Caller, services: Ask, writable: bool = False) -> Response:
    """Admins only. With writable=true jobs of this group may write to it whatever read_only says."""
    return answer(await _show(actor, services, await services.datasets.grant(actor, name, group, writable)))


@router.delete("/datasets/{name}/groups/{group}", status_code=204)
async def revoke_dataset(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    await services.datasets.revoke(actor, name, group)
    return answer_nothing()


async def _show(actor: Actor, services: Services, dataset: Dataset) -> dict[str, Any]:
    return show_dataset(dataset, await services.datasets.git_state(dataset), paths=actor.admin)
