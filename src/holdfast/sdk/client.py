"""The two clients. They differ only in how they wait: what they say is written once, in the calls they inherit."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from .account import AccountCalls
from .address import Address, find_address
from .catalogue import CatalogueCalls
from .datasets import DatasetCalls
from .errors import CannotConnect
from .exchange import Awaiting, Blocking, Flow, Give, Open, Pause, Reply, Request, Step, Steps, Take
from .files import FileCalls
from .installation import PlaceCalls
from .jobs import JobCalls
from .logs import LogCalls
from .metrics import MetricCalls
from .notifications import NotificationCalls
from .people import PeopleCalls
from .schedules import ScheduleCalls
from .secrets import SecretCalls
from .ssh_access import EnteringCalls
from .storage import StorageCalls
from .why import WhyCalls
from .wire import (
    as_arguments,
    as_reply,
    options,
    pieces_of,
    pieces_of_async,
    prove_connections,
    prove_connections_async,
    translated,
)

T = TypeVar("T")


class Calls(
    CatalogueCalls,
    JobCalls,
    WhyCalls,
    ScheduleCalls,
    LogCalls,
    MetricCalls,
    PeopleCalls,
    AccountCalls,
    NotificationCalls,
    DatasetCalls,
    SecretCalls,
    FileCalls,
    EnteringCalls,
    PlaceCalls,
    StorageCalls,
):
    """Every call there is."""


class Client(Calls, Blocking):
    """A client for plain code. `with Client() as client: client.submit(...)`

    Without arguments it takes HOLDFAST_URL and HOLDFAST_TOKEN, else the saved login, else the server on this machine.
    `anonymous`: send no token, as before `login`. `patience` is how many seconds a call is tried again while no server
    answers; `timeout` bounds one silent answer.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: Path | None = None,
        anonymous: bool = False,
        patience: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        self.address = find_address(url, token, home=home, anonymous=anonymous)
        self.patience = patience
        self._http = httpx.Client(**options(self.address, timeout))

    def run(self, steps: Steps[T]) -> T:
        with closing(self.pour(_single(steps))) as items:
            return next(items)

    def pour(self, flow: Flow[T]) -> Generator[T, None, None]:
        line, outcome = _Line(self._http, self.address), _Outcome()
        with closing(line), closing(flow):
            while (step := outcome.advance(flow)) is not None:
                if isinstance(step, Give):
                    yield step.item
                    continue
                try:
                    outcome.answer = line.perform(step)
                except CannotConnect as error:
                    outcome.failure = error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address.url!r})"


class AsyncClient(Calls, Awaiting):
    """The same for asyncio. `async with AsyncClient() as client: await client.submit(...)`"""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: Path | None = None,
        anonymous: bool = False,
        patience: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        self.address = find_address(url, token, home=home, anonymous=anonymous)
        self.patience = patience
        self._http = httpx.AsyncClient(**options(self.address, timeout))

    async def run(self, steps: Steps[T]) -> T:
        async with aclosing(self.pour(_single(steps))) as items:
            return await anext(items)

    async def pour(self, flow: Flow[T]) -> AsyncGenerator[T, None]:
        line, outcome = _AsyncLine(self._http, self.address), _Outcome()
        async with aclosing(line):
            with closing(flow):
                while (step := outcome.advance(flow)) is not None:
                    if isinstance(step, Give):
                        yield step.item
                        continue
                    try:
                        outcome.answer = await line.perform(step)
                    except CannotConnect as error:
                        outcome.failure = error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self.address.url!r})"


def _single(steps: Steps[T]) -> Flow[T]:
    result = yield from steps
    yield Give(result)


class _Outcome:
    """What the last step brought, to be handed back to the generator that asked for it."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.failure: CannotConnect | None = None

    def advance(self, flow: Flow[T]) -> Step | Give[T] | None:
        """The next step, or None at the end."""
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            return flow.throw(failure) if failure else flow.send(answer)
        except StopIteration:
            return None


class _Line:
    """Performs steps; holds the one answer that is being streamed."""

    def __init__(self, http: httpx.Client, address: Address) -> None:
        self._http = http
        self._address = address
        self._open: httpx.Response | None = None
        self._pieces: Iterator[bytes] | None = None

    def perform(self, step: Step) -> Any:
        with translated(self._address, step):
            match step:
                case Pause():
                    time.sleep(step.seconds)
                case Take():
                    return self._take()
                case Open():
                    return self._begin(step.request)
                case Request():
                    return as_reply(self._http.send(self._build(step)))
        return None

    def _take(self) -> bytes:
        assert self._pieces is not None, "taken before it was opened"
        return next((piece for piece in self._pieces if piece), b"")

    def _begin(self, request: Request) -> Reply:
        self.close()
        self._open = self._http.send(self._build(request), stream=True)
        if self._open.status_code >= 300:
            self._open.read()
            return as_reply(self._open)
        self._pieces = self._open.iter_raw()
        return as_reply(self._open, body=b"")

    def _build(self, request: Request) -> httpx.Request:
        proof = prove_connections(self._address, request.timeout or self._http.timeout.read)
        return self._http.build_request(**as_arguments(request, pieces_of), extensions=proof)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = self._pieces = None


class _AsyncLine:
    """The same, awaiting."""

    def __init__(self, http: httpx.AsyncClient, address: Address) -> None:
        self._http = http
        self._address = address
        self._open: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def perform(self, step: Step) -> Any:
        with translated(self._address, step):
            match step:
                case Pause():
                    await _sleep(step.seconds)
                case Take():
                    return await self._take()
                case Open():
                    return await self._begin(step.request)
                case Request():
                    return as_reply(await self._http.send(self._build(step)))
        return None

    async def _take(self) -> bytes:
        assert self._pieces is not None, "taken before it was opened"
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def _begin(self, request: Request) -> Reply:
        await self.aclose()
        self._open = await self._http.send(self._build(request), stream=True)
        if self._open.status_code >= 300:
            await self._open.aread()
            return as_reply(self._open)
        self._pieces = self._open.aiter_raw()
        return as_reply(self._open, body=b"")

    def _build(self, request: Request) -> httpx.Request:
        proof = prove_connections_async(self._address, request.timeout or self._http.timeout.read)
        return self._http.build_request(**as_arguments(request, pieces_of_async), extensions=proof)

    async def aclose(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = self._pieces = None


async def _sleep(seconds: float) -> None:
    import asyncio  # not needed by those who do not await, and slow to load

    await asyncio.sleep(seconds)
