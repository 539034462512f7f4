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
from holdfast.server.openpai.log_links import origin_of
from holdfast.services import Services
from holdfast.store.jobs import JobDetail

from .errors import PhError

T = TypeVar("T")
Info = GraphQLResolveInfo[Any]

BUDGET = 400_000  # values that one answer may be made of
MOST_EXPLAINED = 20  # jobs of one answer; each is compared with the queue and the machines
MOST_TASKS = 200  # of a job that is explained


@dataclass(slots=True)
class Call:
    request: Request
    services: Services
    actor: Actor
    fields: int  # that the query names
    weight: int = 0  # about how many bytes of text the answer has
    _spent: int = 0
    _explained: int = 0
    _made: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Scheme and host as the client wrote them."""
        return origin_of(self.request)

    def spend(self, rows: int) -> None:
        """Before this many rows are shown. Lists within lists grow without end, whatever a query looks like."""
        self._spent += rows * self.fields
        if self._spent > BUDGET:
            raise PhError("The query asks for too much at once. Ask for fewer lists within lists, or for fewer fields.")

    def weigh(self, size: int) -> None:
        """A text of that many letters will be in the answer."""
        self.weight += size

    def waiting(self, detail: JobDetail) -> Sequence[str]:
        """Why a job waits; of the first few in an answer."""
        if detail.summary.state is not JobState.PENDING or detail.summary.task_count > MOST_TASKS:
            return ()
        self._explained += 1
        return (self.services.jobs.waiting(detail) or ()) if self._explained <= MOST_EXPLAINED else ()

    async def once(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What was looked up for one field of this request is there for the others."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = asyncio.ensure_future(make())
        return cast(T, await asyncio.shield(found))


def call_of(info: Info) -> Call:
    return cast(Call, info.context)
