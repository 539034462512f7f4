"""Storages: our datasets, in the current shape and in that of OpenPAI 0.x and 1.0."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.records import Dataset
from holdfast.server.responses import respond_json

from .call import Call
from .endpoints import endpoint
from .errors import PaiError

_GRANTED_NOTE = "Datasets granted to your groups or to everyone; all for admins."
_OLDER_SHAPE_NOTE = "The older response shape."


@endpoint("GET", "/v2/storages", note=f"{_GRANTED_NOTE} With `default=true`, only those that are mounted by default.")
async def list_storages(call: Call) -> Response:
    found = await _list_folder_datasets(call)
    if call.get_query_text("default") == "true":
        found = [dataset for dataset in found if dataset.default]
    return respond_json({"storages": [_storage_to_json(dataset) for dataset in found]})


@endpoint("GET", "/v2/storages/{storage}", note="`type` is nfs or other; `secretName` is never set.")
async def get_storage(call: Call) -> Response:
    found = await _get_dataset(call, call.get_path_text("storage"))
    shown = {
        **_storage_to_json(found),
        "type": _get_storage_type(found),
        "data": _get_location(found),
        "readOnly": found.read_only,
        "mountOptions": [],
    }
    return respond_json(shown)


@endpoint("GET", "/v2/storage/config", note=_OLDER_SHAPE_NOTE)
async def list_storage_configs(call: Call) -> Response:
    return respond_json([_config_to_json(dataset) for dataset in await _list_named_datasets(call)])


@endpoint("GET", "/v2/storage/config/{name}", note=_OLDER_SHAPE_NOTE)
async def get_storage_config(call: Call) -> Response:
    return respond_json(_config_to_json(await _get_dataset(call, call.get_path_text("name"))))


@endpoint("GET", "/v2/storage/server", note=_OLDER_SHAPE_NOTE)
async def list_storage_servers(call: Call) -> Response:
    return respond_json([_server_to_json(dataset) for dataset in await _list_named_datasets(call)])


@endpoint("GET", "/v2/storage/server/{name}", note=_OLDER_SHAPE_NOTE)
async def get_storage_server(call: Call) -> Response:
    return respond_json(_server_to_json(await _get_dataset(call, call.get_path_text("name"))))


async def _get_dataset(call: Call, name: str) -> Dataset:
    service = call.services.datasets
    missing = PaiError(404, "NoStorageError", f"Storage {name[:100]} is not found.")
    try:
        found = await service.get(call.actor, name)
    except NotFound:
        if call.actor.can_read_all_jobs and await service.exists(
            name
        ):  # elsewhere, a dataset without access is not found
            text = f"User {call.actor.name} is not allowed to access {name[:100]}."
            raise PaiError(403, "ForbiddenUserError", text) from None
        raise missing from None
    if not _is_mountable(found):
        raise missing
    return found


async def _list_named_datasets(call: Call) -> list[Dataset]:
    """Return the datasets in `?names=`, or all."""
    found = await _list_folder_datasets(call)
    asked = [name for text in call.request.query_params.getlist("names") for name in text.split(",") if name]
    return [dataset for dataset in found if not asked or dataset.name in asked]


async def _list_folder_datasets(call: Call) -> list[Dataset]:
    return [dataset for dataset in await call.services.datasets.list(call.actor) if _is_mountable(dataset)]


def _is_mountable(dataset: Dataset) -> bool:
    """Return whether it can be mounted. Datasets of variables cannot, so OpenPAI's clients do not see them."""
    return dataset.kind != "env"


def _storage_to_json(dataset: Dataset) -> dict[str, Any]:
    return {"name": dataset.name, "share": not dataset.per_user, "volumeName": dataset.name, "default": dataset.default}


def _config_to_json(dataset: Dataset) -> dict[str, Any]:
    mount = {
        "mountPoint": f"/mnt/{dataset.name}",
        "path": "",
        "server": dataset.name,
        "permission": "ro" if dataset.read_only else "rw",
    }
    return {"name": dataset.name, "default": dataset.default, "servers": [dataset.name], "mountInfos": [mount]}


def _server_to_json(dataset: Dataset) -> dict[str, Any]:
    return {"spn": dataset.name, "type": _get_storage_type(dataset), "data": _get_location(dataset), "extension": {}}


def _get_storage_type(dataset: Dataset) -> str:
    return "nfs" if dataset.kind == "nfs" else "other"


def _get_location(dataset: Dataset) -> dict[str, Any]:
    """Return its location; a path on our nodes is of no use to clients and left out."""
    return dict(dataset.data) if dataset.kind == "nfs" else {}
