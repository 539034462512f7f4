"""Groups. Each is a virtual cluster, too, so a group's list of those is itself and cannot be set to more."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import Group
from holdfast.server.answers import answer
from holdfast.services.people.groups import UNSET, GroupChange

from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError, telling
from ..values import bad, names_in, need_object, need_text, object_in, text_in, truth_in
from .shapes import ACLS, EXTERNAL_NAME, show_group

_ACLS = "Of `acls` only `storageConfigs` can be set: it grants datasets to the group and takes them back."


@endpoint("GET", "/v2/groups", "/v2/group")
async def list_groups(call: Call) -> Response:
    datasets = await call.services.datasets.list(call.actor)
    return answer([show_group(group, datasets) for group in await call.services.groups.list(call.actor)])


@endpoint("GET", "/v2/groups/{group}", "/v2/group/{group}")
async def get_group(call: Call) -> Response:
    found = await _find(call, 400)
    return answer(show_group(found, await call.services.datasets.list(call.actor)))


@endpoint(
    "GET",
    "/v2/groups/{group}/userlist",
    "/v2/group/{group}/userlist",
    who=Who.ADMIN,
    note="A group that is not there has no users.",
)
async def list_members(call: Call) -> Response:
    name = call.path("group")
    users = await call.services.users.list(call.actor)
    return answer([{"username": u.name, "clusterAdmin": u.admin} for u in users if name in u.groups])


@endpoint("POST", "/v2/groups", "/v2/group", who=Who.ADMIN, note=_ACLS)
async def create_group(call: Call) -> Response:
    body = await call.body()
    name = need_text(body, "groupname")
    extension, datasets = await _extension_in(call, object_in(body, "extension") or {}, name)
    kept = _with_external_name(extension, text_in(body, "externalName"))
    try:
        group = Group(name=name, description=text_in(body, "description") or "", extension=kept)
        await call.services.groups.create(call.actor, group)
    except Conflict as error:
        raise PaiError(409, "ConflictVcError", error.message) from error
    await _grant(call, name, datasets)
    return answer({"message": "group is created successfully"}, 201)


@endpoint("PUT", "/v2/groups", "/v2/group", who=Who.ADMIN, note=_ACLS)
async def update_group(call: Call) -> Response:
    body = await call.body()
    data = need_object(body, "data")
    name = need_text(data, "groupname")
    if not truth_in(body, "patch"):
        for field in ("description", "externalName", "extension"):
            if data.get(field) is None:
                raise bad(f"{field} is missing. With patch: true only what is given is changed.")
    extension = object_in(data, "extension")
    await _change(call, name, extension, description=text_in(data, "description"), external=_external(data))
    return _done("update group successfully")


@endpoint("DELETE", "/v2/groups/{group}", "/v2/group/{group}", who=Who.ADMIN, note="Not the group default.")
async def delete_group(call: Call) -> Response:
    name = call.path("group")
    no_group = f"Group {name[:100]} is not found."
    with telling((NotFound, 404, "NoGroupError", no_group), (Conflict, 403, "ForbiddenUserError", None)):
        await call.services.groups.delete(call.actor, name)
    return answer({"message": "group is removed successfully"})


@endpoint(
    "PUT", "/v2/groups/{group}/extension", "/v2/group/{group}/extension", who=Who.ADMIN, note=f"Merged by key. {_ACLS}"
)
async def update_extension(call: Call) -> Response:
    await _change(call, call.path("group"), need_object(await call.body(), "extension"))
    return _done("update group extension data successfully")


@endpoint(
    "PUT",
    "/v2/groups/{group}/extension/{attribute:path}",
    "/v2/group/{group}/extension/{attribute:path}",
    who=Who.ADMIN,
    note="Sets what `data` says at the place that the rest of the address names, such as acls/storageConfigs.",
)
async def update_attribute(call: Call) -> Response:
    body = await call.body()
    if "data" not in body:
        raise bad("data is missing.")
    first, *inner = call.path("attribute").split("/")
    if len(inner) > 10:
        raise bad("The address goes too deep.")
    found = await _find(call, 404)
    shown = show_group(found, ())["extension"] if first != ACLS else {}
    await _change(call, found.name, {first: _put(shown.get(first), inner, body["data"])})
    return _done("update group extension attribute successfully")


@endpoint("PUT", "/v2/groups/{group}/description", "/v2/group/{group}/description", who=Who.ADMIN)
async def update_description(call: Call) -> Response:
    description = text_in(await call.body(), "description")
    if description is None:
        raise bad("description is missing.")
    await _change(call, call.path("group"), None, description=description)
    return _done("update group description successfully")


@endpoint(
    "PUT",
    "/v2/groups/{group}/externalname",
    "/v2/group/{group}/externalname",
    who=Who.ADMIN,
    note="Kept and shown; nothing here comes from a directory.",
)
async def update_external_name(call: Call) -> Response:
    external = _external(await call.body())
    if external is None:
        raise bad("externalName is missing.")
    await _change(call, call.path("group"), None, external=external)
    return _done("update group external name successfully")


# -- parts


async def _find(call: Call, status: int) -> Group:
    name = call.path("group")
    with telling((NotFound, status, "NoGroupError", f"Group {name[:100]} is not found.")):
        return await call.services.groups.get(call.actor, name)


async def _change(
    call: Call,
    name: str,
    extension: dict[str, Any] | None,
    *,
    description: str | None = None,
    external: str | None = None,
) -> None:
    with telling((NotFound, 404, "NoGroupError", f"Group {name[:100]} is not found.")):
        await call.services.groups.get(call.actor, name)
        kept, datasets = await _extension_in(call, extension or {}, name)
        kept = _with_external_name(kept, external)
        change = GroupChange(
            description=UNSET if description is None else description, extension=kept if kept else UNSET
        )
        await call.services.groups.change(call.actor, name, change)
    await _grant(call, name, datasets)


async def _extension_in(call: Call, given: dict[str, Any], group: str) -> tuple[dict[str, Any], frozenset[str] | None]:
    """What is to be kept, and the datasets that are to be granted (None: as they are)."""
    kept = {key: value for key, value in given.items() if key not in (ACLS, EXTERNAL_NAME)}
    acls = object_in(given, ACLS) or {}
    for key in acls.keys() - {"admin", "virtualClusters", "storageConfigs"}:
        raise bad(f"acls.{key[:50]} is not known.")
    if truth_in(acls, "admin"):
        raise bad("acls.admin cannot be set: admins are made one by one, by PUT /api/v2/users/<user>/admin.")
    if names_in(acls, "virtualClusters") not in (None, [], [group]):
        raise bad(f"acls.virtualClusters cannot be set: group {group} is virtual cluster {group}, and no other.")
    wanted = names_in(acls, "storageConfigs")
    if wanted is None:
        return kept, None
    known = {dataset.name for dataset in await call.services.datasets.list(call.actor)}
    for name in sorted(set(wanted) - known):
        raise PaiError(400, "NoStorageError", f"Storage {name[:100]} is not found.")
    return kept, frozenset(wanted)


async def _grant(call: Call, group: str, wanted: frozenset[str] | None) -> None:
    if wanted is None:
        return
    service = call.services.datasets
    for dataset in await service.list(call.actor):
        if dataset.name in wanted and group not in dataset.groups:
            await service.grant(call.actor, dataset.name, group)
        elif dataset.name not in wanted and group in dataset.groups:
            await service.revoke(call.actor, dataset.name, group)


def _external(body: dict[str, Any]) -> str | None:
    found = text_in(body, EXTERNAL_NAME)
    return text_in(body, "externalname") if found is None else found


def _with_external_name(extension: dict[str, Any], external: str | None) -> dict[str, Any]:
    return extension if external is None else {**extension, EXTERNAL_NAME: external or None}


def _put(before: Any, path: list[str], value: Any) -> Any:
    """What `before` is once `value` is at `path` in it."""
    if not path:
        return value
    outer = dict(before) if isinstance(before, dict) else {}
    return {**outer, path[0]: _put(outer.get(path[0]), path[1:], value)}


def _done(message: str) -> Response:
    return answer({"message": message}, 201)
