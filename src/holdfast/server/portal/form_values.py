"""Parsing and formatting of form values: 4 GiB, 1h30m, NAME=VALUE lines. Conversions are exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.jobspec.quantities import MAX_DURATION, format_duration, parse_duration, parse_size

from .forms import Form

MIN_SIZE = 1024 * 1024  # bytes; a smaller value is probably a mistake
_BINARY_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_DECIMAL_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))


def read_size_field(form: Form, name: str) -> int | None:
    """Return the size in bytes, which can be 0; None if the field is empty."""
    text = form.get_text(name)
    if not text:
        return None
    size = parse_size(text)
    if size is None:
        raise UserError(
            msg("{text} is not a valid size", text=text[:40]),
            field=name,
            hint=msg("Use a format such as 512 MiB, 4 GiB or 1.5 GB."),
        )
    if 0 < size < MIN_SIZE:
        hint = f"Did you mean {text[:20]} GiB?" if text.replace(".", "", 1).isdigit() else "Write 512 MiB or 4 GiB."
        raise UserError(msg("{text} is only {size} bytes", text=text[:40], size=size), field=name, hint=hint)
    return size


def format_size_input(size: int | None) -> str:
    """Format a size in the largest exact unit."""
    if size is None:
        return ""
    for unit, each in (*_BINARY_UNITS, *_DECIMAL_UNITS):
        if size and size % each == 0:
            return f"{size // each} {unit}"
    half = next(
        (f"{size * 2 // each / 2:g} {unit}" for unit, each in _BINARY_UNITS if size and size * 2 % each == 0), None
    )
    return half or str(size)


def read_duration_field(form: Form, name: str) -> timedelta | None:
    """Return the duration; None if the field is empty. A plain number is seconds."""
    text = form.get_text(name)
    if not text:
        return None
    found = parse_duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
    if found is None:
        raise UserError(
            msg("{text} is not a valid duration", text=text[:40]),
            field=name,
            hint=msg("Use a format such as 90m, 2h30m or 1d."),
        )
    if found > MAX_DURATION:
        raise UserError(
            msg("The time limit must be at most {days} days", days=MAX_DURATION.days),
            field=name,
            hint=msg("Use 0 for no limit."),
        )
    return found


def format_duration_input(found: timedelta | None) -> str:
    if found is None:
        return ""
    return format_duration(found) if found else "0"


def format_number_input(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def read_variables_field(form: Form, name: str) -> dict[str, str]:
    """Parse NAME=VALUE lines. A quoted value is a JSON string, so that it can contain line breaks."""
    found: dict[str, str] = {}
    for line in form.get_raw_text(name).split("\n"):
        if not line.strip():
            continue
        key, sign, value = line.partition("=")
        if not sign or not key.strip():
            raise UserError(
                msg("{line} is not in the format NAME=VALUE", line=line[:40]),
                field=name,
                hint=msg("Enter one variable per line."),
            )
        if key.strip() in found:
            raise UserError(msg("{key} is set twice", key=key.strip()[:40]), field=name)
        found[key.strip()] = _parse_variable_value(value.strip())
    return found


def _parse_variable_value(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def format_variables(variables: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={_quote_variable_value(value)}" for name, value in sorted(variables.items()))


def _quote_variable_value(value: str) -> str:
    plain = value == value.strip() and not value.startswith('"') and len(value.splitlines()) <= 1
    return value if plain and "\n" not in value else json.dumps(value, ensure_ascii=False)
