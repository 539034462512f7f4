"""The pages of one group, as tabs above each of them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from holdfast.core.access import Verb, may

from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    href: str
    label: str
    here: bool


def group_path_of(name: str, rest: str = "") -> str:
    """The address of a group's page."""
    return f"/groups/{quote(name, safe='')}{rest}"


def tabs_of(visit: Visit, name: str, here: str) -> tuple[Tab, ...]:
    say, path = visit.say, group_path_of(name)
    found = [("overview", path, say("Overview"))]
    if may(visit.who, Verb.USE_FILES, name):
        found.append(("files", f"{path}/files", say("Shared files")))
    if may(visit.who, Verb.MANAGE_GROUP, name):
        found.append(("settings", f"{path}/settings", say("Members and settings")))
    if may(visit.who, Verb.MANAGE_PLACE):
        found.append(("quotas", f"/admin{path}/edit", say("Quotas and volume")))
    return tuple(Tab(href=href, label=label, here=key == here) for key, href, label in found)
