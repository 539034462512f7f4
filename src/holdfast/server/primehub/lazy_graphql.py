"""GraphQL, once somebody asks: its library and the schema take 20 MB, which places without PrimeHub's clients can do
without."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from holdfast.services import Services

if TYPE_CHECKING:
    from .graphql_endpoint import GraphQLApi


class GraphQLLater:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._api: GraphQLApi | None = None
        self._building = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        return await (self._api or await self._built()).answer(request)

    async def _built(self) -> GraphQLApi:
        async with self._building:
            if self._api is None:
                self._api = await asyncio.to_thread(self._build)
            return self._api

    def _build(self) -> GraphQLApi:
        from .graphql_endpoint import GraphQLApi

        return GraphQLApi(self._services)
