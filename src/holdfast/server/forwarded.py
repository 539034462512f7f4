"""The address of a client behind a proxy: taken from X-Forwarded-For where the proxy is trusted, and nowhere else.

No right depends on the address of an HTTP request. It is shown in the audit and counts in limits, so one that a proxy
reports never opens anything; the SSH gateway, where an address does matter, looks at its connections alone.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holdfast.services.client_network import plain_address

log = logging.getLogger(__name__)

PEER = "holdfast.peer"  # in the scope: address and port of the other end of the connection
_HEADERS = {b"x-forwarded-for", b"x-forwarded-proto"}


class ForwardedHeaders:
    """`trusted`: addresses and networks of proxies. Of X-Forwarded-For the last address that is none of theirs counts;
    all before it is what the client itself sent."""

    def __init__(self, app: ASGIApp, *, trusted: Sequence[str]) -> None:
        self._proxied = ProxyHeadersMiddleware(_PlainAddresses(app), trusted_hosts=list(trusted))  # type: ignore[arg-type]
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client"):
            scope["client"] = scope[PEER] = plain_address(scope["client"][0]), scope["client"][1]
            if not self._warned:
                self._warn_if_ignored(scope)
        await self._proxied(scope, receive, send)  # type: ignore[arg-type]

    def _warn_if_ignored(self, scope: Scope) -> None:
        """Once: any client on this machine can cause it."""
        peer = scope["client"][0]
        if peer in self._proxied.trusted_hosts or not _is_loopback(peer):
            return
        if any(name in _HEADERS for name, _ in scope["headers"]):
            self._warned = True
            log.warning(
                "ignored X-Forwarded headers; if a proxy on this machine sends them, add it to server.trusted_proxies",
                extra={"event": "proxy", "peer": peer},
            )


class _PlainAddresses:
    """What a proxy reports counts only if it is an address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if PEER in scope:
            host, port = scope["client"]
            scope["client"] = (plain_address(host), port) if _is_address(host) else scope[PEER]
        await self._app(scope, receive, send)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ipaddress.ip_address(address).is_loopback
