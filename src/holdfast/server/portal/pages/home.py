"""The first page: what is yours, how it goes, and what the place has."""

from __future__ import annotations

from starlette.responses import Response

from ..routes import page
from ..visit import Visit


async def show_home(visit: Visit) -> Response:
    return visit.go("/jobs")


routes = [page("/", show_home)]
