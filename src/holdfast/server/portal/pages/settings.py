"""The current settings, for admins. They are read at startup, so the page is read-only and shows how to change one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from starlette.responses import Response

from holdfast.services.installation.configuration import SettingView

from ..routes import build_page_route
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPageSection:
    name: str
    settings: tuple[SettingView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    file: str
    sections: tuple[SettingsPageSection, ...]
    changed: int  # number of settings that differ from their default


async def show_settings(visit: Visit) -> Response:
    found = visit.services.configuration.get_effective_settings(visit.current_actor)
    sections = tuple(
        SettingsPageSection(name=name, settings=tuple(group))
        for name, group in groupby(found.settings, key=lambda setting: setting.section)
    )
    changed = sum(setting.source != "default" for setting in found.settings)
    return await visit.render_response(
        "settings/list.html", SettingsPage(file=str(found.file), sections=sections, changed=changed)
    )


routes = [build_page_route("/admin/settings", show_settings, admin=True)]
