"""/image-aliases and the groups they are granted to."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import ItemList
from holdfast.core.catalogue import ImageAlias
from holdfast.services.catalogue.image_aliases import ImageAliasChange

from ..auth import Caller, ServicesDep
from ..responses import respond_empty
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import respond_items, respond_record

router = build_router("image aliases")


@router.get("/image-aliases", response_model=ItemList[api.ImageAlias])
async def list_image_aliases(actor: Caller, services: ServicesDep, group: str | None = None) -> Response:
    """List all aliases for admins; public ones and those of your groups for users. With `group`: those for its jobs."""
    aliases = services.image_aliases
    found = await (aliases.list(actor) if group is None else aliases.list_usable_aliases(actor, group))
    return respond_items(api.ImageAlias, found)


@router.post("/image-aliases", response_model=api.ImageAlias, status_code=201)
async def add_image_alias(body: Body[api.NewImageAlias], actor: Caller, services: ServicesDep) -> Response:
    """For admins; with an `owner`, also for admins of that group."""
    given = get_sent_fields(body)
    given.setdefault("everyone", not given.get("groups") and "owner" not in given)
    return respond_record(api.ImageAlias, await services.image_aliases.create(actor, ImageAlias(**given)), 201)


@router.get("/image-aliases/{name}", response_model=api.ImageAlias)
async def show_image_alias(name: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_record(api.ImageAlias, await services.image_aliases.get(actor, name))


@router.patch("/image-aliases/{name}", response_model=api.ImageAlias)
async def change_image_alias(
    name: str, body: Body[api.ImageAliasChange], actor: Caller, services: ServicesDep
) -> Response:
    """For admins, and admins of its owner. Changes the given fields; jobs that are already submitted do not change."""
    change = ImageAliasChange(**get_sent_fields(body, "pull_secret"))
    return respond_record(api.ImageAlias, await services.image_aliases.change(actor, name, change))


@router.delete("/image-aliases/{name}", status_code=204)
async def remove_image_alias(name: str, actor: Caller, services: ServicesDep) -> Response:
    """For admins, and admins of its owner. The images behind it are not deleted."""
    await services.image_aliases.delete(actor, name)
    return respond_empty()


@router.put("/image-aliases/{name}/groups/{group}", response_model=api.ImageAlias)
async def grant_image_alias(name: str, group: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    return respond_record(api.ImageAlias, await services.image_aliases.grant(actor, name, group))


@router.delete("/image-aliases/{name}/groups/{group}", status_code=204)
async def revoke_image_alias(name: str, group: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    await services.image_aliases.revoke(actor, name, group)
    return respond_empty()
