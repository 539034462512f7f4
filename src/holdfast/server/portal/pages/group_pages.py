"""What the pages of one group have in common: their addresses, the tabs above them, and whom some are for."""

from __future__ import annotations

from urllib.parse import quote

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from ..fields import Tab
from ..visit import Visit


def group_path_of(name: str, rest: str = "") -> str:
    """The address of a group's page."""
    return f"/groups/{quote(name, safe='')}{rest}"


def need_manager(visit: Visit, name: str) -> None:
    """Whoever does not look after the group need not know that there is such a page."""
    if not may(visit.who, Verb.MANAGE_GROUP, name):
        raise NotFound(msg("There is nothing at this address"))


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
