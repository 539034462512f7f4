"""The browser's login: a cookie that holds a login token, and what proves that a form came from our own page.

Cookies are shared by all ports of a host, so each server has its own by the port it is reached at. A token in a header
always comes before the cookie; a cookie alone never changes anything (see `auth.token_of`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from starlette.requests import HTTPConnection
from starlette.responses import Response

from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.services.people.login_devices import LIFETIME, MAX_TOKEN_LENGTH
from holdfast.services.people.tokens import NewToken

from .origin import origin_of, public_origin

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKEN = re.compile(r"hf_[A-Za-z0-9_-]{1,200}")
_PROOF = 32  # bytes


def cookie_name(request: HTTPConnection) -> str:
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"holdfast_{port}" if port.isdigit() and len(port) <= 5 else "holdfast"


def session_of(request: HTTPConnection) -> str | None:
    """The text of the login token that the browser keeps, if any."""
    found = request.cookies.get(cookie_name(request), "")
    return found if _TOKEN.fullmatch(found) else None


def begin(request: HTTPConnection, response: Response, made: NewToken) -> None:
    token = made.token
    response.set_cookie(
        cookie_name(request),
        made.text,
        max_age=int((token.expires_at - token.created_at).total_seconds()) if token.expires_at else None,
        path="/",
        secure=origin_of(request).startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def end(request: HTTPConnection, response: Response) -> None:
    response.delete_cookie(
        cookie_name(request),
        path="/",
        secure=origin_of(request).startswith("https:"),
        httponly=True,
        samesite="lax",
    )


# -- devices


def device_of(request: HTTPConnection) -> str:
    """The device token that this browser was given at an earlier login, if any."""
    return request.cookies.get(f"{cookie_name(request)}_device", "")[: MAX_TOKEN_LENGTH + 1]


def remember_device(request: HTTPConnection, response: Response, token: str) -> None:
    """It outlives the login: the browser shows it when somebody logs in again. Empty: nothing to remember."""
    if not token:
        return
    response.set_cookie(
        f"{cookie_name(request)}_device",
        token,
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=origin_of(request).startswith("https:"),
        httponly=True,
        samesite="strict",
    )


# -- proofs that a form is ours


def make_proof(session: str) -> str:
    """Another text each time, so that what a compressed page weighs tells nothing about it."""
    mask = secrets.token_bytes(_PROOF)
    return (mask + _xor(mask, _secret(session))).hex()


def check_proof(session: str, given: str) -> None:
    """Forbidden unless `given` was made for this session."""
    try:
        data = bytes.fromhex(given[: 4 * _PROOF + 1])
    except ValueError:
        data = b""
    mask, masked = data[:_PROOF], data[_PROOF:]
    if len(masked) != _PROOF or not hmac.compare_digest(_xor(mask, masked), _secret(session)):
        raise Forbidden(msg("This page is from before your login"), hint=msg("Load it again, and try once more."))


def check_origin(request: HTTPConnection) -> None:
    """Forbidden when a browser says that another site's page sent this."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none") or (origin is not None and not _is_ours(request, origin)):
        raise Forbidden(msg("This came from another site's page"), hint=msg("Open the portal itself and do it there."))


def _is_ours(request: HTTPConnection, origin: str) -> bool:
    """The public address, or the host and port of this request: a proxy may pass on neither."""
    if origin.lower() == public_origin(request):
        return True
    return origin.partition("://")[2].lower() == request.headers.get("host", "").lower()


def _secret(session: str) -> bytes:
    return hmac.digest(hashlib.sha256(session.encode()).digest(), b"form", "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
