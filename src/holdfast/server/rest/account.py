"""/me/keys, /me/logins, /login-codes: the user's own account."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.api.pages import ItemList
from holdfast.services.people.login_codes import CODE_TTL

from ..auth import Caller, ServicesDep
from ..origin import get_origin
from ..responses import respond_empty, respond_json
from .routing import build_router
from .schemas import Body
from .views import respond_items, respond_record

router = build_router("people")


@router.get("/me/keys", response_model=ItemList[api.SshKey])
async def list_keys(actor: Caller, services: ServicesDep) -> Response:
    """List your SSH keys."""
    return respond_items(api.SshKey, await services.keys.list(actor))


@router.post("/me/keys", response_model=api.SshKey, status_code=201)
async def add_key(body: Body[api.NewSshKey], actor: Caller, services: ServicesDep) -> Response:
    """Add a public key, as one line; 409 if you already have it."""
    added = await services.keys.add(actor, body["value"], title=body.get("title", ""))
    return respond_record(api.SshKey, added, 201)


@router.delete("/me/keys/{id}", status_code=204)
async def remove_key(id: str, actor: Caller, services: ServicesDep) -> Response:
    await services.keys.remove(actor, id)
    return respond_empty()


@router.delete("/me/logins", status_code=204)
async def end_logins(actor: Caller, services: ServicesDep) -> Response:
    """End all your logins, including the one of this request. API tokens stay valid."""
    await services.tokens.delete_logins(actor)
    return respond_empty()


@router.post("/login-codes", response_model=api.LoginCode, status_code=201)
async def create_login_code(request: Request, actor: Caller, services: ServicesDep) -> Response:
    """Create a link that logs a browser in as you: once, within ten minutes. Not for API tokens."""
    code = await services.codes.issue_login_code(actor)
    link = f"{get_origin(request)}/login?code={code}"
    return respond_json({"code": code, "url": link, "user": actor.name, "expires_in": CODE_TTL}, 201)
