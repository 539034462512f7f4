"""/datasets and the groups they are granted to."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from holdfast.core.records import Dataset
from holdfast.services.datasets import DatasetChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from . import models
from .views import show_dataset

router = APIRouter(tags=["datasets"])


@router.get("/datasets", response_model=models.DatasetListView)
async def list_datasets(actor: Caller, services: Ask) -> Response:
    """All, for admins; those granted to them, for others."""
    return answer({"items": [show_dataset(dataset) for dataset in await services.datasets.list(actor)]})


@router.post("/datasets", response_model=models.DatasetView, status_code=201)
async def add_dataset(body: models.NewDataset, actor: Caller, services: Ask) -> Response:
    """Admins only. The folder must be there; what is kept is its real path."""
    dataset = Dataset(
        name=body.name,
        path=body.path,
        description=body.description,
        read_only=body.read_only,
        everyone=body.everyone,
        groups=tuple(body.groups),
        per_user=body.per_user,
        default=body.default,
        kind=body.kind,
        data=body.data,
    )
    return answer(show_dataset(await services.datasets.create(actor, dataset)), 201)


@router.get("/datasets/{name}", response_model=models.DatasetView)
async def show_one_dataset(name: str, actor: Caller, services: Ask) -> Response:
    return answer(show_dataset(await services.datasets.get(actor, name)))


@router.patch("/datasets/{name}", response_model=models.DatasetView)
async def change_dataset(name: str, body: models.DatasetChange, actor: Caller, services: Ask) -> Response:
    """Admins only. What is given; jobs that were submitted before keep what they have."""
    given = {key: value for key, value in body.model_dump().items() if value is not None}
    return answer(show_dataset(await services.datasets.change(actor, name, DatasetChange(**given))))


@router.delete("/datasets/{name}", status_code=204)
async def remove_dataset(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only. The folder stays, and jobs that were submitted before keep it."""
    await services.datasets.delete(actor, name)
    return answer_nothing()


@router.put("/datasets/{name}/groups/{group}", response_model=models.DatasetView)
async def grant_dataset(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    return answer(show_dataset(await services.datasets.grant(actor, name, group)))


@router.delete("/datasets/{name}/groups/{group}", status_code=204)
async def revoke_dataset(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    await services.datasets.revoke(actor, name, group)
    return answer_nothing()
