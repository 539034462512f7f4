"""Amounts as people type them in forms: 4 GiB, 1h30m, NAME=VALUE lines. Both directions, exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.jobspec.quantities import MAX_DURATION, parse_duration, parse_size, render_duration

from .forms import Form

MIN_SIZE = 1024 * 1024  # bytes; less was hardly meant
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_DECIMAL = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))


def read_size(form: Form, name: str) -> int | None:
    """Bytes; None where nothing was typed. 0 is a size, too."""
    text = form.text(name)
    if not text:
        return None
    size = parse_size(text)
    if size is None:
        raise UserError(
            msg("{text} is not a size", text=text[:40]), field=name, hint=msg("Write 512 MiB, 4 GiB or 1.5 GB.")
        )
    if 0 < size < MIN_SIZE:
        hint = f"Did you mean {text[:20]} GiB?" if text.replace(".", "", 1).isdigit() else "Write 512 MiB or 4 GiB."
        raise UserError(msg("{text} is only {size} bytes", text=text[:40], size=size), field=name, hint=hint)
    return size


def size_text(size: int | None) -> str:
    """In the largest unit that is exact."""
    if size is None:
        return ""
    for unit, each in (*_UNITS, *_DECIMAL):
        if size and size % each == 0:
            return f"{size // each} {unit}"
    half = next((f"{size * 2 // each / 2:g} {unit}" for unit, each in _UNITS if size and size * 2 % each == 0), None)
    return half or str(size)


def read_duration(form: Form, name: str) -> timedelta | None:
    """None where nothing was typed. A number alone means seconds, as everywhere."""
    text = form.text(name)
    if not text:
        return None
    found = parse_duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
    if found is None:
        raise UserError(
            msg("{text} is not a duration", text=text[:40]), field=name, hint=msg("Write 90m, 2h30m or 1d.")
        )
    if found > MAX_DURATION:
        raise UserError(
            msg("A time limit is at most {days} days", days=MAX_DURATION.days),
            field=name,
            hint=msg("Write 0 for none."),
        )
    return found


def duration_text(found: timedelta | None) -> str:
    if found is None:
        return ""
    return render_duration(found) if found else "0"


def number_text(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def read_variables(form: Form, name: str) -> dict[str, str]:
    """NAME=VALUE on lines. A value in quotes is one as JSON has it, so that it can hold line breaks."""
    found: dict[str, str] = {}
    for line in form.raw(name).split("\n"):
        if not line.strip():
            continue
        key, sign, value = line.partition("=")
        if not sign or not key.strip():
            raise UserError(
                msg("{line} is not NAME=VALUE", line=line[:40]),
                field=name,
                hint=msg("Write one variable on each line."),
            )
        if key.strip() in found:
            raise UserError(msg("{key} is there twice", key=key.strip()[:40]), field=name)
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def variables_text(variables: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={_quoted(value)}" for name, value in sorted(variables.items()))


def _quoted(value: str) -> str:
    plain = value == value.strip() and not value.startswith('"') and len(value.splitlines()) <= 1
    return value if plain and "\n" not in value else json.dumps(value, ensure_ascii=False)
