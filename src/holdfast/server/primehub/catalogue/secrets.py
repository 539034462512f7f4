"""Secrets, by what they are called: what they keep is never told."""

from __future__ import annotations

from typing import Any

from ariadne import QueryType

from holdfast.core.catalogue import SecretKind

from ..graphql.call import Info, call_of
from .shapes import show_secret

Shape = dict[str, Any]

query = QueryType()
BINDABLES = (query,)


@query.field("secrets")
async def list_secrets(_: Any, info: Info, where: Shape | None = None) -> list[Shape]:
    call = call_of(info)
    found = await call.services.secrets.list(call.actor)
    if (where or {}).get("ifDockerConfigJson"):
        found = [secret for secret in found if secret.kind is SecretKind.REGISTRY]
    call.spend(len(found))
    return [show_secret(secret) for secret in found]
