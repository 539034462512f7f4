"""The browser's login: a cookie with a login token, and CSRF tokens for forms.

Cookies are shared by all ports of a host, so each server has its own by its port. A token in a header takes precedence
over the cookie; a cookie alone never changes anything (see `auth.read_request_token`).
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
from holdfast.services.people.login_devices import DEVICE_TOKEN_LIFETIME, MAX_TOKEN_LENGTH
from holdfast.services.people.tokens import NewToken

from .origin import get_origin, get_public_origin

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKEN_PATTERN = re.compile(r"hf_[A-Za-z0-9_-]{1,200}")
_CSRF_SECRET_SIZE = 32  # bytes


def get_session_cookie_name(request: HTTPConnection) -> str:
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"holdfast_{port}" if port.isdigit() and len(port) <= 5 else "holdfast"


def read_session_cookie(request: HTTPConnection) -> str | None:
    """Return the login token in the cookie, if any."""
    found = request.cookies.get(get_session_cookie_name(request), "")
    return found if _TOKEN_PATTERN.fullmatch(found) else None


def set_session_cookie(request: HTTPConnection, response: Response, made: NewToken) -> None:
    token = made.token
    response.set_cookie(
        get_session_cookie_name(request),
        made.text,
        max_age=int((token.expires_at - token.created_at).total_seconds()) if token.expires_at else None,
        secure=_is_https(request),
        httponly=True,
        samesite="lax",
    )


def delete_session_cookie(request: HTTPConnection, response: Response) -> None:
    response.delete_cookie(get_session_cookie_name(request), secure=_is_https(request), httponly=True, samesite="lax")


def _is_https(request: HTTPConnection) -> bool:
    return get_origin(request).startswith("https:")


# -- devices


def read_device_cookie(request: HTTPConnection) -> str:
    """Return the device token that this browser got at an earlier login, if any."""
    return request.cookies.get(f"{get_session_cookie_name(request)}_device", "")[: MAX_TOKEN_LENGTH + 1]


def set_device_cookie(request: HTTPConnection, response: Response, token: str) -> None:
    """Store the device token in a cookie that outlives the login, for the next login. Does nothing if it is empty."""
    if not token:
        return
    response.set_cookie(
        f"{get_session_cookie_name(request)}_device",
        token,
        max_age=int(DEVICE_TOKEN_LIFETIME.total_seconds()),
        secure=_is_https(request),
        httponly=True,
        samesite="strict",
    )


# -- CSRF tokens


def create_csrf_token(session: str) -> str:
    """Return a CSRF token. It differs each time, so that the size of a compressed page does not leak it."""
    mask = secrets.token_bytes(_CSRF_SECRET_SIZE)
    return (mask + _xor_bytes(mask, _derive_csrf_secret(session))).hex()


def check_csrf_token(session: str, given: str) -> None:
    """Raise Forbidden unless `given` was created for this session."""
    try:
        data = bytes.fromhex(given[: 4 * _CSRF_SECRET_SIZE + 1])
    except ValueError:
        data = b""
    mask, masked = data[:_CSRF_SECRET_SIZE], data[_CSRF_SECRET_SIZE:]
    if len(masked) != _CSRF_SECRET_SIZE or not hmac.compare_digest(
        _xor_bytes(mask, masked), _derive_csrf_secret(session)
    ):
        raise Forbidden(msg("This page was loaded before you logged in"), hint=msg("Reload the page and try again."))


def check_origin(request: HTTPConnection) -> None:
    """Raise Forbidden if the request comes from a page of another site."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none") or (origin is not None and not _is_own_origin(request, origin)):
        raise Forbidden(msg("Cross-site request denied"), hint=msg("Open the portal and repeat the action there."))


def _is_own_origin(request: HTTPConnection, origin: str) -> bool:
    """Return whether it is the public origin, or host and port of this request: a proxy may pass on neither."""
    if origin.lower() == get_public_origin(request):
        return True
    return origin.partition("://")[2].lower() == request.headers.get("host", "").lower()


def _derive_csrf_secret(session: str) -> bytes:
    return hmac.digest(hashlib.sha256(session.encode()).digest(), b"form", "sha256")


def _xor_bytes(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
