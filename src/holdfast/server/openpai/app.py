"""OpenPAI's REST server, below /rest-server: its endpoints and messages on top of our services."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.access import Actor
from holdfast.core.errors import UserError
from holdfast.server.auth import get_client_address
from holdfast.services import Services
from holdfast.services.client_network import get_client_network
from holdfast.store.errors import StoreError

from ..compression import compress_response
from . import handlers as handlers  # registers every endpoint
from .auth import find_actor, find_user_name
from .call import Call
from .endpoints import ENDPOINTS, Endpoint
from .errors import PaiError, build_no_api_error, build_store_error, render_pai_error, respond_error
from .rate_limits import RateLimitExceeded, RateLimits, respond_rate_limited
from .response_limits import ResponseLimits, ResponseSlots
from .routes import PREFIX, EndpointRoutes

log = logging.getLogger(__name__)


class RestServer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = EndpointRoutes(ENDPOINTS)
        self._rate_limits = RateLimits(services.settings.openpai)
        self._response_limits = ResponseLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, slots = Request(scope, receive), ResponseSlots(self._response_limits)
        try:
            response = await self._handle_request(request, slots)
            await compress_response(request, response)
            slots.release_build_slot()
            await response(scope, receive, send)
        finally:
            slots.release_slots()

    async def _handle_request(self, request: Request, slots: ResponseSlots) -> Response:
        """Handle a request. Unexpected errors are logged by the outermost middleware."""
        headers: dict[str, str] = {}
        try:
            user = await find_user_name(request, self._services)
            headers = self._rate_limits.count_request(user, get_client_address(request))
            response = await self._dispatch_request(request, slots, headers)
        except RateLimitExceeded as error:
            return respond_rate_limited(error)
        except (PaiError, UserError) as error:
            response = render_pai_error(error)
        except HTTPException as error:  # the body is too large, detected while reading
            response = respond_error(error.status_code, "InvalidParametersError", error.detail, {"Connection": "close"})
        except StoreError as error:
            log.error("database error", extra={"event": "store", "error": str(error)})
            response = render_pai_error(build_store_error(error))
        response.headers.update(headers)
        return response

    async def _dispatch_request(self, request: Request, slots: ResponseSlots, headers: dict[str, str]) -> Response:
        path = _get_raw_path(request)
        found = self._routes.find_endpoint(request.method, path)
        if found is None:
            query = request.url.query
            raise build_no_api_error(f"{path}?{query}" if query else path, request.method)
        each, request.scope["path_params"] = found
        return await self._call_endpoint(each, request, slots, headers)

    async def _call_endpoint(
        self, each: Endpoint, request: Request, slots: ResponseSlots, headers: dict[str, str]
    ) -> Response:
        actor = await find_actor(request, self._services, each.access_level)
        asker = _get_limit_key(actor, request)
        if each.rate_limited_action is not None:
            headers.update(self._rate_limits.count_action(each.rate_limited_action, asker))
        return await each.handler(Call(request, self._services, actor, asker, slots))


def _get_limit_key(actor: Actor | None, request: Request) -> str:
    """Return the user's name, or a key for a guest that no user name can equal."""
    return actor.name if actor is not None and actor.name else f"from {get_client_network(get_client_address(request))}"


def _get_raw_path(request: Request) -> str:
    """Return the path below the prefix, as it was sent."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode("utf-8", "replace")
    return raw.partition(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX)
