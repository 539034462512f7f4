"""The effective settings, for admins: description, value and source of each.

They are read once at startup; to change one, change the file, the environment or the options and restart the server.
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

from holdfast.core.access import Actor
from holdfast.core.messages import msg
from holdfast.settings import Settings

from ..permissions import require_admin

MASK = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingView:
    section: str
    name: str
    description: str
    value: str
    default: str
    source: str  # default, file, environment or option
    line: str | None  # its line in the file below [section]; None: it is a table
    variable: str  # environment variable


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    file: Path
    settings: tuple[SettingView, ...]


class Configuration:
    def __init__(self, settings: Settings, home: Path) -> None:
        self._settings = settings
        self._file = home / "holdfast.toml"

    def get_effective_settings(self, actor: Actor) -> EffectiveSettings:
        require_admin(actor, msg("Only admins can see the settings"))
        return EffectiveSettings(self._file, tuple(self._build_views()))

    def _build_views(self) -> list[SettingView]:
        found = []
        for section in Settings.model_fields:
            values: BaseModel = getattr(self._settings, section)
            for name, info in type(values).model_fields.items():
                value = _mask_value(section, name, getattr(values, name))
                found.append(
                    SettingView(
                        section=section,
                        name=name,
                        description=info.description or "",
                        value=_format_value(value),
                        default=_format_value(info.default),
                        source=self._settings.get_source(section, name),
                        line=_format_toml_line(name, value),
                        variable=f"HOLDFAST_{section}_{name}".upper(),
                    )
                )
        return found


def _mask_value(section: str, name: str, value: Any) -> Any:
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


def _format_value(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(str(key) for key in value)
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _format_toml_line(name: str, value: Any) -> str | None:
    """Return the TOML line; these values have the same syntax in JSON."""
    if isinstance(value, Mapping):
        return None
    if value is None:
        return f"# {name} ="
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"
