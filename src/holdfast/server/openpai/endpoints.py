"""Every address of OpenPAI's REST server: who may ask, what is done, and how far it is offered here.

Handlers are declared with `endpoint`; the routes and the page docs/reference/openpai-api.md are made of the same list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from starlette.responses import Response

from .call import Call
from .rates import Limited

Handler = Callable[[Call], Awaitable[Response]]


class Support(StrEnum):
    SUPPORTED = "supported"
    EMPTY = "answered empty"  # there is none of it here, and the answer says so in the shape clients expect
    ABSENT = "not offered"  # refused with NotImplementedError


class Who(StrEnum):
    ANYONE = "everybody, also without login"
    READER = "a logged-in user, or anyone where access.reading says so"
    USER = "a logged-in user"
    PERSON = "a logged-in user, not an application token"
    ADMIN = "an admin, not an application token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    method: str
    path: str  # below /rest-server/api, such as /v2/jobs/{framework}
    who: Who
    support: Support
    note: str  # what is special, in a sentence or less
    handler: Handler
    limited: Limited | None = None  # what it counts as, beside a request of its address


ENDPOINTS: list[Endpoint] = []


def endpoint(
    method: str,
    *paths: str,
    who: Who = Who.USER,
    support: Support = Support.SUPPORTED,
    note: str = "",
    limited: Limited | None = None,
) -> Callable[[Handler], Handler]:
    """The decorated handler answers `method` on each of `paths`."""

    def declare(handler: Handler) -> Handler:
        for path in paths:
            made = Endpoint(
                method=method, path=path, who=who, support=support, note=note, handler=handler, limited=limited
            )
            ENDPOINTS.append(made)
        return handler

    return declare
