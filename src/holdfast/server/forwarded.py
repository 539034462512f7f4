"""The address of a client behind a proxy: taken from X-Forwarded-For only if the proxy is trusted.

No permission depends on the address of an HTTP request. It is shown in the audit log and used in limits, so a reported
address never grants access. The SSH gateway, where an address does matter, uses only its own connections.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from holdfast.services.client_network import normalize_address

log = logging.getLogger(__name__)

PEER_KEY = "holdfast.peer"  # in the scope: address and port of the peer
_FORWARDED_HEADERS = {b"x-forwarded-for", b"x-forwarded-proto"}


class ForwardedHeadersMiddleware:
    """`trusted`: addresses and networks of proxies. The last address in X-Forwarded-For that is not trusted counts;
    those before it were sent by the client itself."""

    def __init__(self, app: ASGIApp, *, trusted: Sequence[str]) -> None:
        self._proxy_middleware = ProxyHeadersMiddleware(_AddressValidationMiddleware(app), trusted_hosts=list(trusted))  # type: ignore[arg-type]
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client"):
            scope["client"] = scope[PEER_KEY] = normalize_address(scope["client"][0]), scope["client"][1]
            if not self._warned:
                self._warn_if_headers_ignored(scope)
        await self._proxy_middleware(scope, receive, send)  # type: ignore[arg-type]

    def _warn_if_headers_ignored(self, scope: Scope) -> None:
        """Warn once: any client on this machine can cause it."""
        peer = scope["client"][0]
        if peer in self._proxy_middleware.trusted_hosts or not _is_loopback(peer):
            return
        if any(name in _FORWARDED_HEADERS for name, _ in scope["headers"]):
            self._warned = True
            log.warning(
                "ignored X-Forwarded headers; if a proxy on this machine sends them, add it to server.trusted_proxies",
                extra={"event": "proxy", "peer": peer},
            )


class _AddressValidationMiddleware:
    """Accepts a reported value only if it is an address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if PEER_KEY in scope:
            host, port = scope["client"]
            scope["client"] = (normalize_address(host), port) if _is_address(host) else scope[PEER_KEY]
        await self._app(scope, receive, send)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ipaddress.ip_address(address).is_loopback
