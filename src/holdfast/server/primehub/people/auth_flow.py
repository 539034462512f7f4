"""How `primehub config generate-token` gets a token: a person logs in on a page, and types the code it shows. The page
itself is the portal's."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.errors import UserError
from holdfast.server.answers import answer
from holdfast.server.auth import services_of
from holdfast.server.origin import origin_of

from ..errors import GRAPHQL

BASES = ("/oidc/auth-flow", "/console/oidc/auth-flow")  # clients try one after the other
PAGES = tuple(f"{base}/login" for base in BASES)
TOKEN_NAME = "primehub command"  # noqa: S105 - what it is called in lists


def auth_routes() -> list[Route]:
    found = []
    for base in BASES:
        found += [Route(f"{base}/request", send_to_page), Route(f"{base}/exchange", exchange, methods=["POST"])]
    return found


async def send_to_page(request: Request) -> Response:
    """By a 302, and nothing else, clients know that this is the place."""
    return RedirectResponse(PAGES[0], 302)


async def exchange(request: Request) -> Response:
    code = (await _fields(request)).get("code", "").strip()
    try:
        made = await services_of(request).codes.redeem(code, name=TOKEN_NAME)
    except UserError:
        return PlainTextResponse("Bad Request", 400)  # by these words clients know
    return answer({"api-token": made.text, "endpoint": f"{origin_of(request)}{GRAPHQL}"})


async def _fields(request: Request) -> dict[str, str]:
    data = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(data, keep_blank_values=True, max_num_fields=10))
    except ValueError:
        return {}
