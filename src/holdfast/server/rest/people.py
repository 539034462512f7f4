"""/login, /me, /users, /tokens."""

from __future__ import annotations

from datetime import timedelta

from fastapi import Request
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.api.pages import ItemList

from ..auth import Caller, ServicesDep, get_client_address, read_bearer_token
from ..responses import respond_empty, respond_json
from .routing import build_router
from .schemas import Body, get_sent_fields
from .views import format_time, respond_items, respond_record

router = build_router("people")


@router.post("/login", response_model=api.Login)
async def log_in(request: Request, body: Body[api.Credentials], services: ServicesDep) -> Response:
    """Create a token for a user and password. After many failures a client has to wait (429). `device` in the response
    grants no access: sent with the next login, it exempts this client from delays caused by failed logins of others."""
    known = body.get("device", "")
    made = await services.tokens.login(body["user"], body["password"], get_client_address(request), device=known)
    expires_at = format_time(made.token.expires_at)
    device = await services.tokens.issue_device_token(made.token.user, known)
    return respond_json({"token": made.text, "user": made.token.user, "expires_at": expires_at, "device": device})


@router.post("/logout", status_code=204)
async def log_out(request: Request, services: ServicesDep) -> Response:
    """Revoke the token of this request."""
    await services.tokens.logout(read_bearer_token(request))
    return respond_empty()


@router.get("/me", response_model=api.Me)
async def show_me(actor: Caller, services: ServicesDep) -> Response:
    return respond_record(api.Me, await services.users.get(actor, actor.name))


@router.put("/me/password", status_code=204)
async def change_my_password(
    request: Request, body: Body[api.PasswordChange], actor: Caller, services: ServicesDep
) -> Response:
    """Ends all your logins, including the one of this request. API tokens stay valid."""
    await services.users.change_own_password(actor, body["old"], body["new"], get_client_address(request))
    return respond_empty()


@router.get("/users", response_model=ItemList[api.User])
async def list_users(actor: Caller, services: ServicesDep) -> Response:
    """List all users for admins; only yourself for other users."""
    return respond_items(api.User, await services.users.list(actor))


@router.post("/users", response_model=api.User, status_code=201)
async def add_user(body: Body[api.NewUser], actor: Caller, services: ServicesDep) -> Response:
    """Admins only."""
    given = get_sent_fields(body)
    if isinstance(given.get("groups"), tuple):
        given["groups"] = dict.fromkeys(given["groups"], False)
    return respond_record(api.User, await services.users.create(actor, **given), 201)


@router.get("/users/{name}", response_model=api.User)
async def show_user(name: str, actor: Caller, services: ServicesDep) -> Response:
    return respond_record(api.User, await services.users.get(actor, name))


@router.patch("/users/{name}", response_model=api.User)
async def change_user(name: str, body: Body[api.UserChange], actor: Caller, services: ServicesDep) -> Response:
    """Changes the given fields. Users can change their own email only. The last admin stays an admin."""
    return respond_record(api.User, await services.users.change(actor, name, **get_sent_fields(body)))


@router.delete("/users/{name}", status_code=204)
async def remove_user(name: str, actor: Caller, services: ServicesDep) -> Response:
    """Admins only. The user's tokens are revoked at once; finished jobs keep the name."""
    await services.users.delete(actor, name)
    return respond_empty()


@router.put("/users/{name}/password", status_code=204)
async def set_password(name: str, body: Body[api.NewPassword], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Ends the user's logins; API tokens stay valid."""
    await services.users.set_password(actor, name, body["password"])
    return respond_empty()


@router.get("/tokens", response_model=ItemList[api.Token])
async def list_tokens(actor: Caller, services: ServicesDep, user: str | None = None) -> Response:
    """Your own tokens; for admins all, or those of `user`."""
    return respond_items(api.Token, await services.tokens.list(actor, user))


@router.post("/tokens", response_model=api.CreatedToken, status_code=201)
async def add_token(body: Body[api.TokenRequest], actor: Caller, services: ServicesDep) -> Response:
    """Create an API token. It is shown only once."""
    seconds = body.get("expires_in")
    expires_in = None if seconds is None else timedelta(seconds=min(seconds, 1e10))
    made = await services.tokens.create(actor, name=body.get("name", ""), expires_in=expires_in, user=body.get("user"))
    return respond_record(api.CreatedToken, made.token, 201, token=made.text)


@router.delete("/tokens/{id}", status_code=204)
async def remove_token(id: str, actor: Caller, services: ServicesDep) -> Response:
    """Revoke one of your tokens; admins can revoke any."""
    await services.tokens.delete(actor, id)
    return respond_empty()
