"""What went wrong, as a page of its own or above the one that is open."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

PART = "parts/_problem.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPage:
    title: str
    message: str
    hint: str
    status: int
    request_id: str
    back: str = ""  # the page of ours that one came from


def put_above(response: Response) -> None:
    """Whatever the script meant to put where."""
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#messages", "innerHTML"
