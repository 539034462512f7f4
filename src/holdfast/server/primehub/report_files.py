"""Usage reports as CSV, by month."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.access_guard import guard_request, require_admin
from holdfast.server.answers import answer_text
from holdfast.server.auth import actor_of, services_of
from holdfast.server.rest.usage import CSV, encoded
from holdfast.server.streams import Stream

from .errors import NOT_FOUND, PhError

REPORTS = "/api/report/monthly"


async def send_summary(request: Request) -> Response:
    actor, (year, month) = await actor_of(request), _month(request)
    return answer_text(await services_of(request).usage.summary(actor, year, month), CSV)


async def send_details(request: Request) -> Response:
    actor, (year, month) = await actor_of(request), _month(request)
    services = services_of(request)
    await services.usage.check(actor, year, month)
    guard = guard_request(services, request, require_admin)
    details = encoded(services.usage.details(actor, year, month))
    return Stream(details, guard=guard, media_type=f"{CSV}; charset=utf-8")


def _month(request: Request) -> tuple[int, int]:
    year, month = request.path_params["year"], request.path_params["month"]
    if not (1970 <= year <= 9998 and 1 <= month <= 12):
        raise PhError("There is no report of such a month", NOT_FOUND)
    return year, month


def report_routes(answering: Any) -> list[Route]:
    return [
        Route(f"{REPORTS}/details/{{year:int}}/{{month:int}}", answering(send_details)),
        Route(f"{REPORTS}/{{year:int}}/{{month:int}}", answering(send_summary)),
    ]
