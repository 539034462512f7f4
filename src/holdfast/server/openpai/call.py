"""One request, as handlers of OpenPAI's endpoints see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request

from holdfast.core.access import Actor
from holdfast.services import Services

from .bodies import read_body
from .errors import PaiError, build_guest_denied_error
from .response_limits import ResponseSlots


@dataclass(slots=True)
class Call:
    request: Request
    services: Services
    _actor: Actor | None  # None: a guest
    limit_key: str  # key for rate limits
    slots: ResponseSlots

    @property
    def actor(self) -> Actor:
        """The user of the request; only for endpoints that require a login."""
        if self._actor is None:
            raise build_guest_denied_error()
        return self._actor

    @property
    def is_guest(self) -> bool:
        return self._actor is None

    def get_path_text(self, name: str) -> str:
        return str(self.request.path_params[name])

    def get_path_number(self, name: str) -> int | None:
        """Return an integer from the path, or None when it is not one."""
        text = self.get_path_text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def get_query_text(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    async def wait_for_slots(self, *, large: bool) -> None:
        """Wait before expensive work. Raises ClientDisconnect when the client has disconnected."""
        await self.slots.acquire_slots(self.limit_key, large=large)
        if await self.request.is_disconnected():
            raise ClientDisconnect

    async def read_json_object(self) -> dict[str, Any]:
        """Return a JSON object that was sent as JSON, as text or as a form."""
        found = await read_body(self.request)
        if not isinstance(found, dict):
            raise PaiError(400, "InvalidParametersError", "The request body must be a JSON object.")
        return found
