"""Errors as a separate page, or above the current page."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

PROBLEM_TEMPLATE = "parts/_problem.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPage:
    title: str
    message: str
    hint: str
    status: int
    request_id: str
    back: str = ""  # the portal page that the user came from


def retarget_to_page_top(response: Response) -> None:
    """Show the response at the top of the page, not at the target of the script."""
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#messages", "innerHTML"
