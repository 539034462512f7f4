"""What a form sent: names with texts, none of them trusted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.requests import Request

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

MAX_FIELDS = 5000
IN_A_THREAD = 64 * 1024  # bytes; what is more would hold others up
TRUE = "on"  # what a browser sends for a box that is ticked


@dataclass(frozen=True, slots=True)
class Form:
    values: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """Without blanks around it."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """As it was typed, with line ends as we write them."""
        found = self.values.get(name)
        return found[0].replace("\r\n", "\n") if found else default

    def all(self, name: str) -> list[str]:
        return list(self.values.get(name, ()))

    def is_on(self, name: str) -> bool:
        return bool(self.values.get(name))

    def number(self, name: str) -> float | None:
        """None where nothing was typed."""
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) < float("inf"):
            raise UserError(msg("{text} is not a number", text=text[:40]), field=name)
        return value

    def whole(self, name: str) -> int | None:
        value = self.number(name)
        if value is not None and value != int(value):
            raise UserError(msg("{value} is not a whole number", value=f"{value:g}"), field=name)
        return None if value is None else int(value)


def _pairs(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)


async def read_form(request: Request) -> Form:
    """The border bounds its size."""
    body = await request.body()
    try:
        pairs = await asyncio.to_thread(_pairs, body) if len(body) > IN_A_THREAD else _pairs(body)
    except ValueError:
        raise UserError(msg("A form has at most {most_fields} fields", most_fields=MAX_FIELDS)) from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Form(values)
