"""Groups. Each is also a virtual cluster, so a group's list of virtual clusters is always itself."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.records import Group
from holdfast.server.responses import respond_json
from holdfast.services.people.groups import UNSET, GroupChange

from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError, translate_errors
from ..values import build_bad_value_error, get_boolean, get_names, get_object, get_text, require_object, require_text
from .shapes import ACLS_KEY, EXTERNAL_NAME_KEY, group_to_json, respond_message

_ACLS_NOTE = "Of `acls` only `storageConfigs` can be set: it grants and revokes datasets of the group."


@endpoint("GET", "/v2/groups", "/v2/group")
async def list_groups(call: Call) -> Response:
    datasets = await call.services.datasets.list(call.actor)
    return respond_json([group_to_json(group, datasets) for group in await call.services.groups.list(call.actor)])


@endpoint("GET", "/v2/groups/{group}", "/v2/group/{group}")
async def get_group(call: Call) -> Response:
    found = await _get_group(call, 400)
    return respond_json(group_to_json(found, await call.services.datasets.list(call.actor)))


@endpoint(
    "GET",
    "/v2/groups/{group}/userlist",
    "/v2/group/{group}/userlist",
    who=AccessLevel.ADMIN,
    note="A group that does not exist has no users.",
)
async def list_members(call: Call) -> Response:
    name = call.get_path_text("group")
    users = await call.services.users.list(call.actor)
    return respond_json([{"username": u.name, "clusterAdmin": u.admin} for u in users if name in u.groups])


@endpoint("POST", "/v2/groups", "/v2/group", who=AccessLevel.ADMIN, note=_ACLS_NOTE)
async def create_group(call: Call) -> Response:
    body = await call.read_json_object()
    name = require_text(body, "groupname")
    extension, datasets = await _parse_extension(call, get_object(body, "extension") or {}, name)
    kept = _set_external_name(extension, get_text(body, "externalName"))
    try:
        group = Group(name=name, description=get_text(body, "description") or "", extension=kept)
        await call.services.groups.create(call.actor, group)
    except Conflict as error:
        raise PaiError(409, "ConflictVcError", error.message) from error
    await _set_granted_datasets(call, name, datasets)
    return respond_json({"message": "group is created successfully"}, 201)


@endpoint("PUT", "/v2/groups", "/v2/group", who=AccessLevel.ADMIN, note=_ACLS_NOTE)
async def update_group(call: Call) -> Response:
    body = await call.read_json_object()
    data = require_object(body, "data")
    name = require_text(data, "groupname")
    if not get_boolean(body, "patch"):
        for field in ("description", "externalName", "extension"):
            if data.get(field) is None:
                raise build_bad_value_error(f"{field} is missing. With patch: true only the given fields are changed.")
    extension = get_object(data, "extension")
    await _change_group(
        call, name, extension, description=get_text(data, "description"), external=_get_external_name(data)
    )
    return respond_message("update group successfully")


@endpoint("DELETE", "/v2/groups/{group}", "/v2/group/{group}", who=AccessLevel.ADMIN, note="Not for the group default.")
async def delete_group(call: Call) -> Response:
    name = call.get_path_text("group")
    no_group = f"Group {name[:100]} is not found."
    with translate_errors((NotFound, 404, "NoGroupError", no_group), (Conflict, 403, "ForbiddenUserError", None)):
        await call.services.groups.delete(call.actor, name)
    return respond_json({"message": "group is removed successfully"})


@endpoint(
    "PUT",
    "/v2/groups/{group}/extension",
    "/v2/group/{group}/extension",
    who=AccessLevel.ADMIN,
    note=f"Merged by key. {_ACLS_NOTE}",
)
async def update_extension(call: Call) -> Response:
    await _change_group(call, call.get_path_text("group"), require_object(await call.read_json_object(), "extension"))
    return respond_message("update group extension data successfully")


@endpoint(
    "PUT",
    "/v2/groups/{group}/extension/{attribute:path}",
    "/v2/group/{group}/extension/{attribute:path}",
    who=AccessLevel.ADMIN,
    note="Sets `data` at the path in the rest of the URL, such as acls/storageConfigs.",
)
async def update_attribute(call: Call) -> Response:
    body = await call.read_json_object()
    if "data" not in body:
        raise build_bad_value_error("data is missing.")
    first, *inner = call.get_path_text("attribute").split("/")
    if len(inner) > 10:
        raise build_bad_value_error("The path is nested too deeply.")
    found = await _get_group(call, 404)
    shown = group_to_json(found, ())["extension"] if first != ACLS_KEY else {}
    await _change_group(call, found.name, {first: _set_at_path(shown.get(first), inner, body["data"])})
    return respond_message("update group extension attribute successfully")


@endpoint("PUT", "/v2/groups/{group}/description", "/v2/group/{group}/description", who=AccessLevel.ADMIN)
async def update_description(call: Call) -> Response:
    description = get_text(await call.read_json_object(), "description")
    if description is None:
        raise build_bad_value_error("description is missing.")
    await _change_group(call, call.get_path_text("group"), None, description=description)
    return respond_message("update group description successfully")


@endpoint(
    "PUT",
    "/v2/groups/{group}/externalname",
    "/v2/group/{group}/externalname",
    who=AccessLevel.ADMIN,
    note="Stored and shown only; groups are not synced from a directory.",
)
async def update_external_name(call: Call) -> Response:
    external = _get_external_name(await call.read_json_object())
    if external is None:
        raise build_bad_value_error("externalName is missing.")
    await _change_group(call, call.get_path_text("group"), None, external=external)
    return respond_message("update group external name successfully")


# -- helpers


async def _get_group(call: Call, status: int) -> Group:
    name = call.get_path_text("group")
    with translate_errors((NotFound, status, "NoGroupError", f"Group {name[:100]} is not found.")):
        return await call.services.groups.get(call.actor, name)


async def _change_group(
    call: Call,
    name: str,
    extension: dict[str, Any] | None,
    *,
    description: str | None = None,
    external: str | None = None,
) -> None:
    with translate_errors((NotFound, 404, "NoGroupError", f"Group {name[:100]} is not found.")):
        await call.services.groups.get(call.actor, name)
        kept, datasets = await _parse_extension(call, extension or {}, name)
        kept = _set_external_name(kept, external)
        change = GroupChange(
            description=UNSET if description is None else description, extension=kept if kept else UNSET
        )
        await call.services.groups.change(call.actor, name, change)
    await _set_granted_datasets(call, name, datasets)


async def _parse_extension(
    call: Call, given: dict[str, Any], group: str
) -> tuple[dict[str, Any], frozenset[str] | None]:
    """Return the extension to store, and the datasets to grant (None: no change)."""
    kept = {key: value for key, value in given.items() if key not in (ACLS_KEY, EXTERNAL_NAME_KEY)}
    acls = get_object(given, ACLS_KEY) or {}
    for key in acls.keys() - {"admin", "virtualClusters", "storageConfigs"}:
        raise build_bad_value_error(f"acls.{key[:50]} is not a known field.")
    if get_boolean(acls, "admin"):
        raise build_bad_value_error("acls.admin cannot be set. Use PUT /api/v2/users/<user>/admin for each admin.")
    if get_names(acls, "virtualClusters") not in (None, [], [group]):
        raise build_bad_value_error(
            f"acls.virtualClusters cannot be set: group {group} is virtual cluster {group} only."
        )
    wanted = get_names(acls, "storageConfigs")
    if wanted is None:
        return kept, None
    known = {dataset.name for dataset in await call.services.datasets.list(call.actor)}
    for name in sorted(set(wanted) - known):
        raise PaiError(400, "NoStorageError", f"Storage {name[:100]} is not found.")
    return kept, frozenset(wanted)


async def _set_granted_datasets(call: Call, group: str, wanted: frozenset[str] | None) -> None:
    if wanted is None:
        return
    service = call.services.datasets
    for dataset in await service.list(call.actor):
        if dataset.name in wanted and group not in dataset.groups:
            await service.grant(call.actor, dataset.name, group)
        elif dataset.name not in wanted and group in dataset.groups:
            await service.revoke(call.actor, dataset.name, group)


def _get_external_name(body: dict[str, Any]) -> str | None:
    found = get_text(body, EXTERNAL_NAME_KEY)
    return get_text(body, "externalname") if found is None else found


def _set_external_name(extension: dict[str, Any], external: str | None) -> dict[str, Any]:
    return extension if external is None else {**extension, EXTERNAL_NAME_KEY: external or None}


def _set_at_path(before: Any, path: list[str], value: Any) -> Any:
    """Return a copy of `before` with `value` at `path`."""
    if not path:
        return value
    outer = dict(before) if isinstance(before, dict) else {}
    return {**outer, path[0]: _set_at_path(outer.get(path[0]), path[1:], value)}
