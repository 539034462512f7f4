"""/image-aliases and the groups they are for."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import catalogue as api
from holdfast.api.pages import Items
from holdfast.core.catalogue import ImageAlias
from holdfast.services.catalogue.image_aliases import ImageAliasChange

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body, get_sent_fields

router = rest_router("image aliases")


@router.get("/image-aliases", response_model=Items[api.ImageAlias])
async def list_image_aliases(actor: Caller, services: Ask, group: str | None = None) -> Response:
    """All, for admins; everyone's and those of one's groups, for others. With `group`: what its jobs can name."""
    aliases = services.image_aliases
    found = await (aliases.list(actor) if group is None else aliases.usable(actor, group))
    return answer({"items": [show(alias) for alias in found]})


@router.post("/image-aliases", response_model=api.ImageAlias, status_code=201)
async def add_image_alias(body: Body[api.NewImageAlias], actor: Caller, services: Ask) -> Response:
    """Admins; with an `owner`, also admins of that group."""
    given = get_sent_fields(body)
    given.setdefault("everyone", not given.get("groups") and "owner" not in given)
    return answer(show(await services.image_aliases.create(actor, ImageAlias(**given))), 201)


@router.get("/image-aliases/{name}", response_model=api.ImageAlias)
async def show_image_alias(name: str, actor: Caller, services: Ask) -> Response:
    return answer(show(await services.image_aliases.get(actor, name)))


@router.patch("/image-aliases/{name}", response_model=api.ImageAlias)
async def change_image_alias(name: str, body: Body[api.ImageAliasChange], actor: Caller, services: Ask) -> Response:
    """Admins, and admins of its owner. What is given; jobs that were submitted before keep the image they had."""
    change = ImageAliasChange(**get_sent_fields(body, "pull_secret"))
    return answer(show(await services.image_aliases.change(actor, name, change)))


@router.delete("/image-aliases/{name}", status_code=204)
async def remove_image_alias(name: str, actor: Caller, services: Ask) -> Response:
    """Admins, and admins of its owner. The images it stands for stay."""
    await services.image_aliases.delete(actor, name)
    return answer_nothing()


@router.put("/image-aliases/{name}/groups/{group}", response_model=api.ImageAlias)
async def grant_image_alias(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    return answer(show(await services.image_aliases.grant(actor, name, group)))


@router.delete("/image-aliases/{name}/groups/{group}", status_code=204)
async def revoke_image_alias(name: str, group: str, actor: Caller, services: Ask) -> Response:
    """Admins only."""
    await services.image_aliases.revoke(actor, name, group)
    return answer_nothing()


def show(alias: ImageAlias) -> dict[str, Any]:
    return {
        "name": alias.name,
        "display_name": alias.display_name,
        "description": alias.description,
        "kind": alias.kind.value,
        "url": alias.url,
        "gpu_url": alias.gpu_url,
        "pull_secret": alias.pull_secret,
        "owner": alias.owner,
        "everyone": alias.everyone,
        "groups": list(alias.groups),
    }
