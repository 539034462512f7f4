"""One try to send a notice, and what is to be made of what came back."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import httpcore

from holdfast.core.notices import Way, address_problem
from holdfast.store.notices import NewNotice

from .mailing import Mailing
from .notice_texts import slack_body, webhook_body
from .receivers import NotAllowed, NotFoundByName, Receiver, Receivers

CONNECT_SECONDS = 10.0
LONGEST_ASKED_WAIT = timedelta(hours=6)  # by a receiver that has too much to do
AGENT = b"holdfast-notices/1"


class Fate(StrEnum):
    SENT = "sent"
    LATER = "later"  # it did not arrive, and may the next time
    REFUSED = "refused"  # it did not arrive, and most likely will not
    UNSURE = "unsure"  # all of it was sent, and no answer came
    TAKEN = "taken"  # somebody else is sending it


Claim = Callable[[], Awaitable[bool]]  # right before anything is sent; False: it must not be


@dataclass(frozen=True, slots=True)
class Came:
    """Of one try."""

    fate: Fate
    said: str = ""
    wait: timedelta = timedelta()  # at least, before the next try


class Sending:
    def __init__(
        self,
        receivers: Receivers,
        mailing: Mailing,
        derive: Callable[[bytes], bytes] | None,
        *,
        timeout: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._receivers = receivers
        self._mailing = mailing
        self._derive = derive or (lambda purpose: hashlib.sha256(purpose).digest())
        self._timeout = timeout
        self._clock = clock
        self._tls: ssl.SSLContext | None = None

    async def send(self, notice: NewNotice, claim: Claim, *, anywhere: bool = False) -> Came:
        """`anywhere`: to whatever the server can reach."""
        problem = address_problem(notice.way, notice.address)
        if problem:
            return Came(Fate.REFUSED, f"the address {problem}")
        if notice.way is Way.MAIL:
            return await self._mail(notice, claim)
        return await self._post(notice, claim, anywhere)

    def secret(self, user: str, address: str) -> str:
        """What a receiver checks signatures with: one for each user and address, so that no receiver can pretend to be
        another's sender."""
        return self._derive(b"notices\0" + user.encode() + b"\0" + address.encode()).hex()

    async def _mail(self, notice: NewNotice, claim: Claim) -> Came:
        refusal = self._mailing.refusal(notice.address)
        if refusal:
            return Came(Fate.REFUSED, refusal)
        tried = await self._mailing.send(notice, claim)
        if tried.sent:
            return Came(Fate.SENT, tried.said)
        if tried.taken:
            return Came(Fate.TAKEN)
        if tried.unsure:
            return Came(Fate.UNSURE, tried.said)
        return Came(Fate.REFUSED if tried.refused else Fate.LATER, tried.said)

    async def _post(self, notice: NewNotice, claim: Claim, anywhere: bool) -> Came:
        try:
            receiver = await self._receivers.find(notice.address, anywhere=anywhere)
        except NotAllowed as error:
            return Came(Fate.REFUSED, str(error))
        except NotFoundByName as error:
            return Came(Fate.LATER, str(error))
        body = webhook_body(notice) if notice.way is Way.WEBHOOK else slack_body(notice)
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            return await self._exchange(receiver, notice, text, _Progress(claim))
        except _Taken:
            return Came(Fate.TAKEN)
        except ssl.SSLError:  # the certificates of this machine cannot be read
            return Came(Fate.LATER, "TLS failed")

    async def _exchange(self, receiver: Receiver, notice: NewNotice, text: bytes, progress: _Progress) -> Came:
        backend = _OnlyTo(receiver)
        limits = {"connect": CONNECT_SECONDS, "read": self._timeout, "write": self._timeout, "pool": self._timeout}
        try:
            async with (
                asyncio.timeout(CONNECT_SECONDS + self._timeout),
                httpcore.AsyncConnectionPool(ssl_context=self._context(), network_backend=backend) as pool,
                pool.stream(
                    "POST",
                    notice.address.partition("#")[0],
                    headers=self._headers(notice, text),
                    content=text,
                    extensions={"timeout": limits, "trace": progress.trace},
                ) as response,
            ):
                return self._judge(response.status, response.headers)
        except (httpcore.TimeoutException, TimeoutError):
            if progress.whole:
                return Came(Fate.UNSURE, f"no answer within {self._timeout:g} seconds")
            return Came(Fate.LATER, "could not connect in time")
        except httpcore.ConnectError as error:
            return Came(Fate.LATER, _plain(error))
        except (httpcore.NetworkError, httpcore.ProtocolError):
            return Came(Fate.LATER, "the connection was closed without an answer")

    def _headers(self, notice: NewNotice, text: bytes) -> list[tuple[bytes, bytes]]:
        moment = str(int(self._clock().timestamp())).encode()
        key = self.secret(notice.user, notice.address).encode()
        signature = hmac.new(key, moment + b"." + text, "sha256").hexdigest().encode()
        return [
            (b"Content-Type", b"application/json"),
            (b"User-Agent", AGENT),
            (b"Holdfast-Notice", notice.id.encode()),
            (b"Holdfast-Signature", b"t=" + moment + b",v1=" + signature),
            (b"Connection", b"close"),
        ]

    def _judge(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Came:
        said = f"answered {status}"
        if 200 <= status < 300:
            return Came(Fate.SENT, said)
        if status in (408, 425, 429) or status >= 500:
            asked = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
            return Came(Fate.LATER, said, _asked_wait(asked.decode("latin-1"), self._clock()))
        if 300 <= status < 400:
            said += ", and redirects are not followed"
        return Came(Fate.REFUSED, said)

    def _context(self) -> ssl.SSLContext:
        self._tls = self._tls or ssl.create_default_context()
        return self._tls


def _plain(error: BaseException | None) -> str:
    """Why there is no connection, from whatever lies beneath."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return "nothing takes connections there"
        if isinstance(error, ssl.SSLError):
            return "TLS failed"
        error = error.__cause__ or error.__context__
    return "could not connect"


def _asked_wait(text: str, now: datetime) -> timedelta:
    """Of a Retry-After header: seconds, or a date."""
    try:
        if text.strip().isdecimal():
            wait = timedelta(seconds=min(int(text.strip()[:9]), LONGEST_ASKED_WAIT.total_seconds()))
        else:
            until = parsedate_to_datetime(text)
            wait = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return timedelta()
    return min(max(wait, timedelta()), LONGEST_ASKED_WAIT)


class _Taken(Exception):
    """Somebody else is sending it."""


class _Progress:
    """How far a request has come."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.whole = False  # all of it has left

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        if event == "http11.send_request_headers.started" and not await self._claim():
            raise _Taken
        if event == "http11.send_request_body.complete":
            self.whole = True


class _OnlyTo(httpcore.AsyncNetworkBackend):
    """Connects to the addresses that were looked at, whatever the name stands for by now."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        error: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in self._receiver.addresses:
            try:
                return await self._plain.connect_tcp(address, self._receiver.port, timeout=timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error or httpcore.ConnectError("no address")

    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)
