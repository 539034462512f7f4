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
from holdfast.server.origin import origin_of
from holdfast.services import Services
from holdfast.store.jobs.records import JobDetail

from ..errors import PhError

T = TypeVar("T")
Info = GraphQLResolveInfo[Any]

BUDGET = 400_000  # values that one answer may be made of
MAX_IN_LIST = 100_000  # of them in one list: what is made of it in one go, while everybody else waits
A_STEP = 500  # of them; more in one go wait until others have had theirs
LOOK_UP = 10  # values; about what it costs to look for something that may be there already
BATCH_SIZE = 2000  # values an answer is made of before it has to wait for its turn
MAX_EXPLAINED = 20  # jobs of one answer; each is compared with the queue and the machines
MAX_TASKS = 200  # of a job that is explained


@dataclass(slots=True)
class Call:
    request: Request
    services: Services
    actor: Actor
    fields: int  # that the query names
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of all requests together
    _spent: int = 0
    _explained: int = 0
    _made: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Scheme and host as the client wrote them."""
        return origin_of(self.request)

    def spend(self, rows: int) -> None:
        """Before this many rows are shown. Lists within lists grow without end, whatever a query looks like."""
        self._spend(BUDGET + 1 if rows * self.fields > MAX_IN_LIST else rows * self.fields)

    def spend_values(self, values: int) -> None:
        """The same for what has no fields to choose from."""
        self._spend(values)

    async def take(self, rows: int) -> None:
        """The same, and wait for one's turn if it is much: what follows is done in one go."""
        self.spend(rows)
        if rows * self.fields > A_STEP:
            await self._wait()

    async def _wait(self) -> None:
        async with self.turn:
            await asyncio.sleep(0)

    def _spend(self, values: int) -> None:
        self._spent += values
        if self._spent > BUDGET:
            raise PhError("The query asks for too much at once. Ask for fewer lists within lists, or for fewer fields.")

    @property
    def is_long(self) -> bool:
        """Of so many values that others should not wait for it."""
        return self._spent > BATCH_SIZE

    def waiting(self, detail: JobDetail) -> Sequence[str]:
        """Why a job waits; of the first few in an answer."""
        if detail.summary.state is not JobState.PENDING or detail.summary.task_count > MAX_TASKS:
            return ()
        self._explained += 1
        return (self.services.jobs.waiting(detail) or ()) if self._explained <= MAX_EXPLAINED else ()

    async def once(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What was looked up for one field of this request is there for the others. Once there are many, they go on one
        after the other, and whoever else asks for anything in between."""
        self._spend(LOOK_UP)
        if self.is_long:
            await self._wait()
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = asyncio.ensure_future(make())
        return cast(T, await asyncio.shield(found))


def call_of(info: Info) -> Call:
    return cast(Call, info.context)
