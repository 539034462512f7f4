"""Suggestions for misspelled names of settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from holdfast.core.errors import UserError

SETTINGS_HINT = "See docs/reference/settings.md for all settings."
ENV_PREFIX = "HOLDFAST_"
SettingNames = Mapping[str, Sequence[str]]  # section -> its settings


def build_unknown_setting_error(file: Path, where: Sequence[object], known: SettingNames) -> UserError:
    """Return the error for an unknown setting; `where` is its path in the file."""
    parts = [str(part) for part in where]
    what = "section" if len(parts) == 1 else "setting"
    found = _suggest_name(parts, known)
    return UserError(
        f"{file}: unknown {what} {'.'.join(parts)[:100]}",
        field=".".join(parts),
        hint=f"{found} {SETTINGS_HINT}" if found else SETTINGS_HINT,
    )


def _suggest_name(parts: Sequence[str], known: SettingNames) -> str:
    if len(parts) > 2:
        return ""
    owners = [section for section, fields in known.items() if parts[-1] in fields]
    near = _find_nearest(parts[-1], known if len(parts) == 1 else known.get(parts[0], ()))
    if near:
        return f"Did you mean {'.'.join([*parts[:-1], near])}?"
    return f"Move {parts[-1]} to {' or '.join(f'[{owner}]' for owner in owners)}." if owners else ""


def list_unknown_variable_warnings(environ: Iterable[str], known: SettingNames) -> list[str]:
    """Return a warning for each HOLDFAST_ variable that is not a setting."""
    names = [f"{section}_{field}".upper() for section, fields in known.items() for field in fields]
    sections = tuple(f"{section}_".upper() for section in known)
    given = sorted(name.removeprefix(ENV_PREFIX) for name in environ if name.startswith(ENV_PREFIX))
    found = []
    for name in given:
        near = _find_nearest(name, names)
        if name not in names and (near or name.startswith(sections)):
            advice = f"Did you mean {ENV_PREFIX}{near}?" if near else SETTINGS_HINT
            found.append(f"{ENV_PREFIX}{name} is not a setting. {advice}")
    return found


def _find_nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.8)), None)
