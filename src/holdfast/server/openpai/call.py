"""One request as a handler of OpenPAI's addresses sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request

from holdfast.core.access import Actor
from holdfast.services import Services

from .answer_limits import AnswerSlots
from .bodies import read_body
from .errors import PaiError, no_guest


@dataclass(slots=True)
class Call:
    request: Request
    services: Services
    _actor: Actor | None  # None: a guest
    asker: str  # as requests are counted
    slots: AnswerSlots

    @property
    def actor(self) -> Actor:
        """Whoever asks; only on addresses that need a login."""
        if self._actor is None:
            raise no_guest()
        return self._actor

    @property
    def guest(self) -> bool:
        return self._actor is None

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def number(self, name: str) -> int | None:
        """A counting number in the path; None when it is none."""
        text = self.path(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def query(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    async def wait_for_slots(self, *, large: bool) -> None:
        """Wait before work that costs much. ClientDisconnect when the client has left meanwhile."""
        await self.slots.acquire(self.asker, large=large)
        if await self.request.is_disconnected():
            raise ClientDisconnect

    async def body(self) -> dict[str, Any]:
        """A JSON object, sent as JSON, as text or as a form."""
        found = await read_body(self.request)
        if not isinstance(found, dict):
            raise PaiError(400, "InvalidParametersError", "The body must be a JSON object.")
        return found
