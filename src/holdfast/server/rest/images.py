"""/images."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import ItemList

from ..access_guard import make_request_guard
from ..auth import Caller, ServicesDep
from ..responses import respond_empty
from .routing import build_router
from .views import respond_items, respond_record

router = build_router("images")

_TAR_REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A docker-save tar, an OCI layout as a tar, or a tar of a root filesystem.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/images", response_model=ItemList[api.Image])
async def list_images(actor: Caller, services: ServicesDep) -> Response:
    return respond_items(api.Image, await services.images.list(actor))


@router.post("/images", response_model=api.Image, status_code=201, openapi_extra=_TAR_REQUEST_BODY)
async def add_image(
    request: Request, actor: Caller, services: ServicesDep, name: Annotated[str, Query(max_length=255)]
) -> Response:
    """Admins only. The body is the content of the file."""
    guard = make_request_guard(services, request, lambda now: services.images.check_import(now, name))
    added = await services.images.add(actor, name, request.stream(), guard.run_guarded)
    return respond_record(api.Image, added, 201)


@router.post("/images/pull", response_model=api.ImagePull)
async def pull_image(
    actor: Caller,
    services: ServicesDep,
    name: Annotated[str, Query(max_length=255)],
    secret: Annotated[str | None, Query(max_length=255)] = None,
    engine: Annotated[str, Query(max_length=63)] = "",
) -> Response:
    """Admins only. Starts to pull an image, or joins a pull, and returns its status after two seconds, or when it ends.
    Repeat it until `image` is set."""
    return respond_record(api.ImagePull, await services.image_pulls.pull(actor, name, secret, engine))


@router.delete("/images/{name:path}", status_code=204)
async def remove_image(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    await services.images.remove(actor, name)
    return respond_empty()
