"""Secrets, one by one and for admins. What is kept in them goes in here and never comes out."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import Conflict, NotFound
from holdfast.services.catalogue.secrets import SecretChange
from holdfast.services.people.groups import UNSET

from ..errors import NOT_FOUND, PhError, resource_exists
from ..graphql.call import Call, Info, call_of
from ..graphql.lists import show_page
from ..graphql.paging import asks_cursor, numbered
from ..people.relations import need_admin
from .shapes import SECRET_TYPES, read_secret_id, show_secret

Shape = dict[str, Any]

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)

KINDS = {type: kind for kind, type in SECRET_TYPES.items()}
KEPT_IN = {SecretKind.OPAQUE: "secret", SecretKind.REGISTRY: "password"}


@query.field("secret")
async def get_secret(_: Any, info: Info, where: Shape) -> Shape:
    """Clients look into it without asking whether it is there, so it is an error when it is not."""
    return show_secret(await _need(call_of(info), where["id"]))


@query.field("secretsConnection")
async def page_secrets(_: Any, info: Info, where: Shape | None = None, **paging: Any) -> Shape:
    """Without a page all of them, as one page: clients ask once and take it for the whole."""
    call = call_of(info)
    need_admin(call)
    found = await call.services.secrets.list(call.actor)
    if (where or {}).get("ifDockerConfigJson"):
        found = [secret for secret in found if secret.kind is SecretKind.REGISTRY]
    nodes = [show_secret(secret) for secret in found]
    if paging.get("page") is not None or asks_cursor(paging):
        return show_page(call, nodes, None, None, paging)
    call.spend(len(nodes))
    return numbered(nodes, page=1, total=1)


@mutation.field("createSecret")
async def create_secret(_: Any, info: Info, data: Shape) -> Shape:
    call, kind = call_of(info), KINDS[data["type"]]
    need_admin(call)
    secret = Secret(
        name=data["name"],
        display_name=data.get("displayName") or "",
        kind=kind,
        registry_host=data.get("registryHost") or "",
        username=data.get("username") or "",
    )
    try:
        return show_secret(
            await call.services.secrets.create(call.actor, secret, _filled(kind, data.get(KEPT_IN[kind])))
        )
    except Conflict:
        raise resource_exists() from None


@mutation.field("updateSecret")
async def update_secret(_: Any, info: Info, data: Shape, where: Shape) -> Shape:
    call = call_of(info)
    need_admin(call)
    found = await _need(call, where["id"])
    if data.get("type") not in (None, SECRET_TYPES[found.kind]):
        raise PhError("The type of a secret cannot be changed: what uses it relies on that")
    given = {name: data[key] for key, name in _FIELDS.items() if data.get(key) is not None}
    value = data.get(KEPT_IN[found.kind])
    change = SecretChange(**given, value=UNSET if value is None else _filled(found.kind, value))
    return show_secret(await call.services.secrets.change(call.actor, found.name, change))


@mutation.field("deleteSecret")
async def delete_secret(_: Any, info: Info, where: Shape) -> Shape:
    call = call_of(info)
    need_admin(call)
    found = await _need(call, where["id"])
    await call.services.secrets.delete(call.actor, found.name)
    return show_secret(found)


def _filled(kind: SecretKind, value: str | None) -> str:
    if value is None or not value.strip():
        raise PhError(f"`{KEPT_IN[kind]}` is empty: what is to be kept secret goes there")
    return value


async def _need(call: Call, id: str) -> Secret:
    """Those to pull images with, for anyone; all, for admins."""
    for kind in SecretKind:
        name = read_secret_id(id, kind)
        if name is None:
            continue
        try:
            found = await call.services.secrets.get(call.actor, name)
        except NotFound:
            break
        if found.kind is kind:
            return found
    raise PhError(f"There is no secret {id[:100]}", NOT_FOUND)


_FIELDS = {"displayName": "display_name", "registryHost": "registry_host", "username": "username"}
