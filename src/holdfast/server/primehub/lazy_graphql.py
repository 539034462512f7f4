"""Loads GraphQL at the first request: its library and schema take 20 MB, which installations without PrimeHub's clients
save."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from holdfast.services import Services

if TYPE_CHECKING:
    from .graphql_endpoint import GraphQLApi


class LazyGraphQL:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._api: GraphQLApi | None = None
        self._build_lock = asyncio.Lock()

    async def handle_request(self, request: Request) -> Response:
        return await (self._api or await self._load_api()).handle_request(request)

    async def _load_api(self) -> GraphQLApi:
        async with self._build_lock:
            if self._api is None:
                self._api = await asyncio.to_thread(self._build_api)
            return self._api

    def _build_api(self) -> GraphQLApi:
        from .graphql_endpoint import GraphQLApi

        return GraphQLApi(self._services)
