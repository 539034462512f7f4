"""POST /api/graphql: parse, validate and execute a query."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from graphql import execute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.server.auth import read_bearer_token
from holdfast.server.errors import get_request_id
from holdfast.server.responses import respond_json
from holdfast.services import Services
from holdfast.services.fair_limiter import FairLimiter
from holdfast.store.errors import StoreError

from .errors import PrimeHubError, build_store_error, respond_graphql_error, respond_not_logged_in
from .graphql.bodies import GraphQLRequest, read_graphql_request
from .graphql.call import Call
from .graphql.field_errors import field_error_to_json
from .graphql.query_cache import ParsedQuery, QueryCache, QueryRejected
from .graphql.response_writer import ResponseWriter
from .schema import build_schema

log = logging.getLogger(__name__)

MAX_WIDE_QUERIES = 2  # wide queries at a time, one per user
MAX_NARROW_FIELDS = 50  # fields; most queries have fewer, and each costs time for every row


class GraphQLApi:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._schema = build_schema()
        self._query_cache = QueryCache(self._schema)
        self._introspection_lock = asyncio.Lock()
        self._turn_lock = asyncio.Lock()  # of requests with long responses
        self._wide_query_limiter = FairLimiter(MAX_WIDE_QUERIES)
        self._writer = ResponseWriter()

    async def handle_request(self, request: Request) -> Response:
        if request.method != "POST":
            return _respond_method_not_allowed(request)
        try:
            actor = await self._services.tokens.resolve_actor(read_bearer_token(request))
            return await self._handle_query(request, actor)
        except NotLoggedIn:
            return respond_not_logged_in()
        except StoreError as error:
            log.error("database error", extra={"event": "store", "error": str(error)})
            return respond_graphql_error(build_store_error(error), 503)
        except HTTPException as error:  # the body is too large, detected while reading
            response = respond_graphql_error(PrimeHubError(error.detail), error.status_code)
            response.headers["Connection"] = "close"
            return response

    async def _handle_query(self, request: Request, actor: Actor) -> Response:
        try:
            asked = await read_graphql_request(request)
            document = await self._query_cache.get_query(asked.query)
        except PrimeHubError as error:
            return respond_graphql_error(error, 400)
        except QueryRejected as refused:
            shown = [field_error_to_json(error, get_request_id(request)) for error in refused.errors]
            return respond_json({"errors": shown, "data": None}, 400)
        if document.fields <= MAX_NARROW_FIELDS:
            return await self._execute_query(request, actor, asked, document)
        async with self._wide_query_limiter.use_slot(actor.name):
            return await self._execute_query(request, actor, asked, document)

    async def _execute_query(
        self, request: Request, actor: Actor, asked: GraphQLRequest, document: ParsedQuery
    ) -> Response:
        call = Call(request, self._services, actor, document.fields, self._turn_lock)
        if document.is_introspection:
            async with self._introspection_lock:  # large, and not needed twice
                result = await asyncio.to_thread(self._run_query, call, asked, document)
        else:
            result = self._run_query(call, asked, document)
        if inspect.isawaitable(result):
            result = await result
        long = call.is_long_response or document.is_introspection
        return await self._writer.build_response(result, get_request_id(request), long=long)

    def _run_query(self, call: Call, asked: GraphQLRequest, document: ParsedQuery) -> Any:
        return execute(
            self._schema,
            document.node,
            context_value=call,
            variable_values=asked.variables,
            operation_name=asked.operation,
            max_coercion_errors=20,
        )


def _respond_method_not_allowed(request: Request) -> Response:
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": "OPTIONS, POST"})
    response = respond_graphql_error(PrimeHubError("Send queries with POST, as a form or as JSON."), 405)
    response.headers["Allow"] = "OPTIONS, POST"
    return response
