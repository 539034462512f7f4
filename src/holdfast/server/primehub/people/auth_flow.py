"""The login of `primehub config generate-token`: the user logs in on a page of the portal, and types the code it
shows."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.errors import UserError
from holdfast.server.auth import get_services
from holdfast.server.origin import get_origin
from holdfast.server.primehub.errors import GRAPHQL_PATH
from holdfast.server.responses import respond_json

AUTH_FLOW_PATHS = ("/oidc/auth-flow", "/console/oidc/auth-flow")  # clients try them in this order
LOGIN_PATHS = tuple(f"{base}/login" for base in AUTH_FLOW_PATHS)
TOKEN_NAME = "primehub command"  # noqa: S105 - its name in token lists


def build_auth_routes() -> list[Route]:
    found = []
    for base in AUTH_FLOW_PATHS:
        found += [
            Route(f"{base}/request", redirect_to_login),
            Route(f"{base}/exchange", exchange_code, methods=["POST"]),
        ]
    return found


async def redirect_to_login(request: Request) -> Response:
    """Redirect to the login page. Clients detect the endpoint by the status 302."""
    return RedirectResponse(LOGIN_PATHS[0], 302)


async def exchange_code(request: Request) -> Response:
    code = (await _read_form_fields(request)).get("code", "").strip()
    try:
        made = await get_services(request).codes.redeem_token_code(code, name=TOKEN_NAME)
    except UserError:
        return PlainTextResponse("Bad Request", 400)  # clients match this text
    return respond_json({"api-token": made.text, "endpoint": f"{get_origin(request)}{GRAPHQL_PATH}"})


async def _read_form_fields(request: Request) -> dict[str, str]:
    data = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(data, keep_blank_values=True, max_num_fields=10))
    except ValueError:
        return {}
