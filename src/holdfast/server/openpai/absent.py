"""Addresses of OpenPAI that are not offered, each with the reason."""

from __future__ import annotations

from starlette.responses import Response

from .call import Call
from .endpoints import Support, Who, endpoint
from .errors import PaiError

_NO_OIDC = "Users log in with a password here: POST /api/v2/authn/basic/login."
_NO_BLOBS = "Logs are not kept in Azure here; the list of a task's logs leads to them."


@endpoint("GET", "/v1/authn/oidc/login", "/v2/authn/oidc/login", who=Who.ANYONE, support=Support.ABSENT, note=_NO_OIDC)
@endpoint("GET", "/v1/authn/oidc/logout", "/v2/authn/oidc/logout", who=Who.ANYONE, support=Support.ABSENT)
@endpoint("GET", "/v1/authn/oidc/return", "/v2/authn/oidc/return", who=Who.ANYONE, support=Support.ABSENT)
@endpoint("POST", "/v1/authn/oidc/return", "/v2/authn/oidc/return", who=Who.ANYONE, support=Support.ABSENT)
async def refuse_oidc(call: Call) -> Response:
    raise PaiError(400, "NotImplementedError", _NO_OIDC)


@endpoint("GET", "/internal/tail-logs/{blob:path}", who=Who.ANYONE, support=Support.ABSENT, note=_NO_BLOBS)
async def refuse_blobs(call: Call) -> Response:
    raise PaiError(404, "NotImplementedError", _NO_BLOBS)
