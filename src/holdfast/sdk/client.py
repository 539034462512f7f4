"""The synchronous and the asyncio client. Both inherit the same calls and differ only in their I/O."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import httpx

from .account import AccountCalls
from .address import Address, find_address
from .calls import AsyncRunner, Flow, OpenStream, Pause, ReadChunk, Reply, Request, Step, Steps, StreamItem, SyncRunner
from .catalogue import CatalogueCalls
from .datasets import DatasetCalls
from .errors import CannotConnect
from .files import FileCalls
from .httpx_adapter import (
    build_async_proof_extensions,
    build_client_options,
    build_proof_extensions,
    build_request_arguments,
    iter_upload_chunks,
    iter_upload_chunks_async,
    to_reply,
    translate_errors,
)
from .installation import ServerCalls
from .jobs import JobCalls
from .logs import LogCalls
from .metrics import MetricCalls
from .notifications import NotificationCalls
from .people import PeopleCalls
from .schedules import ScheduleCalls
from .secrets import SecretCalls
from .ssh_access import TaskAccessCalls
from .storage import StorageCalls
from .why import WhyCalls

T = TypeVar("T")
HttpClientT = TypeVar("HttpClientT", bound=httpx.Client | httpx.AsyncClient)


class ApiCalls(
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
    TaskAccessCalls,
    ServerCalls,
    StorageCalls,
):
    """All calls of the API."""


class _HttpClient(ApiCalls, Generic[HttpClientT]):
    """What both clients share: the address and the connections to it."""

    _http_class: type[HttpClientT]

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: Path | None = None,
        anonymous: bool = False,
        retry_timeout: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        self.address = find_address(url, token, home=home, anonymous=anonymous)
        self.retry_timeout = retry_timeout
        self._http = self._http_class(**build_client_options(self.address, timeout))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address.url!r})"


class Client(_HttpClient[httpx.Client], SyncRunner):
    """A synchronous client. `with Client() as client: client.submit(...)`

    Without arguments it uses HOLDFAST_URL and HOLDFAST_TOKEN, else the saved login, else the server on this machine.
    `anonymous`: send no token, as before `login`. `retry_timeout`: seconds to retry a call while no server responds.
    `timeout`: seconds without data from the server.
    """

    _http_class = httpx.Client

    def run(self, steps: Steps[T]) -> T:
        with closing(self.run_flow(_yield_result(steps))) as items:
            return next(items)

    def run_flow(self, flow: Flow[T]) -> Generator[T, None, None]:
        runner, outcome = _StepRunner(self._http, self.address), _StepResult()
        with closing(runner), closing(flow):
            while (step := outcome.advance_flow(flow)) is not None:
                if isinstance(step, StreamItem):
                    yield step.item
                    continue
                try:
                    outcome.answer = runner.perform_step(step)
                except CannotConnect as error:
                    outcome.failure = error

    def close(self) -> None:
        self._http.close()


class AsyncClient(_HttpClient[httpx.AsyncClient], AsyncRunner):
    """An asyncio client. `async with AsyncClient() as client: await client.submit(...)`"""

    _http_class = httpx.AsyncClient

    async def run(self, steps: Steps[T]) -> T:
        async with aclosing(self.run_flow(_yield_result(steps))) as items:
            return await anext(items)

    async def run_flow(self, flow: Flow[T]) -> AsyncGenerator[T, None]:
        runner, outcome = _AsyncStepRunner(self._http, self.address), _StepResult()
        async with aclosing(runner):
            with closing(flow):
                while (step := outcome.advance_flow(flow)) is not None:
                    if isinstance(step, StreamItem):
                        yield step.item
                        continue
                    try:
                        outcome.answer = await runner.perform_step(step)
                    except CannotConnect as error:
                        outcome.failure = error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _yield_result(steps: Steps[T]) -> Flow[T]:
    result = yield from steps
    yield StreamItem(result)


class _StepResult:
    """The result of the last step, to send to the generator."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.failure: CannotConnect | None = None

    def advance_flow(self, flow: Flow[T]) -> Step | StreamItem[T] | None:
        """Return the next step, or None at the end."""
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            return flow.throw(failure) if failure else flow.send(answer)
        except StopIteration:
            return None


class _StepRunner:
    """Performs steps with httpx, and keeps the open streaming response."""

    def __init__(self, http: httpx.Client, address: Address) -> None:
        self._http = http
        self._address = address
        self._open_response: httpx.Response | None = None
        self._chunks: Iterator[bytes] | None = None

    def perform_step(self, step: Step) -> Any:
        with translate_errors(self._address, step):
            match step:
                case Pause():
                    time.sleep(step.seconds)
                case ReadChunk():
                    return self._read_chunk()
                case OpenStream():
                    return self._open_stream(step.request)
                case Request():
                    return to_reply(self._http.send(self._build_request(step)))
        return None

    def _read_chunk(self) -> bytes:
        assert self._chunks is not None, "no open response"
        return next((chunk for chunk in self._chunks if chunk), b"")

    def _open_stream(self, request: Request) -> Reply:
        self.close()
        self._open_response = self._http.send(self._build_request(request), stream=True)
        if self._open_response.status_code >= 300:
            self._open_response.read()
            return to_reply(self._open_response)
        self._chunks = self._open_response.iter_raw()
        return to_reply(self._open_response, body=b"")

    def _build_request(self, request: Request) -> httpx.Request:
        proof = build_proof_extensions(self._address, request.timeout or self._http.timeout.read)
        return self._http.build_request(**build_request_arguments(request, iter_upload_chunks), extensions=proof)

    def close(self) -> None:
        if self._open_response is not None:
            self._open_response.close()
            self._open_response = self._chunks = None


class _AsyncStepRunner:
    """The asyncio version of `_StepRunner`."""

    def __init__(self, http: httpx.AsyncClient, address: Address) -> None:
        self._http = http
        self._address = address
        self._open_response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def perform_step(self, step: Step) -> Any:
        with translate_errors(self._address, step):
            match step:
                case Pause():
                    await _sleep(step.seconds)
                case ReadChunk():
                    return await self._read_chunk()
                case OpenStream():
                    return await self._open_stream(step.request)
                case Request():
                    return to_reply(await self._http.send(self._build_request(step)))
        return None

    async def _read_chunk(self) -> bytes:
        assert self._chunks is not None, "no open response"
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return b""

    async def _open_stream(self, request: Request) -> Reply:
        await self.aclose()
        self._open_response = await self._http.send(self._build_request(request), stream=True)
        if self._open_response.status_code >= 300:
            await self._open_response.aread()
            return to_reply(self._open_response)
        self._chunks = self._open_response.aiter_raw()
        return to_reply(self._open_response, body=b"")

    def _build_request(self, request: Request) -> httpx.Request:
        proof = build_async_proof_extensions(self._address, request.timeout or self._http.timeout.read)
        return self._http.build_request(**build_request_arguments(request, iter_upload_chunks_async), extensions=proof)

    async def aclose(self) -> None:
        if self._open_response is not None:
            await self._open_response.aclose()
            self._open_response = self._chunks = None


async def _sleep(seconds: float) -> None:
    import asyncio  # slow to load, and not needed by synchronous code

    await asyncio.sleep(seconds)
