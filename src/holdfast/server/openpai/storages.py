"""Storages: our datasets, in the shape of today and in that of OpenPAI 0.x and 1.0."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.records import Dataset
from holdfast.server.answers import answer

from .call import Call
from .endpoints import endpoint
from .errors import PaiError

_GRANTED = "Datasets granted to one's groups or to everyone; all, for admins."
_FORMER = "The older shape."


@endpoint("GET", "/v2/storages", note=f"{_GRANTED} With `default=true` only those jobs get without naming them.")
async def list_storages(call: Call) -> Response:
    found = await _folders(call)
    if call.query("default") == "true":
        found = [dataset for dataset in found if dataset.default]
    return answer({"storages": [_show_brief(dataset) for dataset in found]})


@endpoint("GET", "/v2/storages/{storage}", note="`type` is nfs or other; nothing here has a `secretName`.")
async def get_storage(call: Call) -> Response:
    found = await _find(call, call.path("storage"))
    shown = {
        **_show_brief(found),
        "type": _type(found),
        "data": _data(found),
        "readOnly": found.read_only,
        "mountOptions": [],
    }
    return answer(shown)


@endpoint("GET", "/v2/storage/config", note=_FORMER)
async def list_configs(call: Call) -> Response:
    return answer([_show_config(dataset) for dataset in await _named(call)])


@endpoint("GET", "/v2/storage/config/{name}", note=_FORMER)
async def get_config(call: Call) -> Response:
    return answer(_show_config(await _find(call, call.path("name"))))


@endpoint("GET", "/v2/storage/server", note=_FORMER)
async def list_servers(call: Call) -> Response:
    return answer([_show_server(dataset) for dataset in await _named(call)])


@endpoint("GET", "/v2/storage/server/{name}", note=_FORMER)
async def get_server(call: Call) -> Response:
    return answer(_show_server(await _find(call, call.path("name"))))


async def _find(call: Call, name: str) -> Dataset:
    service = call.services.datasets
    missing = PaiError(404, "NoStorageError", f"Storage {name[:100]} is not found.")
    try:
        found = await service.get(call.actor, name)
    except NotFound:
        if call.actor.reads_all and await service.exists(name):  # elsewhere what is not for one is not there
            text = f"User {call.actor.name} is not allowed to access {name[:100]}."
            raise PaiError(403, "ForbiddenUserError", text) from None
        raise missing from None
    if not _is_folder(found):
        raise missing
    return found


async def _named(call: Call) -> list[Dataset]:
    """Those that `?names=` asks for, or all."""
    found = await _folders(call)
    asked = [name for text in call.request.query_params.getlist("names") for name in text.split(",") if name]
    return [dataset for dataset in found if not asked or dataset.name in asked]


async def _folders(call: Call) -> list[Dataset]:
    return [dataset for dataset in await call.services.datasets.list(call.actor) if _is_folder(dataset)]


def _is_folder(dataset: Dataset) -> bool:
    """Variables cannot be mounted, so OpenPAI's clients do not know of them."""
    return dataset.kind != "env"


def _show_brief(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "share": not dataset.per_user,
        "volumeName": dataset.name,
        "default": dataset.default,
    }


def _show_config(dataset: Dataset) -> dict[str, Any]:
    mount = {
        "mountPoint": f"/mnt/{dataset.name}",
        "path": "",
        "server": dataset.name,
        "permission": "ro" if dataset.read_only else "rw",
    }
    return {"name": dataset.name, "default": dataset.default, "servers": [dataset.name], "mountInfos": [mount]}


def _show_server(dataset: Dataset) -> dict[str, Any]:
    return {"spn": dataset.name, "type": _type(dataset), "data": _data(dataset), "extension": {}}


def _type(dataset: Dataset) -> str:
    return "nfs" if dataset.kind == "nfs" else "other"


def _data(dataset: Dataset) -> dict[str, Any]:
    """Where it is; of a folder on our machines, or a checkout there, that says nothing to others."""
    return dict(dataset.data) if dataset.kind == "nfs" else {}
