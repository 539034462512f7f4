"""A client for few and quick calls to a server on this machine, by what Python itself has: the library that the other
clients use takes longer to load than such a call takes."""

from __future__ import annotations

import http.client
import time
from typing import Self, TypeVar
from urllib.parse import urlencode, urlsplit

from holdfast import __version__

from .address import Address, hint_for, is_loopback
from .errors import CannotConnect
from .exchange import Blocking, Pause, Reply, Request, Step, Steps
from .proof import prove_socket
from .ssh_access import EnteringCalls

T = TypeVar("T")

TIMEOUT = 30.0  # seconds


class _ProvenConnection(http.client.HTTPConnection):
    """Nothing of ours is sent on it before the server has proven that it knows our token."""

    def __init__(self, address: Address, host: str, port: int | None) -> None:
        super().__init__(host, port, timeout=TIMEOUT)
        self._address = address

    def connect(self) -> None:
        super().connect()
        try:
            prove_socket(self.sock, self._address)
        except BaseException:
            self.close()
            raise


class PlainClient(EnteringCalls, Blocking):
    """The calls about getting inside, over plain HTTP and without a proxy."""

    patience = 0.0

    def __init__(self, address: Address) -> None:
        self.address = address
        parts = urlsplit(address.url)
        self._path = parts.path
        self._http = _ProvenConnection(address, parts.hostname or "", parts.port)

    def run(self, steps: Steps[T]) -> T:
        answer: Reply | None = None
        failure: CannotConnect | None = None
        while True:
            try:
                step = steps.throw(failure) if failure is not None else steps.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = failure = None
            try:
                answer = self._perform(step)
            except CannotConnect as error:
                failure = error

    def _perform(self, step: Step) -> Reply | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        assert isinstance(step, Request), "nothing here is streamed"
        if not self.address.served:
            raise CannotConnect(self.address.url, "no server runs there", hint=hint_for(self.address))
        try:
            return self._ask(step)
        except ConnectionRefusedError:
            raise CannotConnect(self.address.url, "nothing listens there", hint=hint_for(self.address)) from None
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            reason = str(error) or type(error).__name__
            raise CannotConnect(self.address.url, reason, lost=True, hint=hint_for(self.address)) from None

    def _ask(self, request: Request) -> Reply:
        assert request.content is None or isinstance(request.content, bytes), "nothing here is uploaded"
        headers = {"User-Agent": f"holdfast/{__version__}", **request.headers}
        if self.address.token:
            headers["Authorization"] = f"Bearer {self.address.token}"
        path = self._path + request.path + (f"?{urlencode(request.params)}" if request.params else "")
        self._http.request(request.method, path, request.content, headers)
        reply = self._http.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def takes_plain(address: Address) -> bool:
    return address.url.startswith("http:") and is_loopback(address.url)
