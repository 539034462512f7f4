"""One's own tokens. Only a hash of each is kept, so a list shows handles (hf_ and the id) in place of their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from holdfast.server.answers import answer

from ..auth import token_of
from ..call import Call
from ..endpoints import Who, endpoint
from ..errors import PaiError

APPLICATION = "application"


@endpoint(
    "GET",
    "/v1/token",
    "/v2/tokens",
    who=Who.PERSON,
    note="Handles, `hf_` and the token's id, in place of texts that are kept nowhere; DELETE takes them.",
)
async def list_tokens(call: Call) -> Response:
    found = await call.services.tokens.list(call.actor, call.actor.name)
    return answer({"tokens": [f"hf_{token.id}" for token in found] or {}})


@endpoint("POST", "/v1/token/application", "/v2/tokens/application", who=Who.PERSON, note="Lasts until it is revoked.")
async def make_application_token(call: Call) -> Response:
    made = await call.services.tokens.create(call.actor, name=APPLICATION)
    return answer({"token": made.text, "application": True})


@endpoint("GET", "/v1/token/check", "/v2/tokens/check")
async def check_token(call: Call) -> Response:
    token = await call.services.tokens.which(token_of(call.request))
    shown: dict[str, Any] = {
        "username": call.actor.name,
        "application": call.actor.application,
        "jobSpecific": False,
        "iat": _seconds(token.created_at),
    }
    if token.expires_at is not None:
        shown["exp"] = _seconds(token.expires_at)
    return answer({**shown, "admin": call.actor.admin})


@endpoint(
    "DELETE",
    "/v1/token/{token}",
    "/v2/tokens/{token}",
    who=Who.PERSON,
    note="Takes the token's text or its handle; one's own only.",
)
async def revoke_token(call: Call) -> Response:
    token_id = _id_of(call.path("token"))
    mine = await call.services.tokens.list(call.actor, call.actor.name)
    if token_id not in {token.id for token in mine}:
        raise PaiError(403, "ForbiddenUserError", "This is not a token of yours.")
    await call.services.tokens.delete(call.actor, token_id)
    return answer({"message": "revoke successfully"})


def _id_of(text: str) -> str:
    return text.removeprefix("hf_").partition("_")[0]


def _seconds(instant: datetime) -> int:
    return int(instant.timestamp())
