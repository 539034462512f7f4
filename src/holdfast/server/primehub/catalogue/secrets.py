"""Secrets: queries, and mutations for admins. Their values are write-only."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import NotFound
from holdfast.services.catalogue.secrets import SecretChange
from holdfast.services.people.groups import UNSET

from ..errors import PrimeHubError, build_plain_not_found_error, translate_conflict
from ..graphql.call import Call, Info, get_call
from ..graphql.lists import paginate_filtered_nodes
from ..graphql.paging import build_numbered_page, has_cursor
from ..json_object import JsonObject
from ..people.relations import require_admin
from .shapes import SECRET_TYPES, parse_secret_id, secret_to_json

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

SECRET_KINDS = {type: kind for kind, type in SECRET_TYPES.items()}
VALUE_FIELDS = {SecretKind.OPAQUE: "secret", SecretKind.REGISTRY: "password"}


@query.field("secret")
async def get_secret(_: Any, info: Info, where: JsonObject) -> JsonObject:
    """Return a secret. Clients read its fields without a null check, so a missing one is an error."""
    return secret_to_json(await _load_secret(get_call(info), where["id"]))


@query.field("secrets")
async def list_secrets(_: Any, info: Info, where: JsonObject | None = None) -> list[JsonObject]:
    call = get_call(info)
    found = await _list_secret_nodes(call, where)
    call.spend_rows(len(found))
    return found


@query.field("secretsConnection")
async def page_secrets(_: Any, info: Info, where: JsonObject | None = None, **paging: Any) -> JsonObject:
    """Return a page of secrets; without a page number all of them, because clients send one request only."""
    call = get_call(info)
    require_admin(call)
    nodes = await _list_secret_nodes(call, where)
    if paging.get("page") is not None or has_cursor(paging):
        return paginate_filtered_nodes(call, nodes, None, None, paging)
    call.spend_rows(len(nodes))
    return build_numbered_page(nodes, page=1, total=1)


async def _list_secret_nodes(call: Call, where: JsonObject | None) -> list[JsonObject]:
    found = await call.services.secrets.list(call.actor)
    if (where or {}).get("ifDockerConfigJson"):
        found = [secret for secret in found if secret.kind is SecretKind.REGISTRY]
    return [secret_to_json(secret) for secret in found]


@mutation.field("createSecret")
async def create_secret(_: Any, info: Info, data: JsonObject) -> JsonObject:
    call, kind = get_call(info), SECRET_KINDS[data["type"]]
    require_admin(call)
    secret = Secret(
        name=data["name"],
        display_name=data.get("displayName") or "",
        kind=kind,
        registry_host=data.get("registryHost") or "",
        username=data.get("username") or "",
    )
    value = _require_value(kind, data.get(VALUE_FIELDS[kind]))
    with translate_conflict():
        return secret_to_json(await call.services.secrets.create(call.actor, secret, value))


@mutation.field("updateSecret")
async def update_secret(_: Any, info: Info, data: JsonObject, where: JsonObject) -> JsonObject:
    call = get_call(info)
    require_admin(call)
    found = await _load_secret(call, where["id"])
    if data.get("type") not in (None, SECRET_TYPES[found.kind]):
        raise PrimeHubError("The type of a secret cannot be changed")
    given = {name: data[key] for key, name in _SECRET_FIELD_NAMES.items() if data.get(key) is not None}
    value = data.get(VALUE_FIELDS[found.kind])
    change = SecretChange(**given, value=UNSET if value is None else _require_value(found.kind, value))
    return secret_to_json(await call.services.secrets.change(call.actor, found.name, change))


@mutation.field("deleteSecret")
async def delete_secret(_: Any, info: Info, where: JsonObject) -> JsonObject:
    call = get_call(info)
    require_admin(call)
    found = await _load_secret(call, where["id"])
    await call.services.secrets.delete(call.actor, found.name)
    return secret_to_json(found)


def _require_value(kind: SecretKind, value: str | None) -> str:
    if value is None or not value.strip():
        raise PrimeHubError(f"`{VALUE_FIELDS[kind]}` is empty: it must contain the secret value")
    return value


async def _load_secret(call: Call, id: str) -> Secret:
    """Return a secret: any for admins, those for pulling images for others."""
    for kind in SecretKind:
        name = parse_secret_id(id, kind)
        if name is None:
            continue
        try:
            found = await call.services.secrets.get(call.actor, name)
        except NotFound:
            break
        if found.kind is kind:
            return found
    raise build_plain_not_found_error("Secret", id)


_SECRET_FIELD_NAMES = {"displayName": "display_name", "registryHost": "registry_host", "username": "username"}
