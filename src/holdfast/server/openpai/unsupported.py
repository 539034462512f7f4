"""OpenPAI endpoints that are not supported, each with the reason."""

from __future__ import annotations

from starlette.responses import Response

from .call import Call
from .endpoints import Support, Who, endpoint
from .errors import PaiError

_NO_OIDC = "OIDC is not supported. Log in with a password: POST /api/v2/authn/basic/login."
_NO_BLOBS = "Logs are not stored in Azure. Use the links in the task's log list."


_RETURN = ("/v1/authn/oidc/return", "/v2/authn/oidc/return")
_OTHERS = tuple(f"/{version}/authn/oidc/{what}" for version in ("v1", "v2") for what in ("login", "logout"))


@endpoint("GET", *_OTHERS, *_RETURN, who=Who.ANYONE, support=Support.ABSENT, note=_NO_OIDC)
@endpoint("POST", *_RETURN, who=Who.ANYONE, support=Support.ABSENT, note=_NO_OIDC)
async def refuse_oidc(call: Call) -> Response:
    raise PaiError(400, "NotImplementedError", _NO_OIDC)


@endpoint("GET", "/internal/tail-logs/{blob:path}", who=Who.ANYONE, support=Support.ABSENT, note=_NO_BLOBS)
async def refuse_blobs(call: Call) -> Response:
    raise PaiError(404, "NotImplementedError", _NO_BLOBS)
