"""OpenPAI endpoints that are not supported, each with the reason."""

from __future__ import annotations

from starlette.responses import Response

from .call import Call
from .endpoints import AccessLevel, Support, endpoint
from .errors import PaiError

_NO_OIDC_MESSAGE = "OIDC is not supported. Log in with a password: POST /api/v2/authn/basic/login."
_NO_BLOBS_MESSAGE = "Logs are not stored in Azure. Use the links in the task's log list."


_OIDC_RETURN_PATHS = ("/v1/authn/oidc/return", "/v2/authn/oidc/return")
_OIDC_LOGIN_PATHS = tuple(f"/{version}/authn/oidc/{what}" for version in ("v1", "v2") for what in ("login", "logout"))


@endpoint(
    "GET",
    *_OIDC_LOGIN_PATHS,
    *_OIDC_RETURN_PATHS,
    who=AccessLevel.ANYONE,
    support=Support.UNSUPPORTED,
    note=_NO_OIDC_MESSAGE,
)
@endpoint("POST", *_OIDC_RETURN_PATHS, who=AccessLevel.ANYONE, support=Support.UNSUPPORTED, note=_NO_OIDC_MESSAGE)
async def reject_oidc(call: Call) -> Response:
    raise PaiError(400, "NotImplementedError", _NO_OIDC_MESSAGE)


@endpoint(
    "GET",
    "/internal/tail-logs/{blob:path}",
    who=AccessLevel.ANYONE,
    support=Support.UNSUPPORTED,
    note=_NO_BLOBS_MESSAGE,
)
async def reject_blob_logs(call: Call) -> Response:
    raise PaiError(404, "NotImplementedError", _NO_BLOBS_MESSAGE)
