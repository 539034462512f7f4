"""Server information for clients that have not logged in."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.server.responses import respond_json, respond_text

from .call import Call
from .endpoints import AccessLevel, endpoint

# Clients read these to detect the version of OpenPAI's API; this is the last release.
OPENPAI_VERSION = "v1.8.1"
SERVER_INFO = {"name": "PAI RESTful API", "version": OPENPAI_VERSION, "launcherType": "k8s", "authnMethod": "basic"}
LOGIN_INFO = {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}


@endpoint("GET", "/v1", "/v2/info", who=AccessLevel.ANYONE, note="`version` is the last release of OpenPAI.")
async def show_info(call: Call) -> Response:
    return respond_json(SERVER_INFO)


@endpoint("GET", "/v2", who=AccessLevel.ANYONE)
async def show_welcome(call: Call) -> Response:
    return respond_text("PAI RESTful API v2 (beta version)", "text/html")


@endpoint("GET", "/v1/authn/info", "/v2/authn/info", who=AccessLevel.ANYONE)
async def show_login_info(call: Call) -> Response:
    return respond_json(LOGIN_INFO)
