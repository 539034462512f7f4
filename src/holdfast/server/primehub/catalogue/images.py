"""Images: those of the place, for admins; those of a group, for its admins too."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import ImageAlias, ImageKind, SecretKind
from holdfast.core.errors import Conflict, NotFound
from holdfast.services.catalogue.image_aliases import ImageAliasChange, may_keep

from ..errors import NOT_AUTH, NOT_FOUND, PhError, not_found, resource_exists
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_all, show_page
from ..people.relations import check_groups, keep_name, read_links, relink
from .shapes import read_secret_id, show_image

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SEARCHED = ("name", "displayName", "description")


# -- looking


@query.field("image")
async def get_image(_: Any, info: Info, where: Shape) -> Shape | None:
    call = call_of(info)
    try:
        return show_image(await call.services.image_aliases.get(call.actor, where["id"]))
    except NotFound:
        return None


@query.field("images")
async def list_images(
    _: Any, info: Info, where: Shape | None = None, orderBy: Shape | None = None, mode: str | None = None
) -> Any:
    call = call_of(info)
    return show_all(call, await _all(call, mode), where, orderBy, *SEARCHED)


@query.field("imagesConnection")
async def page_images(
    _: Any,
    info: Info,
    where: Shape | None = None,
    orderBy: Shape | None = None,
    mode: str | None = None,
    **paging: Any,
) -> Shape:
    call = call_of(info)
    return show_page(call, await _all(call, mode), where, orderBy, paging, *SEARCHED)


async def _all(call: Call, mode: str | None) -> list[Shape]:
    """Those that whoever asks may see."""
    found = await call.services.image_aliases.list(call.actor)
    if mode in ("SYSTEM_ONLY", "GROUP_ONLY"):
        found = [image for image in found if (image.owner is not None) is (mode == "GROUP_ONLY")]
    return [show_image(image) for image in found]


# -- changing


@mutation.field("createImage")
async def create_image(_: Any, info: Info, data: Shape) -> Shape:
    call, links, owner = call_of(info), read_links(data), data.get("groupName") or None
    _need_keeper(call, owner)
    given = read_fields(data)
    if not given.get("url"):
        raise PhError("An image needs a url: the name by which it was imported, or that of a registry")
    made = ImageAlias(
        name=data["name"], **given, owner=owner, everyone=bool(links.everyone), groups=tuple(links.connect)
    )
    try:
        return show_image(await call.services.image_aliases.create(call.actor, made))
    except Conflict:
        raise resource_exists() from None


@mutation.field("updateImage")
async def update_image(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call, images, name = call_of(info), call_of(info).services.image_aliases, where["id"]
    before = await _need(call, name)
    keep_name(data, "name", name)
    if (data.get("groupName") or before.owner) != before.owner:
        raise PhError(f"{name} cannot be given to another group. Make a new image there.")
    links, given = read_links(data), read_fields(data)
    await check_groups(call, list(links.connect))
    if links.everyone is not None and links.everyone != before.everyone:
        given["everyone"] = links.everyone
    if given:
        await images.change(call.actor, name, ImageAliasChange(**given))
    await relink(call, images, name, before.groups, links)
    return show_image(await _need(call, name))


@mutation.field("deleteImage")
async def delete_image(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    found = await _need(call, where["id"])
    await call.services.image_aliases.delete(call.actor, found.name)
    return show_image(found)


async def _need(call: Call, name: str) -> ImageAlias:
    """One that whoever asks may change."""
    try:
        found = await call.services.image_aliases.get(call.actor, name)
    except NotFound:
        raise not_found("images", name) from None
    _need_keeper(call, found.owner)
    return found


def _need_keeper(call: Call, owner: str | None) -> None:
    if not may_keep(call.actor, owner):
        raise PhError("Not authorise", NOT_AUTH)


# -- reading what was sent


def read_fields(data: Shape) -> Shape:
    """What is given, under our names. Null leaves it as it was, but for the secret, which it takes away."""
    if data.get("imageSpec") is not None:
        raise PhError(
            "Holdfast builds no images. Build it elsewhere, import it, and give its url in place of imageSpec."
        )
    found = {name: data[key] for key, name in _FIELDS.items() if data.get(key) is not None}
    if data.get("type") is not None:
        found["kind"] = _kind(data["type"])
    if "useImagePullSecret" in data:
        found["pull_secret"] = _pull_secret(data["useImagePullSecret"])
    return found


def _kind(text: str) -> ImageKind:
    try:
        return ImageKind(text)
    except ValueError:
        raise PhError(f"type is cpu, gpu or both, not {text[:50]!r}") from None


def _pull_secret(id: str | None) -> str | None:
    if not id:
        return None
    name = read_secret_id(id, SecretKind.REGISTRY)
    if name is None:
        raise PhError(f"There is no secret {id[:100]} to pull images with", NOT_FOUND)
    return name


_FIELDS = {"displayName": "display_name", "description": "description", "url": "url", "urlForGpu": "gpu_url"}
