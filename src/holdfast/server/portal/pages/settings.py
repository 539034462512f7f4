"""The settings in force, for admins. They are read at the start, so this page shows them and says how to change one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from starlette.responses import Response

from holdfast.services.installation.configuration import SettingView

from ..routes import page
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    settings: tuple[SettingView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    file: str
    sections: tuple[Section, ...]
    changed: int  # how many are not at their default


async def show_settings(visit: Visit) -> Response:
    found = visit.services.configuration.in_force(visit.who)
    sections = tuple(
        Section(name=name, settings=tuple(group))
        for name, group in groupby(found.settings, key=lambda setting: setting.section)
    )
    changed = sum(setting.source != "default" for setting in found.settings)
    return await visit.show(
        "settings/list.html", SettingsPage(file=str(found.file), sections=sections, changed=changed)
    )


routes = [page("/admin/settings", show_settings, admin=True)]
