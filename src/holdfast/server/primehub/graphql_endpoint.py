"""POST /api/graphql: read, checked, executed, answered."""

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
from holdfast.server.answers import answer
from holdfast.server.auth import bearer_token
from holdfast.server.errors import request_id_of
from holdfast.services import Services
from holdfast.services.fair_limiter import FairLimiter
from holdfast.store.errors import StoreError

from .errors import PhError, answer_not_logged_in, answer_refusal, store_failed
from .graphql.bodies import Asked, read_asked
from .graphql.call import Call
from .graphql.documents import Document, Documents, Refused
from .graphql.field_errors import describe
from .graphql.writing import Writer
from .schema import build_schema

log = logging.getLogger(__name__)

MAX_WIDE = 2  # wide queries at a time, one of each user
NARROW = 50  # fields; most queries of clients have fewer, and each costs time once for every row


class GraphQLApi:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._schema = build_schema()
        self._documents = Documents(self._schema)
        self._about_schema = asyncio.Lock()
        self._turn = asyncio.Lock()  # of those that make long answers
        self._wide = FairLimiter(MAX_WIDE)
        self._writer = Writer()

    async def answer(self, request: Request) -> Response:
        if request.method != "POST":
            return _only_post(request)
        try:
            actor = await self._services.tokens.actor(bearer_token(request))
            return await self._answer(request, actor)
        except NotLoggedIn:
            return answer_not_logged_in()
        except StoreError as error:
            log.error("the store could not do it", extra={"event": "store", "error": str(error)})
            return answer_refusal(store_failed(error), 503)
        except HTTPException as error:  # the body is too large, found out while reading
            response = answer_refusal(PhError(error.detail), error.status_code)
            response.headers["Connection"] = "close"
            return response

    async def _answer(self, request: Request, actor: Actor) -> Response:
        try:
            asked = await read_asked(request)
            document = await self._documents.get(asked.query)
        except PhError as error:
            return answer_refusal(error, 400)
        except Refused as refused:
            shown = [describe(error, request_id_of(request)) for error in refused.errors]
            return answer({"errors": shown, "data": None}, 400)
        if document.fields <= NARROW:
            return await self._execute(request, actor, asked, document)
        async with self._wide.slot(actor.name):
            return await self._execute(request, actor, asked, document)

    async def _execute(self, request: Request, actor: Actor, asked: Asked, document: Document) -> Response:
        call = Call(request, self._services, actor, document.fields, self._turn)
        if document.about_schema:
            async with self._about_schema:  # long, and of no use to have twice at a time
                result = await asyncio.to_thread(self._run, call, asked, document)
        else:
            result = self._run(call, asked, document)
        if inspect.isawaitable(result):
            result = await result
        long = call.is_long or document.about_schema
        return await self._writer.write(result, request_id_of(request), long=long)

    def _run(self, call: Call, asked: Asked, document: Document) -> Any:
        return execute(
            self._schema,
            document.node,
            context_value=call,
            variable_values=asked.variables,
            operation_name=asked.operation,
            max_coercion_errors=20,
        )


def _only_post(request: Request) -> Response:
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": "OPTIONS, POST"})
    response = answer_refusal(PhError("Send queries with POST, as a form or as JSON."), 405)
    response.headers["Allow"] = "OPTIONS, POST"
    return response
