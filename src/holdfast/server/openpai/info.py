"""What this server is, for clients that ask before anybody logs in."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.server.answers import answer, answer_text

from .call import Call
from .endpoints import Who, endpoint

# Clients read these to learn which of OpenPAI's interfaces they talk to; the last release is the one answered for.
VERSION = "v1.8.1"
INFO = {"name": "PAI RESTful API", "version": VERSION, "launcherType": "k8s", "authnMethod": "basic"}
LOGIN = {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}


@endpoint("GET", "/v1", "/v2/info", who=Who.ANYONE, note="Names the last release of OpenPAI as version.")
async def show_info(call: Call) -> Response:
    return answer(INFO)


@endpoint("GET", "/v2", who=Who.ANYONE)
async def greet(call: Call) -> Response:
    return answer_text("PAI RESTful API v2 (beta version)", "text/html")


@endpoint("GET", "/v1/authn/info", "/v2/authn/info", who=Who.ANYONE)
async def show_login(call: Call) -> Response:
    return answer(LOGIN)
