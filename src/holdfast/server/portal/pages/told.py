"""For scripts: what the API said, in the visitor's language."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import UserError

from ..routes import page
from ..visit import Visit

LONGEST = 2000  # characters


async def show_told(visit: Visit) -> Response:
    """?message= and ?hint= of an error, as sentences."""
    query = visit.request.query_params
    error = UserError(query.get("message", "")[:LONGEST], hint=query.get("hint", "")[:LONGEST] or None)
    return JSONResponse({"text": visit.tell_error(error)})


routes = [page("/told", show_told)]
