"""Usage reports as CSV, by month."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.access_guard import guard_request, require_admin
from holdfast.server.auth import authenticate_request, get_services
from holdfast.server.responses import respond_text
from holdfast.server.rest.usage import CSV_TYPE, encode_pieces
from holdfast.server.streams import StreamedResponse

from .errors import NOT_FOUND, PhError

REPORTS_PATH = "/api/report/monthly"


async def send_summary(request: Request) -> Response:
    actor, (year, month) = await authenticate_request(request), _parse_month(request)
    return respond_text(await get_services(request).usage.render_summary(actor, year, month), CSV_TYPE)


async def send_details(request: Request) -> Response:
    actor, (year, month) = await authenticate_request(request), _parse_month(request)
    services = get_services(request)
    await services.usage.check_month(actor, year, month)
    guard = guard_request(services, request, require_admin)
    details = encode_pieces(services.usage.render_details(actor, year, month))
    return StreamedResponse(details, guard=guard, media_type=f"{CSV_TYPE}; charset=utf-8")


def _parse_month(request: Request) -> tuple[int, int]:
    year, month = request.path_params["year"], request.path_params["month"]
    if not (1970 <= year <= 9998 and 1 <= month <= 12):
        raise PhError("No report for this month", NOT_FOUND)
    return year, month


def report_routes(answering: Any) -> list[Route]:
    return [
        Route(f"{REPORTS_PATH}/details/{{year:int}}/{{month:int}}", answering(send_details)),
        Route(f"{REPORTS_PATH}/{{year:int}}/{{month:int}}", answering(send_summary)),
    ]
