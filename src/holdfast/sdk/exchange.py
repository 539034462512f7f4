"""Each call is written once, as a generator that yields what it wants done and is sent what came back.

It does no I/O itself: `client.py` runs the same generator with or without asyncio. `endpoint`, `exchange` and `flow`
turn such functions into methods that are typed on both clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

from holdfast.core.errors import Problem

from .errors import ApiError, CannotConnect, UnexpectedReply
from .reading import dump, read

P = ParamSpec("P")
T = TypeVar("T")

LOST_TIMEOUT = 10.0  # seconds a safe call is tried again after a broken connection, even by an impatient client
FIRST_DELAY = 0.05
MAX_DELAY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file sent as a request's body, read piece by piece."""

    path: Path
    size: int
    progress: Callable[[int], None] | None = None  # told the size of each piece sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Upload | None = None
    timeout: float | None = None  # seconds without a sign of life; None: the client's own


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


# What a generator may ask for, and what it is sent:
#   Request -> Reply; Open -> Reply without its body; Take -> bytes, empty at the end; Pause -> None; Give -> None.
@dataclass(frozen=True, slots=True)
class Open:
    request: Request


@dataclass(frozen=True, slots=True)
class Take:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Give(Generic[T]):
    item: T


Step = Request | Open | Take | Pause
Steps = Generator[Step, Any, T]
Flow = Generator[Step | Give[T], Any, None]


class Patience:
    """How long to go on trying; starts to run at the first failure."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        self._since: float | None = None
        self._delay = FIRST_DELAY

    def pause(self, error: Exception) -> Pause:
        """How long to wait before the next try; raises `error` when patience is at its end."""
        now = time.monotonic()
        self._since = self._since if self._since is not None else now
        if now - self._since >= self.seconds:
            raise error
        delay, self._delay = self._delay, min(MAX_DELAY, self._delay * 2)
        return Pause(delay)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how its reply is read. `repeatable`: sending it twice does no more than sending it once."""

    request: Request
    read: Callable[[Reply], T]
    repeatable: bool

    def steps(self, seconds: float) -> Steps[T]:
        patience = Patience(seconds)
        while True:
            try:
                reply: Reply = yield self.request
                return self.read(checked(reply))
            except CannotConnect as error:
                if error.lost:
                    self._refuse_unsafe(error)
                    patience.seconds = max(patience.seconds, LOST_TIMEOUT)
                pause = patience.pause(error)
            except ApiError as error:
                if not busy(error):
                    raise
                pause = patience.pause(error)
            yield pause

    def _refuse_unsafe(self, error: CannotConnect) -> None:
        if not self.repeatable:
            error.hint = "It is not known whether the request was carried out: look before you repeat it."
            raise error


def busy(error: ApiError) -> bool:
    """The server turned the request away unread; a later try may pass."""
    return error.code in ("unavailable", "too_many_requests")


def call(
    method: str,
    path: str,
    reader: Callable[[Reply], T],
    *,
    params: Mapping[str, object] | None = None,
    body: Mapping[str, object] | None = None,
    content: bytes | Upload | None = None,
    content_type: str = "application/octet-stream",
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    repeatable: bool | None = None,
) -> Call[T]:
    """A call of the native API. Parameters that are None are left out; reads and replacements are repeatable."""
    sent = dict(headers or {})
    if body is not None:
        content, content_type = json.dumps(dump(body)).encode(), "application/json"
    if content is not None:
        sent["Content-Type"] = content_type
    request = Request(
        method=method,
        path="/api/v1" + path,
        params=as_params(params or {}),
        headers=sent,
        content=content,
        timeout=timeout,
    )
    return Call(request, reader, method in ("GET", "PUT") if repeatable is None else repeatable)


def given(**values: object) -> dict[str, object]:
    """Those values that were given: not None."""
    return {key: value for key, value in values.items() if value is not None}


def segment(name: str, *, safe: str = "") -> str:
    """A name as one part of a path, whatever characters it holds."""
    if not name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ApiError(f"There is nothing named {name!r}", code="not_found", status=404)
    return quote(name, safe=safe)


def as_params(params: Mapping[str, object]) -> dict[str, str]:
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


