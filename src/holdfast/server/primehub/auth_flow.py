"""How `primehub config generate-token` gets a token: a person logs in on a page, and types the code it shows."""

from __future__ import annotations

import html
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.core.errors import NotLoggedIn, UserError
from holdfast.server.answers import answer
from holdfast.server.auth import address_of, services_of
from holdfast.server.docs_page import page
from holdfast.server.origin import origin_of

from .errors import GRAPHQL, say

BASES = ("/oidc/auth-flow", "/console/oidc/auth-flow")  # clients try one after the other
PAGE = f"{BASES[0]}/login"
TOKEN_NAME = "primehub command"  # noqa: S105 - what it is called in lists


def auth_routes() -> list[Route]:
    found = [Route(PAGE, show_login), Route(PAGE, log_in, methods=["POST"])]
    for base in BASES:
        found += [Route(f"{base}/request", send_to_page), Route(f"{base}/exchange", exchange, methods=["POST"])]
    return found


async def send_to_page(request: Request) -> Response:
    """By a 302, and nothing else, clients know that this is the place."""
    return RedirectResponse(PAGE, 302)


async def show_login(request: Request) -> Response:
    return _page(_form())


async def log_in(request: Request) -> Response:
    given = await _fields(request)
    user = given.get("username", "")
    try:
        code = await services_of(request).codes.issue(user, given.get("password", ""), address_of(request))
    except UserError as error:
        return _page(_form(user, say(error)), 401 if isinstance(error, NotLoggedIn) else 429)
    return _page(_code(user, code))


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


def _page(content: str, status: int = 200) -> Response:
    return Response(page("Token for the primehub command", content), status, media_type="text/html")


def _form(user: str = "", wrong: str = "") -> str:
    said = f'<p role="alert"><strong>{html.escape(wrong)}</strong></p>' if wrong else ""
    return f"""<h1>A token for the <code>primehub</code> command</h1>
<p>Log in, and you get a code to type where <code>primehub config generate-token</code> asks for one. Whoever has the
code can do here what you can, so go on only if you started that command yourself.</p>
{said}
<form method="post" action="{PAGE}">
<p><label>User <input name="username" autocomplete="username" required value="{html.escape(user[:200])}"></label></p>
<p><label>Password
<input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Show the code</button></p>
</form>"""


def _code(user: str, code: str) -> str:
    return f"""<h1>Your code, {html.escape(user[:200])}</h1>
<pre>{code}</pre>
<p>Type it where <code>primehub config generate-token</code> asks for it. It works once, within ten minutes. The token
it gives is listed by <code>holdfast token ls</code> as <em>{TOKEN_NAME}</em>, and ends when you remove it there.</p>"""
