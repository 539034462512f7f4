"""/datasets, the groups they are granted to, and operations of some kinds."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import datasets as api
from holdfast.api.pages import ItemList
from holdfast.core.access import Actor
from holdfast.core.records import Dataset
from holdfast.services import Services
from holdfast.services.datasets.service import DatasetChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty, respond_json
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import record_to_json, respond_record

router = build_router("datasets")


@router.get("/datasets", response_model=ItemList[api.Dataset])
async def list_datasets(actor: Caller, services: ServicesDep) -> Response:
    """List all datasets for admins; those granted to them for other users."""
    return respond_json(
        {"items": [await _dataset_to_json(actor, services, dataset) for dataset in await services.datasets.list(actor)]}
    )


@router.post("/datasets", response_model=api.Dataset, status_code=201)
async def add_dataset(body: Body[api.NewDataset], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. A folder must exist, and its real path is stored; a volume is created; git is cloned in the
    background."""
    given = {"path": "", **get_sent_fields(body)}
    variables, adopt = given.pop("variables", None), given.pop("adopt", False)
    made = await services.datasets.create(actor, Dataset(**given), variables=variables, adopt=adopt)
    return respond_json(await _dataset_to_json(actor, services, made), 201)


@router.get("/datasets/{name}", response_model=api.Dataset)
async def show_dataset(name: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_json(await _dataset_to_json(actor, services, await services.datasets.get(actor, name)))


@router.patch("/datasets/{name}", response_model=api.Dataset)
async def change_dataset(name: str, body: Body[api.DatasetChange], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Change the given fields. Jobs that are already submitted do not change."""
    change = DatasetChange(**get_sent_fields(body))
    return respond_json(await _dataset_to_json(actor, services, await services.datasets.change(actor, name, change)))


@router.delete("/datasets/{name}", status_code=204)
async def remove_dataset(name: str, actor: Caller, services: ServicesDep, purge: bool = False) -> Response:
    """Admins only. The folder stays, also for jobs that are already submitted. With purge=true, the data of a volume is
    deleted."""
    await services.datasets.delete(actor, name, purge=purge)
    return respond_empty()


@router.get("/datasets/{name}/variables", response_model=api.DatasetVariables)
async def show_variables(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Variables and their values of a dataset of kind env."""
    return respond_json({"variables": await services.datasets.get_variables(actor, name)})


@router.post("/datasets/{name}/sync", response_model=api.GitState)
async def sync_dataset(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Update a dataset of kind git. Responds when done, or after a minute with state busy."""
    return respond_record(api.GitState, await services.datasets.sync_dataset(actor, name))


@router.put("/datasets/{name}/groups/{group}", response_model=api.Dataset)
async def grant_dataset(
    name: str, group: str, actor: Caller, services: ServicesDep, writable: bool = False
) -> Response:
    """Admins only. With writable=true, jobs of this group can write to it regardless of read_only."""
    return respond_json(
        await _dataset_to_json(actor, services, await services.datasets.grant(actor, name, group, writable))
    )


@router.delete("/datasets/{name}/groups/{group}", status_code=204)
async def revoke_dataset(name: str, group: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    await services.datasets.revoke(actor, name, group)
    return respond_empty()


async def _dataset_to_json(actor: Actor, services: Services, dataset: Dataset) -> dict[str, Any]:
    git = await services.datasets.get_git_state(dataset)
    sync = None if git is None else record_to_json(api.GitState, git)
    # Only admins have a use for the path.
    return record_to_json(api.Dataset, dataset, path=dataset.path if actor.admin else "", sync=sync)