# How replies are read.


def as_a(kind: type[T]) -> Callable[[Reply], T]:
    return lambda reply: read(kind, parse(reply))


def as_items(kind: type[T]) -> Callable[[Reply], tuple[T, ...]]:
    def convert(reply: Reply) -> tuple[T, ...]:
        data = parse(reply)
        items = data.get("items") if isinstance(data, dict) else data
        if not isinstance(items, list):
            raise UnexpectedReply("The server's answer holds no list where one was expected")
        return tuple(read(kind, item) for item in items)

    return convert


def as_text(reply: Reply) -> str:
    return reply.body.decode("utf-8", "replace")


def as_nothing(reply: Reply) -> None:
    return None


def parse(reply: Reply) -> Any:
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise UnexpectedReply(
            f"The answer (HTTP {reply.status}) is not JSON; is this the address of a Holdfast server?",
            hint="Check HOLDFAST_URL, or log in again with `holdfast login`.",
        ) from None


def checked(reply: Reply) -> Reply:
    """The same reply when it is a success; its error otherwise."""
    if 200 <= reply.status < 300:
        return reply
    if 300 <= reply.status < 400:
        raise UnexpectedReply(
            f"The server points elsewhere: {reply.headers.get('location', '?')}",
            hint="Use that address if you trust it; tokens are never sent along to another one.",
        )
    raise api_error(reply)


def api_error(reply: Reply) -> ApiError | UnexpectedReply:
    """What a refusal says."""
    try:
        error = json.loads(reply.body)["error"]
        return ApiError(
            str(error["message"]),
            code=str(error["code"]),
            status=reply.status,
            hint=error.get("hint"),
            field=error.get("field"),
            problems=tuple(_problem(item) for item in error.get("problems") or ()),
            request_id=error.get("request_id"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return UnexpectedReply(
            f"HTTP {reply.status}, and not in Holdfast's words; is this the address of a Holdfast server?",
            hint="Check HOLDFAST_URL, and whether a proxy stands in between.",
        )


def _problem(item: Mapping[str, Any]) -> Problem:
    return Problem(
        field=str(item.get("field") or ""),
        message=str(item.get("message") or ""),
        hint=item.get("hint"),
        line=item.get("line"),
    )


# From functions that describe calls to methods of both clients.


class Blocking:
    """A client whose methods return results."""

    patience: float

    def run(self, steps: Steps[T]) -> T:
        raise NotImplementedError

    def pour(self, flow: Flow[T]) -> Iterator[T]:
        raise NotImplementedError


class Awaiting:
    """A client whose methods return coroutines and asynchronous iterators."""

    patience: float

    async def run(self, steps: Steps[T]) -> T:
        raise NotImplementedError

    def pour(self, flow: Flow[T]) -> AsyncIterator[T]:
        raise NotImplementedError


class Method(Generic[P, T]):
    """A method that returns T on a Blocking client, and a coroutine of T on an Awaiting one."""

    def __init__(self, build: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__
        self.__wrapped__ = build

    @overload
    def __get__(self, client: None, owner: type) -> Method[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self._build(client, *args, **kwargs))

        return method


class StreamMethod(Generic[P, T]):
    """A method that returns an iterator on a Blocking client, and an asynchronous one on an Awaiting one."""

    def __init__(self, build: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__
        self.__wrapped__ = build

    @overload
    def __get__(self, client: None, owner: type) -> StreamMethod[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaiting, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self

        @wraps(self._build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.pour(self._build(client, *args, **kwargs))

        return method


def endpoint(build: Callable[Concatenate[Any, P], Call[T]]) -> Method[P, T]:
    """A method that is one call, tried again as the client's patience allows."""

    @wraps(build)
    def steps(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return build(client, *args, **kwargs).steps(client.patience)

    return Method(steps)


def exchange(build: Callable[Concatenate[Any, P], Steps[T]]) -> Method[P, T]:
    """A method of several calls."""
    return Method(build)


def flow(build: Callable[Concatenate[Any, P], Flow[T]]) -> StreamMethod[P, T]:
    """A method that gives items one by one."""
    return StreamMethod(build)
