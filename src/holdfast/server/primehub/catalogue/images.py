"""Images: of the installation, for admins; of a group, also for its admins."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import ImageAlias, ImageKind, SecretKind
from holdfast.core.errors import NotFound
from holdfast.services.catalogue.image_aliases import ImageAliasChange, can_manage_aliases

from ..errors import NOT_AUTH_CODE, PrimeHubError, build_plain_not_found_error, translate_conflict, translate_not_found
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import bind_list_queries
from ..json_object import JsonObject
from ..people.relations import check_groups_exist, check_name_unchanged, parse_group_links, update_granted_object
from .shapes import image_to_json, parse_secret_id

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


# -- queries


@query.field("image")
async def get_image(_: Any, info: Info, where: JsonObject) -> JsonObject | None:
    call = get_call(info)
    try:
        return image_to_json(await call.services.image_aliases.get(call.actor, where["id"]))
    except NotFound:
        return None


async def _list_image_nodes(call: Call, args: JsonObject) -> list[JsonObject]:
    """Return the images that the caller can see."""
    found, mode = await call.services.image_aliases.list(call.actor), args.get("mode")
    if mode in ("SYSTEM_ONLY", "GROUP_ONLY"):
        found = [image for image in found if (image.owner is not None) is (mode == "GROUP_ONLY")]
    return [image_to_json(image) for image in found]


bind_list_queries(query, "images", _list_image_nodes, "name", "displayName", "description")


# -- mutations


@mutation.field("createImage")
async def create_image(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call, links, owner = get_call(info), parse_group_links(data), data.get("groupName") or None
    _require_owner_admin(call, owner)
    given = parse_image_fields(data)
    if not given.get("url"):
        raise PrimeHubError("An image needs a url: the name of an imported image or of one in a registry")
    image = ImageAlias(
        name=data["name"], **given, owner=owner, everyone=bool(links.everyone), groups=tuple(links.connect)
    )
    with translate_conflict():
        return image_to_json(await call.services.image_aliases.create(call.actor, image))


@mutation.field("updateImage")
async def update_image(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call, name = get_call(info), where["id"]
    before = await _load_manageable_image(call, name)
    check_name_unchanged(data, "name", name)
    if (data.get("groupName") or before.owner) != before.owner:
        raise PrimeHubError(f"{name} cannot be moved to another group. Create a new image there.")
    links, given = parse_group_links(data), parse_image_fields(data)
    await check_groups_exist(call, list(links.connect))
    await update_granted_object(call, call.services.image_aliases, before, ImageAliasChange, given, links)
    return image_to_json(await _load_manageable_image(call, name))


@mutation.field("deleteImage")
async def delete_image(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    found = await _load_manageable_image(call, where["id"])
    await call.services.image_aliases.delete(call.actor, found.name)
    return image_to_json(found)


async def _load_manageable_image(call: Call, name: str) -> ImageAlias:
    with translate_not_found("images", name):
        found = await call.services.image_aliases.get(call.actor, name)
    _require_owner_admin(call, found.owner)
    return found


def _require_owner_admin(call: Call, owner: str | None) -> None:
    if not can_manage_aliases(call.actor, owner):
        raise PrimeHubError("Not authorise", NOT_AUTH_CODE)


# -- input


def parse_image_fields(data: JsonObject) -> JsonObject:
    """Return the given fields, with our names. Null changes nothing, except that it removes the secret."""
    if data.get("imageSpec") is not None:
        raise PrimeHubError(
            "Building images is not supported. Build and import the image, and set its url instead of imageSpec."
        )
    found = {name: data[key] for key, name in _IMAGE_FIELD_NAMES.items() if data.get(key) is not None}
    if data.get("type") is not None:
        found["kind"] = _parse_image_kind(data["type"])
    if "useImagePullSecret" in data:
        found["pull_secret"] = _parse_pull_secret(data["useImagePullSecret"])
    return found


def _parse_image_kind(text: str) -> ImageKind:
    try:
        return ImageKind(text)
    except ValueError:
        raise PrimeHubError(f"type must be cpu, gpu or both, not {text[:50]!r}") from None


def _parse_pull_secret(id: str | None) -> str | None:
    if not id:
        return None
    name = parse_secret_id(id, SecretKind.REGISTRY)
    if name is None:
        raise build_plain_not_found_error("Image pull secret", id)
    return name


_IMAGE_FIELD_NAMES = {"displayName": "display_name", "description": "description", "url": "url", "urlForGpu": "gpu_url"}
