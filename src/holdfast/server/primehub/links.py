"""What leads from one thing to others: the groups of an image, the images of a group, the users of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ariadne import ObjectType

from holdfast.core.records import Group

from .catalogue.shapes import show_image, show_volume
from .catalogue.sizes import show_type
from .graphql.call import Call, Info, call_of
from .people.shapes import EVERYONE, show_everyone, show_group

Shape = dict[str, Any]

group_type, user_type = ObjectType("Group"), ObjectType("User")
linked_types = [ObjectType(name) for name in ("Image", "InstanceType", "Dataset")]
BINDABLES = (group_type, user_type, *linked_types)


async def known_groups(call: Call) -> Mapping[str, Group]:
    """Those that whoever asks may see, by name."""
    found = await call.once("groups", lambda: call.services.groups.list(call.actor))
    return {group.name: group for group in found}


# -- things -> groups


async def show_groups(thing: Shape, info: Info) -> list[Shape]:
    """Those it was given to, as far as whoever asks may see them."""
    call = call_of(info)
    known = await known_groups(call)
    found = [known[name] for name in thing.get("_groups", ()) if name in known]
    call.spend(len(found))
    volume = thing.get("_volume")
    if volume is None:
        return [show_group(group) for group in found]
    writable = {group.name: not volume.read_only or group.name in volume.writable_groups for group in found}
    return [{**show_group(group), "writable": writable[group.name]} for group in found]


for _each in linked_types:
    _each.set_field("groups", show_groups)


# -- users -> groups


@user_type.field("groups")
async def groups_of_user(user: Shape, info: Info) -> list[Shape]:
    """With the group of all."""
    return [show_everyone(), *await show_groups(user, info)]


@user_type.field("effectiveGroups")
async def effective_groups(user: Shape, info: Info) -> list[Shape]:
    """Those one can work in: one's own first, and for admins all. Each with what is everyone's."""
    call = call_of(info)
    if user["id"] != call.actor.name:
        return [{**each, "_merged": True} for each in await show_groups(user, info)]
    known = await known_groups(call)
    own = [known[name] for name in sorted(call.actor.groups) if name in known]
    others = [group for name, group in known.items() if call.actor.admin and name not in call.actor.groups]
    call.spend(len(own) + len(others))
    return [show_group(group, merged=True) for group in (*own, *others)]


# -- groups -> things


def _is_listed(shape: Shape, everyone: bool, groups: tuple[str, ...]) -> bool:
    """In a group stands what it was given; with `everyone`, also what is everyone's."""
    if shape["id"] == EVERYONE and shape["_group"] is None:
        return everyone
    return shape["id"] in groups or (everyone and shape["_merged"])


@group_type.field("instanceTypes")
async def types_of_group(group: Shape, info: Info) -> list[Shape]:
    call = call_of(info)
    known = await call.once("types", lambda: call.services.instance_types.list(call.actor))
    found = [show_type(each) for each in known if _is_listed(group, each.everyone, each.groups)]
    call.spend(len(found))
    return found


@group_type.field("images")
async def images_of_group(group: Shape, info: Info) -> list[Shape]:
    """Its own are among those it was given."""
    call = call_of(info)
    known = await call.once("images", lambda: call.services.image_aliases.list(call.actor))
    found = [
        show_image(each) for each in known if each.owner == group["id"] or _is_listed(group, each.everyone, each.groups)
    ]
    call.spend(len(found))
    return found


@group_type.field("datasets")
async def volumes_of_group(group: Shape, info: Info) -> list[Shape]:
    call = call_of(info)
    known = await call.once("volumes", lambda: call.services.datasets.list(call.actor))
    listed = [each for each in known if _is_listed(group, each.everyone, each.groups)]
    found = [show_volume(each, group=group["id"], paths=call.actor.admin) for each in listed]
    call.spend(len(found))
    return found
