"""OpenPAI's REST server, below /rest-server: its addresses, its words, our services."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.errors import UserError
from holdfast.services import Services

from .auth import find_actor
from .call import Call
from .endpoints import ENDPOINTS, Endpoint
from .errors import PaiError, render

PREFIX = "/rest-server/api"


def add_rest_server(app: FastAPI, services: Services) -> None:
    for each in ENDPOINTS:
        for path in (each.path, f"{each.path}/"):
            route = Route(PREFIX + path, _answering(each, services), methods=[each.method])
            app.router.routes.append(route)


def _answering(each: Endpoint, services: Services):  # type: ignore[no-untyped-def]
    async def answer(request: Request) -> Response:
        try:
            actor = await find_actor(request, services, each.who)
            return await each.handler(Call(request, services, actor))
        except (PaiError, UserError) as error:
            return render(error)

    return answer
