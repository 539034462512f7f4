"""Shared parts of the pages of a group: paths, tabs and access control."""

from __future__ import annotations

from urllib.parse import quote

from holdfast.core.access import Permission, has_permission
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from ..fields import Tab
from ..visit import Visit


def build_group_path(name: str, rest: str = "") -> str:
    return f"/groups/{quote(name, safe='')}{rest}"


def require_group_manager(visit: Visit, name: str) -> None:
    """Raise NotFound for users who do not manage the group, to hide the page."""
    if not has_permission(visit.current_actor, Permission.MANAGE_GROUP, name):
        raise NotFound(msg("Not found: no resource has this URL"))


def build_group_tabs(visit: Visit, name: str, here: str) -> tuple[Tab, ...]:
    _, path = visit.translate_text, build_group_path(name)
    found = [("overview", path, _("Overview"))]
    if has_permission(visit.current_actor, Permission.USE_FILES, name):
        found.append(("files", f"{path}/files", _("Shared files")))
    if has_permission(visit.current_actor, Permission.MANAGE_GROUP, name):
        found.append(("settings", f"{path}/settings", _("Members and settings")))
    if has_permission(visit.current_actor, Permission.MANAGE_INSTALLATION):
        found.append(("quotas", f"/admin{path}/edit", _("Quotas and volume")))
    return tuple(Tab(href=href, label=label, here=key == here) for key, href, label in found)
