"""Usage reports as CSV, by month."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.access_guard import make_request_guard, require_usage_report_access
from holdfast.server.auth import authenticate_request, get_services
from holdfast.server.responses import respond_text
from holdfast.server.rest.usage import CSV_MEDIA_TYPE, encode_text_chunks
from holdfast.server.streams import StreamedResponse

from .errors import NOT_FOUND_CODE, PrimeHubError

REPORTS_PATH = "/api/report/monthly"


async def send_usage_summary(request: Request) -> Response:
    actor, (year, month) = await authenticate_request(request), _parse_month(request)
    return respond_text(await get_services(request).usage.render_summary(actor, year, month), CSV_MEDIA_TYPE)


async def send_usage_details(request: Request) -> Response:
    actor, (year, month) = await authenticate_request(request), _parse_month(request)
    services = get_services(request)
    await services.usage.check_month(actor, year, month)
    guard = make_request_guard(services, request, require_usage_report_access)
    details = encode_text_chunks(services.usage.render_details(actor, year, month))
    return StreamedResponse(details, guard=guard, media_type=f"{CSV_MEDIA_TYPE}; charset=utf-8")


def _parse_month(request: Request) -> tuple[int, int]:
    year, month = request.path_params["year"], request.path_params["month"]
    if not (1970 <= year <= 9998 and 1 <= month <= 12):
        raise PrimeHubError("No report for this month", NOT_FOUND_CODE)
    return year, month


def build_report_routes(answering: Any) -> list[Route]:
    return [
        Route(f"{REPORTS_PATH}/details/{{year:int}}/{{month:int}}", answering(send_usage_details)),
        Route(f"{REPORTS_PATH}/{{year:int}}/{{month:int}}", answering(send_usage_summary)),
    ]
