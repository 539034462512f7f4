"""Submitted form data, which is untrusted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.requests import Request

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

MAX_FIELDS = 5000
MIN_THREADED_SIZE = 64 * 1024  # bytes; parsing more would block the event loop


@dataclass(frozen=True, slots=True)
class Form:
    values: dict[str, list[str]] = field(default_factory=dict)

    def get_text(self, name: str, default: str = "") -> str:
        """Return the value without surrounding whitespace."""
        return self.get_raw_text(name, default).strip()

    def get_raw_text(self, name: str, default: str = "") -> str:
        """Return the value as typed, with line ends normalized."""
        found = self.values.get(name)
        return found[0].replace("\r\n", "\n") if found else default

    def get_all(self, name: str) -> list[str]:
        return list(self.values.get(name, ()))

    def is_checked(self, name: str) -> bool:
        return bool(self.values.get(name))

    def get_number(self, name: str) -> float | None:
        """Return the number; None if the field is empty."""
        text = self.get_text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise UserError(msg("{text} is not a number", text=text[:40]), field=name)
        return value

    def get_integer(self, name: str) -> int | None:
        value = self.get_number(name)
        if value is not None and value != int(value):
            raise UserError(msg("{value} is not a whole number", value=f"{value:g}"), field=name)
        return None if value is None else int(value)


def _parse_pairs(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)


async def read_form(request: Request) -> Form:
    """Parse the body, whose size the server limits."""
    body = await request.body()
    try:
        pairs = await asyncio.to_thread(_parse_pairs, body) if len(body) > MIN_THREADED_SIZE else _parse_pairs(body)
    except ValueError:
        raise UserError(msg("A form can have at most {max_fields} fields", max_fields=MAX_FIELDS)) from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Form(values)
