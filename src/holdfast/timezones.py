"""Time zones by name: that of this machine, and the lookup of a name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_FALLBACK_TIMEZONE = "UTC"
_ZONEINFO_FOLDER = "zoneinfo/"  # the name of a zone follows it in a path
_MAX_NAME_LENGTH = 100  # characters; real names are much shorter


def find_machine_timezone(root: Path = Path("/")) -> str:
    """Return the machine's time zone as a name for `zone`; UTC if unknown."""
    return next((name for name in _iter_candidate_names(root) if _is_known_timezone(name)), _FALLBACK_TIMEZONE)


def get_zone(name: str) -> ZoneInfo:
    """Return the zone; UserError if it does not exist."""
    found = _find_zone(name)
    if found is None:
        close = get_close_matches(name[:_MAX_NAME_LENGTH], available_timezones(), n=1)
        guess = msg("Did you mean {name}? ", name=close[0]) if close and not any(map(str.isdigit, name)) else ""
        raise UserError(
            msg("Time zone {name} not found", name=repr(name[:_MAX_NAME_LENGTH])),
            field="timezone",
            hint=msg(
                "{guess}Use a name such as Europe/Berlin, Asia/Taipei, UTC, or Etc/GMT-2 (two hours ahead of UTC).",
                guess=guess,
            ),
        )
    return found


def _iter_candidate_names(root: Path) -> Iterator[str]:
    yield _parse_zone_name(os.environ.get("TZ", "").removeprefix(":"))
    yield _parse_zone_name(_read_link(root / "etc/localtime"))  # before the file: programs use the link
    yield _read_first_line(root / "etc/timezone")


def _parse_zone_name(path: str) -> str:
    return path.rpartition(_ZONEINFO_FOLDER)[2] if path.startswith(("/", ".")) else path


def _read_link(path: Path) -> str:
    """Return only its direct target: a zone may itself be a link, and the chosen name is wanted."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _read_first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_MAX_NAME_LENGTH + 1).strip()
    except OSError:
        return ""


def _is_known_timezone(name: str) -> bool:
    return _find_zone(name) is not None


def _find_zone(name: str) -> ZoneInfo | None:
    if not name or len(name) > _MAX_NAME_LENGTH:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, a path outside, a folder
        return None
