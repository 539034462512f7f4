"""A fast-loading client for a local server, with http.client: importing httpx takes longer than a call."""

from __future__ import annotations

import http.client
import time
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from .address import Address, is_loopback
from .calls import Pause, Reply, Request, Step, Steps, SyncRunner
from .errors import CannotConnect
from .proof import run_proof_on_socket
from .ssh_access import TaskAccessCalls

T = TypeVar("T")

REQUEST_TIMEOUT = 30.0  # seconds


class _ProvenConnection(http.client.HTTPConnection):
    """A connection that sends nothing before the server has proven that it knows the token."""

    def __init__(self, address: Address, host: str, port: int | None) -> None:
        super().__init__(host, port, timeout=REQUEST_TIMEOUT)
        self._address = address

    def connect(self) -> None:
        super().connect()
        try:
            run_proof_on_socket(self.sock, self._address)
        except BaseException:
            self.close()
            raise


class PlainClient(TaskAccessCalls, SyncRunner):
    """A client for task access over plain HTTP, without a proxy."""

    retry_timeout = 0.0

    def __init__(self, address: Address) -> None:
        self.address = address
        parts = urlsplit(address.url)
        self._base_path = parts.path
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
                answer = self._perform_step(step)
            except CannotConnect as error:
                failure = error

    def _perform_step(self, step: Step) -> Reply | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        assert isinstance(step, Request), "streaming is not supported"
        self.address.require_running_server()
        try:
            return self._send_request(step)
        except ConnectionRefusedError:
            raise self.address.build_connection_error("connection refused") from None
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise self.address.build_connection_error(str(error) or type(error).__name__, lost=True) from None

    def _send_request(self, request: Request) -> Reply:
        assert request.content is None or isinstance(request.content, bytes), "uploads are not supported"
        headers = {**request.headers, **self.address.build_headers()}
        path = self._base_path + request.path + (f"?{urlencode(request.params)}" if request.params else "")
        self._http.request(request.method, path, request.content, headers)
        reply = self._http.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())

    def close(self) -> None:
        self._http.close()


def can_use_plain_client(address: Address) -> bool:
    return address.url.startswith("http:") and is_loopback(address.url)
