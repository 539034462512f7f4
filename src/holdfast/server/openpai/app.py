"""OpenPAI's REST server, below /rest-server: its addresses, its words, our services."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.access import Actor
from holdfast.core.errors import UserError
from holdfast.server.auth import address_of
from holdfast.services import Services
from holdfast.services.client_network import client_network
from holdfast.store.errors import StoreError

from ..compression import compress
from . import handlers as handlers  # declares every address
from .answer_limits import AnswerLimits, AnswerSlots
from .auth import find_actor, find_user
from .call import Call
from .endpoints import ENDPOINTS, Endpoint
from .errors import PaiError, answer_error, no_api, render, store_failed
from .rates import Rates, TooOften, refuse
from .routes import PREFIX, Routes

log = logging.getLogger(__name__)


class RestServer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = Routes(ENDPOINTS)
        self._rates = Rates(services.settings.openpai)
        self._answer_limits = AnswerLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, slots = Request(scope, receive), AnswerSlots(self._answer_limits)
        try:
            response = await self._answer(request, slots)
            await compress(request, response)
            slots.release_made()
            await response(scope, receive, send)
        finally:
            slots.release()

    async def _answer(self, request: Request, slots: AnswerSlots) -> Response:
        """What we did not foresee goes on to the outermost layer, which logs it."""
        headers: dict[str, str] = {}
        try:
            user = await find_user(request, self._services)
            headers = self._rates.count_request(user, address_of(request))
            response = await self._find_and_call(request, slots, headers)
        except TooOften as error:
            return refuse(error)
        except (PaiError, UserError) as error:
            response = render(error)
        except HTTPException as error:  # the body is too large, found out while reading
            response = answer_error(error.status_code, "InvalidParametersError", error.detail, {"Connection": "close"})
        except StoreError as error:
            log.error("the store could not do it", extra={"event": "store", "error": str(error)})
            response = render(store_failed(error))
        response.headers.update(headers)
        return response

    async def _find_and_call(self, request: Request, slots: AnswerSlots, headers: dict[str, str]) -> Response:
        path = _path_of(request)
        found = self._routes.find(request.method, path)
        if found is None:
            query = request.url.query
            raise no_api(f"{path}?{query}" if query else path, request.method)
        each, request.scope["path_params"] = found
        return await self._call(each, request, slots, headers)

    async def _call(self, each: Endpoint, request: Request, slots: AnswerSlots, headers: dict[str, str]) -> Response:
        actor = await find_actor(request, self._services, each.who)
        asker = _asker(actor, request)
        if each.limited is not None:
            headers.update(self._rates.user(each.limited, asker))
        return await each.handler(Call(request, self._services, actor, asker, slots))


def _asker(actor: Actor | None, request: Request) -> str:
    """Guests have no name. No user is called as their addresses are here."""
    return actor.name if actor is not None and actor.name else f"from {client_network(address_of(request))}"


def _path_of(request: Request) -> str:
    """Below the prefix, as it was sent."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode("utf-8", "replace")
    return raw.partition(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX)
