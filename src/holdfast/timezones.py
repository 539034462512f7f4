"""Time zones by name: which one this machine keeps, and whether there is one of a name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_FALLBACK = "UTC"
_FOLDER = "zoneinfo/"  # whatever lies above it, the name of a zone is what comes after
_MAX_LENGTH = 100  # characters; real names are far shorter


def machine_timezone(root: Path = Path("/")) -> str:
    """What clocks here go by, as a name that `zone` knows; UTC where nothing tells."""
    return next((name for name in _told(root) if _known(name)), _FALLBACK)


def zone(name: str) -> ZoneInfo:
    """UserError when there is no such zone."""
    found = _find(name)
    if found is None:
        close = get_close_matches(name[:_MAX_LENGTH], available_timezones(), n=1)
        guess = msg("Did you mean {x1}? ", x1=close[0]) if close and not any(map(str.isdigit, name)) else ""
        raise UserError(
            msg("There is no time zone {name}", name=repr(name[:_MAX_LENGTH])),
            field="timezone",
            hint=msg(
                "{guess}Names are like Europe/Berlin, Asia/Taipei, UTC, or Etc/GMT-2 for two hours ahead of it.",
                guess=guess,
            ),
        )
    return found


def _told(root: Path) -> Iterator[str]:
    yield _name_in(os.environ.get("TZ", "").removeprefix(":"))
    yield _name_in(_link(root / "etc/localtime"))  # before the file: it is what programs really go by
    yield _first_line(root / "etc/timezone")


def _name_in(path: str) -> str:
    return path.rpartition(_FOLDER)[2] if path.startswith(("/", ".")) else path


def _link(path: Path) -> str:
    """Only its own target: a zone may itself be a link, and people know it by the name they chose."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(_MAX_LENGTH + 1).strip()
    except OSError:
        return ""


def _known(name: str) -> bool:
    return _find(name) is not None


def _find(name: str) -> ZoneInfo | None:
    if not name or len(name) > _MAX_LENGTH:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # none, a path that leads elsewhere, a folder
        return None
