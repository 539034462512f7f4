"""/secrets: for git and for registries. Values are write-only."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import ItemList
from holdfast.core.catalogue import Secret
from holdfast.services.catalogue.secrets import SecretChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import respond_items, respond_record

router = build_router("secrets")


@router.get("/secrets", response_model=ItemList[api.Secret])
async def list_secrets(actor: Caller, services: ServicesDep) -> Response:
    """List all secrets for admins; those for registries for other users. Values are never shown."""
    return respond_items(api.Secret, await services.secrets.list(actor))


@router.post("/secrets", response_model=api.Secret, status_code=201)
async def add_secret(body: Body[api.NewSecret], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. The value is stored encrypted and never shown again."""
    given = get_sent_fields(body)
    value = given.pop("value")
    return respond_record(api.Secret, await services.secrets.create(actor, Secret(**given), value), 201)


@router.get("/secrets/{name}", response_model=api.Secret)
async def show_secret(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Without its value."""
    return respond_record(api.Secret, await services.secrets.get(actor, name))


@router.patch("/secrets/{name}", response_model=api.Secret)
async def change_secret(name: str, body: Body[api.SecretChange], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Changes the given fields; its kind cannot change."""
    changed = await services.secrets.change(actor, name, SecretChange(**get_sent_fields(body)))
    return respond_record(api.Secret, changed)


@router.delete("/secrets/{name}", status_code=204)
async def remove_secret(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only; 409 while a dataset or an image uses it."""
    await services.secrets.delete(actor, name)
    return respond_empty()
