"""Relations between objects: the groups of an image, the images of a group, its users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ariadne import ObjectType

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias
from holdfast.core.records import Group

from .catalogue.instance_type_shapes import instance_type_to_json
from .catalogue.shapes import image_to_json, volume_to_json
from .graphql.call import Call, Info, get_call
from .json_object import JsonObject
from .people.relations import GrantedObject
from .people.shapes import EVERYONE, everyone_to_json, group_to_json

T = TypeVar("T", bound=GrantedObject)

group_type, user_type = ObjectType("Group"), ObjectType("User")
linked_types = [ObjectType(name) for name in ("Image", "InstanceType", "Dataset")]
BINDABLES = (group_type, user_type, *linked_types)


async def load_visible_groups(call: Call) -> Mapping[str, Group]:
    found = await call.load_once("groups", lambda: call.services.groups.list(call.actor))
    return {group.name: group for group in found}


# -- objects -> groups


async def resolve_groups(thing: JsonObject, info: Info) -> list[JsonObject]:
    """Return the groups it is granted to that the caller can see."""
    call = get_call(info)
    known = await load_visible_groups(call)
    found = [known[name] for name in thing.get("_groups", ()) if name in known]
    call.spend_rows(len(found))
    volume = thing.get("_volume")
    if volume is None:
        return [group_to_json(group) for group in found]
    writable = {group.name: not volume.read_only or group.name in volume.writable_groups for group in found}
    return [{**group_to_json(group), "writable": writable[group.name]} for group in found]


for _each in linked_types:
    _each.set_field("groups", resolve_groups)


# -- users -> groups


@user_type.field("groups")
async def resolve_user_groups(user: JsonObject, info: Info) -> list[JsonObject]:
    """Return the user's groups with `everyone`."""
    return [everyone_to_json(), *await resolve_groups(user, info)]


@user_type.field("effectiveGroups")
async def resolve_effective_groups(user: JsonObject, info: Info) -> list[JsonObject]:
    """Return the groups the user can submit to, own groups first; all for admins. Each includes public objects."""
    call = get_call(info)
    if user["id"] != call.actor.name:
        return [{**each, "_merged": True} for each in await resolve_groups(user, info)]
    known = await load_visible_groups(call)
    own = [known[name] for name in sorted(call.actor.groups) if name in known]
    others = [group for name, group in known.items() if call.actor.admin and name not in call.actor.groups]
    call.spend_rows(len(own) + len(others))
    return [group_to_json(group, merged=True) for group in (*own, *others)]


# -- groups -> objects


async def _list_granted_objects(
    group: JsonObject, call: Call, name: str, load: Callable[[Actor], Awaitable[list[T]]]
) -> list[T]:
    """Return the objects granted to the group; with `_merged`, also those granted to all."""
    known = await call.load_once(name, lambda: load(call.actor))
    found = [each for each in known if _is_granted_to_group(group, each)]
    call.spend_rows(len(found))
    return found


def _is_granted_to_group(shape: JsonObject, thing: GrantedObject) -> bool:
    if isinstance(thing, ImageAlias) and thing.owner == shape["id"]:
        return True
    if shape["id"] == EVERYONE and shape["_group"] is None:
        return thing.everyone
    return shape["id"] in thing.groups or (thing.everyone and shape["_merged"])


@group_type.field("instanceTypes")
async def resolve_group_types(group: JsonObject, info: Info) -> list[JsonObject]:
    call = get_call(info)
    return [
        instance_type_to_json(each)
        for each in await _list_granted_objects(group, call, "types", call.services.instance_types.list)
    ]


@group_type.field("images")
async def resolve_group_images(group: JsonObject, info: Info) -> list[JsonObject]:
    """Return the images; a group's own images are among those granted to it."""
    call = get_call(info)
    return [
        image_to_json(each)
        for each in await _list_granted_objects(group, call, "images", call.services.image_aliases.list)
    ]


@group_type.field("datasets")
async def resolve_group_volumes(group: JsonObject, info: Info) -> list[JsonObject]:
    call = get_call(info)
    found = await _list_granted_objects(group, call, "volumes", call.services.datasets.list)
    return [volume_to_json(each, group=group["id"], paths=call.actor.admin) for each in found]
