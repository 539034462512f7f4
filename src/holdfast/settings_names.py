"""Settings that there are not: which one was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from holdfast.core.errors import UserError

ALL_LISTED = "docs/reference/settings.md lists every setting."
PREFIX = "HOLDFAST_"
Names = Mapping[str, Sequence[str]]  # section -> its settings


def unknown_setting(file: Path, where: Sequence[object], known: Names) -> UserError:
    """`where` is the path to it in the file."""
    parts = [str(part) for part in where]
    what = "section" if len(parts) == 1 else "setting"
    found = _meant(parts, known)
    return UserError(
        f"{file}: there is no {what} {'.'.join(parts)[:100]}",
        field=".".join(parts),
        hint=f"{found} {ALL_LISTED}" if found else ALL_LISTED,
    )


def _meant(parts: Sequence[str], known: Names) -> str:
    if len(parts) > 2:
        return ""
    owners = [section for section, fields in known.items() if parts[-1] in fields]
    near = _nearest(parts[-1], known if len(parts) == 1 else known.get(parts[0], ()))
    if near:
        return f"Did you mean {'.'.join([*parts[:-1], near])}?"
    return f"{parts[-1]} belongs below {' or '.join(f'[{owner}]' for owner in owners)}." if owners else ""


def strange_variables(environ: Iterable[str], known: Names) -> list[str]:
    """A line for each variable that looks like a setting and is none."""
    names = [f"{section}_{field}".upper() for section, fields in known.items() for field in fields]
    sections = tuple(f"{section}_".upper() for section in known)
    given = sorted(name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX))
    found = []
    for name in given:
        near = _nearest(name, names)
        if name not in names and (near or name.startswith(sections)):
            advice = f"Did you mean {PREFIX}{near}?" if near else ALL_LISTED
            found.append(f"{PREFIX}{name} is set, and there is no such setting. {advice}")
    return found


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.8)), None)
