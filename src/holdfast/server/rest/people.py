"""/login, /me, /users, /tokens."""

from __future__ import annotations

from datetime import timedelta

from fastapi import Request
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.api.pages import Items

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller, address_of, bearer_token
from .addresses import rest_router
from .schemas import Body, get_sent_fields
from .views import show_time, show_token, show_user

router = rest_router("people")


@router.post("/login", response_model=api.Login)
async def log_in(request: Request, body: Body[api.Credentials], services: Ask) -> Response:
    """A token for a user and password. After many failures a client has to wait (429). `device` in the answer gives no
    access: sent with the next login, it keeps failed logins of other clients from holding up this one."""
    known = body.get("device", "")
    made = await services.tokens.login(body["user"], body["password"], address_of(request), device=known)
    expires_at = show_time(made.token.expires_at)
    device = await services.tokens.issue_device(made.token.user, known)
    return answer({"token": made.text, "user": made.token.user, "expires_at": expires_at, "device": device})


@router.post("/logout", status_code=204)
async def log_out(request: Request, services: Ask) -> Response:
    """End the token this is sent with."""
    await services.tokens.logout(bearer_token(request))
    return answer_nothing()


@router.get("/me", response_model=api.Me)
async def show_me(actor: Caller, services: Ask) -> Response:
    user = await services.users.get(actor, actor.name)
    return answer({"name": user.name, "admin": user.admin, "email": user.email, "groups": dict(user.groups)})


@router.put("/me/password", status_code=204)
async def change_my_password(
    request: Request, body: Body[api.PasswordChange], actor: Caller, services: Ask
) -> Response:
    """Ends all of one's logins, also the one this is sent with; API tokens stay."""
    await services.users.change_own_password(actor, body["old"], body["new"], address_of(request))
    return answer_nothing()


@router.get("/users", response_model=Items[api.User])
async def list_users(actor: Caller, services: Ask) -> Response:
    """All, for admins; oneself, for others."""
    return answer({"items": [show_user(user) for user in await services.users.list(actor)]})


@router.post("/users", response_model=api.User, status_code=201)
async def add_user(body: Body[api.NewUser], actor: Caller, services: Ask) -> Response:
    """Admins only."""
    given = get_sent_fields(body)
    if isinstance(given.get("groups"), tuple):
        given["groups"] = dict.fromkeys(given["groups"], False)
    user = await services.users.create(actor, **given)
    return answer(show_user(user), 201)


@router.get("/users/{name}", response_model=api.User)
async def show_one_user(name: str, actor: Caller, services: Ask) -> Response:
    return answer(show_user(await services.users.get(actor, name)))


@router.patch("/users/{name}", response_model=api.User)
async def change_user(name: str, body: Body[api.UserChange], actor: Caller, services: Ask) -> Response:
    """What is given. Admins change everything; anyone their own email. The last admin stays one."""
    user = await services.users.change(actor, name, **get_sent_fields(body))
    return answer(show_user(user))


@router.delete("/users/{name}", status_code=204)
async def remove_user(name: str, actor: Caller, services: Ask) -> Response:
    """Admins only. The user's tokens are dead at once; finished jobs keep the name."""
    await services.users.delete(actor, name)
    return answer_nothing()


@router.put("/users/{name}/password", status_code=204)
async def set_password(name: str, body: Body[api.NewPassword], actor: Caller, services: Ask) -> Response:
    """Admins only. Ends the user's logins; API tokens stay."""
    await services.users.set_password(actor, name, body["password"])
    return answer_nothing()


@router.get("/tokens", response_model=Items[api.Token])
async def list_tokens(actor: Caller, services: Ask, user: str | None = None) -> Response:
    """One's own; for admins those of all, or of `user`."""
    return answer({"items": [show_token(token) for token in await services.tokens.list(actor, user)]})


@router.post("/tokens", response_model=api.NewToken, status_code=201)
async def add_token(body: Body[api.TokenRequest], actor: Caller, services: Ask) -> Response:
    """A token for programs. Its text is shown this once."""
    seconds = body.get("expires_in")
    expires_in = None if seconds is None else timedelta(seconds=min(seconds, 1e10))
    made = await services.tokens.create(actor, name=body.get("name", ""), expires_in=expires_in, user=body.get("user"))
    return answer({**show_token(made.token), "token": made.text}, 201)


@router.delete("/tokens/{id}", status_code=204)
async def remove_token(id: str, actor: Caller, services: Ask) -> Response:
    """One's own; for admins anybody's."""
    await services.tokens.delete(actor, id)
    return answer_nothing()
