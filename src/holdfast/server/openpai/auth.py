"""Who asks: a bearer token, or a user's name with an application token as password."""

from __future__ import annotations

from starlette.requests import Request

from holdfast.core.access import Actor
from holdfast.services import Services

from .endpoints import Who


async def find_actor(request: Request, services: Services, who: Who) -> Actor | None:
    """Whoever asks, if `who` lets them; None for a guest."""
    raise NotImplementedError
