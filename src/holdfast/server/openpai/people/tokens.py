"""Tokens of the user. Only a hash of each is stored, so lists show handles (hf_ and the ID) instead of tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from holdfast.server.responses import respond_json

from ..auth import read_token
from ..call import Call
from ..endpoints import AccessLevel, endpoint
from ..errors import PaiError

APPLICATION_TOKEN_NAME = "application"  # noqa: S105 - a kind of token


@endpoint(
    "GET",
    "/v1/token",
    "/v2/tokens",
    who=AccessLevel.PERSON,
    note="Handles (`hf_` and the token ID), because tokens are not stored; DELETE accepts them.",
)
async def list_tokens(call: Call) -> Response:
    found = await call.services.tokens.list(call.actor, call.actor.name)
    return respond_json({"tokens": [f"hf_{token.id}" for token in found] or {}})


@endpoint(
    "POST", "/v1/token/application", "/v2/tokens/application", who=AccessLevel.PERSON, note="Valid until it is revoked."
)
async def create_application_token(call: Call) -> Response:
    made = await call.services.tokens.create(call.actor, name=APPLICATION_TOKEN_NAME)
    return respond_json({"token": made.text, "application": True})


@endpoint("GET", "/v1/token/check", "/v2/tokens/check")
async def check_token(call: Call) -> Response:
    token = await call.services.tokens.get_token(read_token(call.request))
    shown: dict[str, Any] = {
        "username": call.actor.name,
        "application": call.actor.application,
        "jobSpecific": False,
        "iat": _to_timestamp(token.created_at),
    }
    if token.expires_at is not None:
        shown["exp"] = _to_timestamp(token.expires_at)
    return respond_json({**shown, "admin": call.actor.admin})


@endpoint(
    "DELETE",
    "/v1/token/{token}",
    "/v2/tokens/{token}",
    who=AccessLevel.PERSON,
    note="Accepts a token or its handle; your own tokens only.",
)
async def revoke_token(call: Call) -> Response:
    token_id = _parse_token_id(call.get_path_text("token"))
    mine = await call.services.tokens.list(call.actor, call.actor.name)
    if token_id not in {token.id for token in mine}:
        raise PaiError(403, "ForbiddenUserError", "This is not one of your tokens.")
    await call.services.tokens.delete(call.actor, token_id)
    return respond_json({"message": "revoke successfully"})


def _parse_token_id(text: str) -> str:
    return text.removeprefix("hf_").partition("_")[0]


def _to_timestamp(instant: datetime) -> int:
    return int(instant.timestamp())
