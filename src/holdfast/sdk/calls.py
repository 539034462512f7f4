"""API calls as generators that yield I/O steps and receive their results.

They do no I/O: `client.py` runs the same generator with or without asyncio. `endpoint`, `exchange` and `flow` turn such
functions into methods that are typed on both clients.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, get_origin, overload
from urllib.parse import quote

from holdfast.core.errors import Problem

from .errors import ApiError, CannotConnect, UnexpectedReply
from .json_conversion import from_json, to_json

P = ParamSpec("P")
T = TypeVar("T")

LOST_CONNECTION_TIMEOUT = 10.0  # seconds to retry an idempotent call after a lost connection, even with retry_timeout 0
MIN_RETRY_DELAY = 0.05  # seconds
MAX_RETRY_DELAY = 1.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file sent as request body in chunks."""

    path: Path
    size: int
    on_progress: Callable[[int], None] | None = None  # called with the size of each chunk

    @classmethod
    def from_file(cls, file: str | os.PathLike[str], progress: Callable[[int], None] | None) -> Self:
        path = Path(file)
        return cls(path=path, size=path.stat().st_size, on_progress=progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Upload | None = None
    timeout: float | None = None  # seconds without data; None: the timeout of the client


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


# Steps that a generator yields, and what it receives:
#   Request -> Reply; OpenStream -> Reply without its body; ReadChunk -> bytes, empty at the end;
#   Pause -> None; StreamItem -> None.
@dataclass(frozen=True, slots=True)
class OpenStream:
    request: Request


@dataclass(frozen=True, slots=True)
class ReadChunk:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamItem(Generic[T]):
    item: T


Step = Request | OpenStream | ReadChunk | Pause
Steps = Generator[Step, Any, T]
Flow = Generator[Step | StreamItem[T], Any, None]


class RetryTimer:
    """Retry timer; starts at the first failure."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        self._first_failure_at: float | None = None
        self._delay = MIN_RETRY_DELAY

    def next_pause(self, error: Exception) -> Pause:
        """Return the pause before the next try; raise `error` when the time has expired."""
        now = time.monotonic()
        self._first_failure_at = self._first_failure_at if self._first_failure_at is not None else now
        if now - self._first_failure_at >= self.seconds:
            raise error
        delay, self._delay = self._delay, min(MAX_RETRY_DELAY, self._delay * 2)
        return Pause(delay)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and the parser of its reply. `repeatable`: the request is idempotent."""

    request: Request
    parse_reply: Callable[[Reply], T]
    repeatable: bool

    def iter_steps(self, seconds: float) -> Steps[T]:
        retry_timeout = RetryTimer(seconds)
        while True:
            try:
                reply: Reply = yield self.request
                return self.parse_reply(check_reply(reply))
            except CannotConnect as error:
                if error.lost:
                    self._reject_unsafe_retry(error)
                    retry_timeout.seconds = max(retry_timeout.seconds, LOST_CONNECTION_TIMEOUT)
                pause = retry_timeout.next_pause(error)
            except ApiError as error:
                if not is_temporary_error(error):
                    raise
                pause = retry_timeout.next_pause(error)
            yield pause

    def _reject_unsafe_retry(self, error: CannotConnect) -> None:
        if not self.repeatable:
            error.hint = "The request may have been processed: check before you repeat it."
            raise error


def is_temporary_error(error: ApiError) -> bool:
    """Return whether the server rejected the request temporarily."""
    return error.code in ("unavailable", "too_many_requests")


def build_call(
    method: str,
    path: str,
    reply: type[T] | Callable[[Reply], T],
    *,
    params: Mapping[str, object] | None = None,
    body: Mapping[str, object] | None = None,
    content: bytes | Upload | None = None,
    content_type: str = "application/octet-stream",
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    repeatable: bool | None = None,
) -> Call[T]:
    """Build a call of the native API. `reply`: the class of the JSON reply, or a function that parses it. Parameters of
    None are omitted; GET and PUT are repeatable by default."""
    sent = dict(headers or {})
    if body is not None:
        content, content_type = json.dumps(to_json(body)).encode(), "application/json"
    if content is not None:
        sent["Content-Type"] = content_type
    request = Request(
        method=method,
        path="/api/v1" + path,
        params=to_query_params(params or {}),
        headers=sent,
        content=content,
        timeout=timeout,
    )
    is_class = isinstance(reply, type) or get_origin(reply) is not None  # the latter: a generic one with its arguments
    parse = _make_parser(cast(type[T], reply)) if is_class else cast(Callable[[Reply], T], reply)
    return Call(request, parse, method in ("GET", "PUT") if repeatable is None else repeatable)


def drop_none(**values: object) -> dict[str, object]:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def quote_segment(name: str, *, safe: str = "") -> str:
    """Quote a name as a path segment."""
    if not name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ApiError(f"{name!r} not found", code="not_found", status=404)
    return quote(name, safe=safe)


def build_path(*segments: str) -> str:
    """Join names to a path and quote them: jobs, train -> /jobs/train."""
    return "".join(f"/{quote_segment(segment)}" for segment in segments)


def format_time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def to_query_params(params: Mapping[str, object]) -> dict[str, str]:
    found = {}
    for key, value in params.items():
        if value is None or value is False or value == ():
            continue
        if value is True:
            found[key] = "true"
        elif isinstance(value, (list, tuple)):
            found[key] = ",".join(str(item) for item in value)
        else:
            found[key] = str(value)
    return found


# Parsers of replies.


def _make_parser(kind: type[T]) -> Callable[[Reply], T]:
    return lambda reply: from_json(kind, parse_json(reply))


def make_list_parser(kind: type[T]) -> Callable[[Reply], tuple[T, ...]]:
    def parse_list(reply: Reply) -> tuple[T, ...]:
        data = parse_json(reply)
        items = data.get("items") if isinstance(data, dict) else data
        if not isinstance(items, list):
            raise UnexpectedReply("Unexpected response: expected a list")
        return tuple(from_json(kind, item) for item in items)

    return parse_list


def parse_text(reply: Reply) -> str:
    return reply.body.decode("utf-8", "replace")


def ignore_body(reply: Reply) -> None:
    return None


def parse_json(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise UnexpectedReply(
            f"The response (HTTP {reply.status}) is not JSON; this may not be a Holdfast server",
            hint="Check HOLDFAST_URL, or run `holdfast login`.",
        ) from None


def check_reply(reply: Reply) -> Reply:
    """Return a successful reply; raise the error of others."""
    if 200 <= reply.status < 300:
        return reply
    if 300 <= reply.status < 400:
        raise UnexpectedReply(
            f"The server redirects to {reply.headers.get('location', '?')}",
            hint="Use that address if you trust it. Redirects are not followed, to protect your token.",
        )
    raise parse_error(reply)


def parse_error(reply: Reply) -> ApiError | UnexpectedReply:
    """Parse an error response."""
    try:
        error = json.loads(reply.body)["error"]
        return ApiError(
            str(error["message"]),
            code=str(error["code"]),
            status=reply.status,
            hint=error.get("hint"),
            field=error.get("field"),
            problems=tuple(_parse_problem(item) for item in error.get("problems") or ()),
            request_id=error.get("request_id"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return UnexpectedReply(
            f"Unexpected response (HTTP {reply.status}); this may not be a Holdfast server",
            hint="Check HOLDFAST_URL and any proxy in between.",
        )


def _parse_problem(item: Mapping[str, Any]) -> Problem:
    return Problem(
        field=str(item.get("field") or ""),
        message=str(item.get("message") or ""),
        hint=item.get("hint"),
        line=item.get("line"),
    )


# Decorators that turn call functions into methods of both clients.


class SyncRunner:
    """A client whose methods return results."""

    retry_timeout: float

    def run(self, steps: Steps[T]) -> T:
        raise NotImplementedError

    def run_flow(self, flow: Flow[T]) -> Iterator[T]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRunner:
    """A client whose methods return coroutines and asynchronous iterators."""

    retry_timeout: float

    async def run(self, steps: Steps[T]) -> T:
        raise NotImplementedError

    def run_flow(self, flow: Flow[T]) -> AsyncIterator[T]:
        raise NotImplementedError


class _ClientMethod(Generic[P]):
    """A descriptor that binds a function to a client, which runs what it builds."""

    def __init__(self, build: Callable[Concatenate[Any, P], Any]) -> None:
        self._build = build
        self.__doc__ = build.__doc__
        self.__wrapped__ = build

    def _bind_to_client(self, client: Any, runner: str) -> Any:
        if client is None:
            return self

        @wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, runner)(self._build(client, *args, **kwargs))

        return method


class CallMethod(_ClientMethod[P], Generic[P, T]):
    """A method that returns T on a SyncRunner, and a coroutine of T on an AsyncRunner."""

    def __init__(self, build: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        super().__init__(build)

    @overload
    def __get__(self, client: None, owner: type) -> CallMethod[P, T]: ...
    @overload
    def __get__(self, client: SyncRunner, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._bind_to_client(client, "run")


class StreamMethod(_ClientMethod[P], Generic[P, T]):
    """A method that returns an iterator on a SyncRunner, and an asynchronous one on an AsyncRunner."""

    def __init__(self, build: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        super().__init__(build)

    @overload
    def __get__(self, client: None, owner: type) -> StreamMethod[P, T]: ...
    @overload
    def __get__(self, client: SyncRunner, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._bind_to_client(client, "run_flow")


def endpoint(build: Callable[Concatenate[Any, P], Call[T]]) -> CallMethod[P, T]:
    """Make a method of one call, with retries."""

    @wraps(build)
    def build_steps(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return build(client, *args, **kwargs).iter_steps(client.retry_timeout)

    return CallMethod(build_steps)


multi_call = CallMethod  # decorates a generator of several calls
stream_method = StreamMethod  # decorates a generator of items
