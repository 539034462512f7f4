"""/secrets: for git and for registries. Values come in here, and nothing here shows one."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import Items
from holdfast.core.catalogue import Secret
from holdfast.services.catalogue.secrets import SecretChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body, get_sent_fields
from .views import show_secret

router = rest_router("secrets")


@router.get("/secrets", response_model=Items[api.Secret])
async def list_secrets(actor: Caller, services: Ask) -> Response:
    """All, for admins; those for registries, for others. Never with their values."""
    return answer({"items": [show_secret(secret) for secret in await services.secrets.list(actor)]})


@router.post("/secrets", response_model=api.Secret, status_code=201)
async def add_secret(body: Body[api.NewSecret], actor: Caller, services: Ask) -> Response:
    """Admins only. The value is kept encrypted and never shown again."""
    given = get_sent_fields(body)
    value = given.pop("value")
    made = await services.secrets.create(actor, Secret(**given), value)
    return answer(show_secret(made), 201)


@router.get("/secrets/{name}", response_model=api.Secret)
async def show_one_secret(name: str, actor: Caller, services: Ask) -> Response:
    """Without its value."""
    return answer(show_secret(await services.secrets.get(actor, name)))


@router.patch("/secrets/{name}", response_model=api.Secret)
async def change_secret(name: str, body: Body[api.SecretChange], actor: Caller, services: Ask) -> Response:
    """Admins only. What is given; its kind stays."""
    return answer(show_secret(await services.secrets.change(actor, name, SecretChange(**get_sent_fields(body)))))


@router.delete("/secrets/{name}", status_code=204)
async def remove_secret(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only; 409 while a dataset or an image goes by it."""
    await services.secrets.delete(actor, name)
    return answer_nothing()
