"""/usage: resource usage by user and group, by month."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from holdfast.api import files as api
from holdfast.api.pages import ItemList

from ..access_guard import make_request_guard, require_usage_report_access
from ..auth import Caller, ServicesDep
from ..responses import respond_json, respond_text
from ..streams import StreamedResponse
from .routing import build_router

router = build_router("usage")

CSV_MEDIA_TYPE = "text/csv"
_CSV_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"content": {CSV_MEDIA_TYPE: {}}, "description": "CSV with a header line."}
}
Year = Annotated[int, Path(ge=1970, le=9998)]
Month = Annotated[int, Path(ge=1, le=12)]


@router.get("/usage", response_model=ItemList[api.Month])
async def list_months(actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Months with usage, newest first."""
    months = await services.usage.list_months(actor)
    return respond_json({"items": [{"year": year, "month": month} for year, month in months]})


@router.get("/usage/{year}/{month}", response_class=Response, responses=_CSV_RESPONSE)
async def show_usage(year: Year, month: Month, actor: Caller, services: ServicesDep) -> Response:
    """Admins only. CPU, GPU and memory hours for each user in each group."""
    return respond_text(await services.usage.render_summary(actor, year, month), CSV_MEDIA_TYPE)


@router.get("/usage/{year}/{month}/details", response_class=Response, responses=_CSV_RESPONSE)
async def show_usage_details(
    request: Request, year: Year, month: Month, actor: Caller, services: ServicesDep
) -> Response:
    """Admins only. A line for each try of each task."""
    await services.usage.check_month(actor, year, month)
    guard = make_request_guard(services, request, require_usage_report_access)
    details = encode_text_chunks(services.usage.render_details(actor, year, month))
    return StreamedResponse(details, guard=guard, media_type=f"{CSV_MEDIA_TYPE}; charset=utf-8")


async def encode_text_chunks(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece.encode("utf-8", "replace")
