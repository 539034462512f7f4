"""/usage: what was given to whom, by month."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from holdfast.api import files as api
from holdfast.api.pages import Items

from ..access_guard import guard_request, require_admin
from ..answers import answer, answer_text
from ..auth import Ask, Caller
from ..streams import Stream
from .addresses import rest_router

router = rest_router("usage")

CSV = "text/csv"
_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {CSV: {}}, "description": "A line of headings, then CSV."}}
Year = Annotated[int, Path(ge=1970, le=9998)]
Month = Annotated[int, Path(ge=1, le=12)]


@router.get("/usage", response_model=Items[api.Month])
async def list_months(actor: Caller, services: Ask) -> Response:
    """Admins only. Months in which anything ran, newest first."""
    months = await services.usage.months(actor)
    return answer({"items": [{"year": year, "month": month} for year, month in months]})


@router.get("/usage/{year}/{month}", response_class=Response, responses=_CSV)
async def show_usage(year: Year, month: Month, actor: Caller, services: Ask) -> Response:
    """Admins only. CPU, GPU and memory hours for each user in each group."""
    return answer_text(await services.usage.summary(actor, year, month), CSV)


@router.get("/usage/{year}/{month}/details", response_class=Response, responses=_CSV)
async def show_usage_details(request: Request, year: Year, month: Month, actor: Caller, services: Ask) -> Response:
    """Admins only. A line for each try of each task."""
    await services.usage.check(actor, year, month)
    guard = guard_request(services, request, require_admin)
    details = encoded(services.usage.details(actor, year, month))
    return Stream(details, guard=guard, media_type=f"{CSV}; charset=utf-8")


async def encoded(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece.encode("utf-8", "replace")
