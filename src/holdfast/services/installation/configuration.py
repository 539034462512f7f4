"""The settings in force, for admins to look at: what each is for, what it is, and where that was said.

They are read once, at the start; to change one is to change the file, the environment or the options, and start anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Forbidden
from holdfast.core.messages import msg
from holdfast.settings import Settings

MASK = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    section: str
    name: str
    description: str
    value: str
    default: str
    source: str  # default, file, environment or option
    line: str | None  # how it is written in the file, below [section]; None: it is a table of its own
    variable: str  # of the environment


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    file: Path
    settings: tuple[SettingView, ...]


class Configuration:
    def __init__(self, settings: Settings, home: Path) -> None:
        self._settings = settings
        self._file = home / "holdfast.toml"

    def in_force(self, actor: Actor) -> SettingsInForce:
        if not may(actor, Verb.MANAGE_PLACE):
            raise Forbidden(msg("Only admins see the settings"))
        return SettingsInForce(self._file, tuple(self._views()))

    def _views(self) -> list[SettingView]:
        found = []
        for section in Settings.model_fields:
            values: BaseModel = getattr(self._settings, section)
            for name, info in type(values).model_fields.items():
                value = _masked(section, name, getattr(values, name))
                found.append(
                    SettingView(
                        section=section,
                        name=name,
                        description=info.description or "",
                        value=_say(value),
                        default=_say(info.default),
                        source=self._settings.source_of(section, name),
                        line=_line(name, value),
                        variable=f"HOLDFAST_{section}_{name}".upper(),
                    )
                )
        return found


def _masked(section: str, name: str, value: Any) -> Any:
    if (section, name) == ("mail", "password") and value:
        return MASK
    return _hide_password(value) if (section, name) == ("store", "url") and value else value


def _hide_password(address: str) -> str:
    try:
        url = make_url(address)
    except ArgumentError:
        return MASK
    hidden = {key: MASK for key in url.query if "pass" in key.lower()}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _say(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(str(key) for key in value)
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _line(name: str, value: Any) -> str | None:
    """TOML writes these as JSON does."""
    if isinstance(value, Mapping):
        return None
    if value is None:
        return f"# {name} ="
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"
