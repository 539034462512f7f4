"""Every endpoint of OpenPAI's REST server: required permission, handler and level of support.

Handlers are declared with `endpoint`; the routes and the page docs/reference/openpai-api.md are built from this list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from starlette.responses import Response

from .call import Call
from .rate_limits import RateLimitedAction

Handler = Callable[[Call], Awaitable[Response]]


class Support(StrEnum):
    SUPPORTED = "supported"
    EMPTY = "always empty"  # the feature does not exist; the response has the shape that clients expect
    UNSUPPORTED = "not supported"  # rejected with NotImplementedError


class AccessLevel(StrEnum):
    ANYONE = "everyone, also without login"
    READER = "a logged-in user, or everyone if `access.reading` allows it"
    USER = "a logged-in user"
    PERSON = "a logged-in user, not an application token"
    ADMIN = "an admin, not an application token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str  # below /rest-server/api, such as /v2/jobs/{framework}
    access_level: AccessLevel
    support: Support
    note: str  # what differs from OpenPAI, in at most one sentence
    handler: Handler
    rate_limited_action: RateLimitedAction | None = None  # its rate limit, besides that of its address


ENDPOINTS: list[Endpoint] = []


def endpoint(
    method: str,
    *paths: str,
    who: AccessLevel = AccessLevel.USER,
    support: Support = Support.SUPPORTED,
    note: str = "",
    limited: RateLimitedAction | None = None,
) -> Callable[[Handler], Handler]:
    """Register the decorated handler for `method` on each of `paths`."""

    def register_handler(handler: Handler) -> Handler:
        for path in paths:
            made = Endpoint(
                method=method,
                path=path,
                access_level=who,
                support=support,
                note=note,
                handler=handler,
                rate_limited_action=limited,
            )
            ENDPOINTS.append(made)
        return handler

    return register_handler
