"""/images."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import Items

from ..access_guard import guard_request
from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .views import show_image

router = rest_router("images")

_TAR: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A docker-save tar, an OCI layout as a tar, or a tar of a root filesystem.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/images", response_model=Items[api.Image])
async def list_images(actor: Caller, services: Ask) -> Response:
    return answer({"items": [show_image(image) for image in await services.images.list(actor)]})


@router.post("/images", response_model=api.Image, status_code=201, openapi_extra=_TAR)
async def add_image(
    request: Request, actor: Caller, services: Ask, name: Annotated[str, Query(max_length=255)]
) -> Response:
    """Admins only. The body is the file itself."""
    guard = guard_request(services, request, lambda now: services.images.check_import(now, name))
    return answer(show_image(await services.images.add(actor, name, request.stream(), guard.run)), 201)


@router.delete("/images/{name:path}", status_code=204)
async def remove_image(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    await services.images.remove(actor, name)
    return answer_nothing()
