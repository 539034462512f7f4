"""Addresses that people kept from PrimeHub's and OpenPAI's portals."""

from __future__ import annotations

from starlette.responses import Response

from ....any_path import AnyPath  # noqa: F401 - {path:any}
from ...routes import page
from ...visit import Visit
from ..group_tabs import group_path_of
from .files import files_path

_ADMIN = {
    "group": "groups",
    "user": "users",
    "instanceType": "instance-types",
    "image": "images",
    "dataset": "datasets",
    "volume": "datasets",
    "secret": "secrets",
    "usageReport": "usage",
    "usage": "usage",
    "system": "settings",
}


async def browse(visit: Visit) -> Response:
    return visit.go(files_path(await _group(visit), visit.request.path_params.get("path", "").strip("/")))


async def datasets(visit: Visit) -> Response:
    return visit.go(group_path_of(await _group(visit), "#datasets"))


async def images(visit: Visit) -> Response:
    return visit.go(group_path_of(await _group(visit), "#images"))


async def settings(visit: Visit) -> Response:
    """They were there for all members to read; ours are for those who may change them."""
    group = await _group(visit)
    changes = visit.who.admin or visit.who.groups.get(group, False)
    return visit.go(group_path_of(group, "/settings" if changes else ""))


async def _group(visit: Visit) -> str:
    return await visit.services.files.group_of_path(visit.who, visit.request.path_params["group"])


async def admin(visit: Visit) -> Response:
    first = visit.request.path_params.get("rest", "").strip("/").partition("/")[0]
    return visit.go(f"/admin/{_ADMIN.get(first, 'users')}")


async def clusters(visit: Visit) -> Response:
    return visit.go("/groups")


async def user_view(visit: Visit) -> Response:
    return visit.go("/admin/users")


async def batch_register(visit: Visit) -> Response:
    return visit.go("/admin/users/import")


routes = [
    page("/console/g/{group}/browse", browse),
    page("/console/g/{group}/browse/{path:any}", browse),
    page("/console/g/{group}/datasets", datasets),
    page("/console/g/{group}/datasets/{rest:any}", datasets),
    page("/console/g/{group}/images", images),
    page("/console/g/{group}/images/{rest:any}", images),
    page("/console/g/{group}/settings", settings),
    page("/console/admin", admin, admin=True),
    page("/console/admin/{rest:any}", admin, admin=True),
    page("/virtual-clusters.html", clusters),
    page("/user-view.html", user_view, admin=True),
    page("/batch-register.html", batch_register, admin=True),
]
