"""One GraphQL request as resolvers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from graphql import GraphQLResolveInfo
from starlette.requests import Request

from holdfast.core.access import Actor
from holdfast.core.states import JobState
from holdfast.server.origin import get_origin
from holdfast.services import Services
from holdfast.store.jobs.records import JobDetail

from ..errors import PrimeHubError

T = TypeVar("T")
Info = GraphQLResolveInfo[Any]

MAX_RESPONSE_VALUES = 400_000  # values in one response
MAX_LIST_VALUES = 100_000  # of them in one list, which is built without a break while other requests wait
STEP_SIZE = 500  # of them; a larger step waits until other requests had a turn
LOOKUP_COST = 10  # values; about the cost of a cached lookup
MAX_SHORT_RESPONSE_VALUES = 2000  # values in a response before it waits for its turn
MAX_EXPLAINED_JOBS = 20  # jobs in one response; each is compared with the queue and the nodes
MAX_EXPLAINED_TASKS = 200  # of a job whose wait is explained


@dataclass(slots=True)
class Call:
    request: Request
    services: Services
    actor: Actor
    fields: int  # fields in the query
    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # of all requests
    _spent_values: int = 0
    _explained: int = 0
    _lookups: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Scheme and host from the request."""
        return get_origin(self.request)

    def spend_rows(self, rows: int) -> None:
        """Count rows before they are rendered, because nested lists have no other limit."""
        self._spend_budget(MAX_RESPONSE_VALUES + 1 if rows * self.fields > MAX_LIST_VALUES else rows * self.fields)

    def spend_values(self, values: int) -> None:
        """Count values of a field without subfields."""
        self._spend_budget(values)

    async def spend_rows_and_yield(self, rows: int) -> None:
        """Count rows, and wait for a turn if they are many: what follows blocks other requests."""
        self.spend_rows(rows)
        if rows * self.fields > STEP_SIZE:
            await self._wait_for_turn()

    async def _wait_for_turn(self) -> None:
        async with self.turn_lock:
            await asyncio.sleep(0)

    def _spend_budget(self, values: int) -> None:
        self._spent_values += values
        if self._spent_values > MAX_RESPONSE_VALUES:
            raise PrimeHubError("The query requests too much data. Request fewer nested lists or fewer fields.")

    @property
    def is_long_response(self) -> bool:
        """Whether the response has so many values that other requests should go first."""
        return self._spent_values > MAX_SHORT_RESPONSE_VALUES

    def list_wait_reasons(self, detail: JobDetail) -> Sequence[str]:
        """Return why a job waits; only for the first few in a response."""
        if detail.summary.state is not JobState.PENDING or detail.summary.task_count > MAX_EXPLAINED_TASKS:
            return ()
        self._explained += 1
        return (self.services.jobs.list_wait_reasons(detail) or ()) if self._explained <= MAX_EXPLAINED_JOBS else ()

    async def load_once(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Cache a lookup of this request. After many, they run one by one, so that other requests get a turn."""
        self._spend_budget(LOOKUP_COST)
        if self.is_long_response:
            await self._wait_for_turn()
        found = self._lookups.get(key)
        if found is None:
            found = self._lookups[key] = asyncio.ensure_future(make())
        return cast(T, await asyncio.shield(found))


def get_call(info: Info) -> Call:
    return cast(Call, info.context)
