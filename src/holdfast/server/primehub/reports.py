"""Usage reports: which months have one, and the reports themselves as CSV."""

from __future__ import annotations

from typing import Any

from ariadne import QueryType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.answers import answer_text
from holdfast.server.auth import actor_of, services_of
from holdfast.server.rest.usage import CSV, encoded
from holdfast.server.streams import Stream

from .call import Info, call_of
from .errors import NOT_FOUND, PhError
from .paging import connect

query = QueryType()
BINDABLES = (query,)

REPORTS = "/api/report/monthly"


@query.field("usageReportsConnection")
async def list_reports(_: Any, info: Info, **args: Any) -> dict[str, Any]:
    call = call_of(info)
    months = await call.services.usage.months(call.actor)
    shown = [
        {
            "id": f"{year}/{month:02}",
            "summaryUrl": f"{call.origin}{REPORTS}/{year}/{month:02}",
            "detailedUrl": f"{call.origin}{REPORTS}/details/{year}/{month:02}",
        }
        for year, month in months
    ]
    call.spend(len(shown))
    return connect(shown, args)


async def send_summary(request: Request) -> Response:
    actor, (year, month) = await actor_of(request), _month(request)
    return answer_text(await services_of(request).usage.summary(actor, year, month), CSV)


async def send_details(request: Request) -> Response:
    actor, (year, month) = await actor_of(request), _month(request)
    usage = services_of(request).usage
    await usage.check(actor, year, month)
    return Stream(encoded(usage.details(actor, year, month)), media_type=f"{CSV}; charset=utf-8")


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
