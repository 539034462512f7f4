"""/me/keys, /me/logins, /login-codes: what people do with their own account."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from holdfast.api import people as api
from holdfast.api.pages import Items
from holdfast.services.people.login_codes import LASTS
from holdfast.services.people.ssh_keys import SshKey

from ..answers import answer, answer_nothing
from ..auth import Ask, Caller
from ..origin import origin_of
from .addresses import rest_router
from .schemas import Body
from .views import show_time

router = rest_router("people")


@router.get("/me/keys", response_model=Items[api.SshKey])
async def list_keys(actor: Caller, services: Ask) -> Response:
    """One's SSH keys."""
    return answer({"items": [_show(key) for key in await services.keys.list(actor)]})


@router.post("/me/keys", response_model=api.SshKey, status_code=201)
async def add_key(body: Body[api.NewKey], actor: Caller, services: Ask) -> Response:
    """A public key, on one line; 409 when one has it already."""
    return answer(_show(await services.keys.add(actor, body["value"], title=body.get("title", ""))), 201)


@router.delete("/me/keys/{id}", status_code=204)
async def remove_key(id: str, actor: Caller, services: Ask) -> Response:
    await services.keys.remove(actor, id)
    return answer_nothing()


@router.delete("/me/logins", status_code=204)
async def end_logins(actor: Caller, services: Ask) -> Response:
    """End all of one's logins, also the one this is sent with; API tokens stay."""
    await services.tokens.end_logins(actor)
    return answer_nothing()


@router.post("/login-codes", response_model=api.LoginCode, status_code=201)
async def make_login_code(request: Request, actor: Caller, services: Ask) -> Response:
    """A link that logs a browser in as whoever asks: once, within ten minutes. Not for API tokens."""
    code = await services.codes.issue_login(actor)
    link = f"{origin_of(request)}/login?code={code}"
    return answer({"code": code, "url": link, "user": actor.name, "expires_in": LASTS}, 201)


def _show(key: SshKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "title": key.title,
        "type": key.type,
        "fingerprint": key.fingerprint,
        "value": key.value,
        "added_at": show_time(key.added_at),
    }
