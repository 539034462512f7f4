"""Pages of PrimeHub's console. A group stands in them by its path: research-a for research_A."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.access import Verb, may
from holdfast.core.errors import NotFound
from holdfast.core.identity import group_path
from holdfast.core.messages import msg

from ....any_path import AnyPath  # noqa: F401 - {path:any}
from ...jobs.choices import groups_to_choose
from ...jobs.filters import MAX_LENGTH, Filters
from ...routes import page
from ...visit import Visit
from ..group_pages import group_path_of
from ..groups.files import files_path
from ..job.view import job_address

_ADMIN = {  # its places for admins -> ours
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


def _path(visit: Visit) -> str:
    path: str = visit.request.path_params["group"]
    return path


async def home(visit: Visit) -> Response:
    return visit.go("/")


async def admin(visit: Visit) -> Response:
    first = visit.request.path_params.get("rest", "").strip("/").partition("/")[0]
    return visit.go(f"/admin/{_ADMIN.get(first, 'users')}")


# -- jobs. Lists are of all groups with that path; what there is none of is told by the list itself.


async def job_list(visit: Visit) -> Response:
    return visit.go(Filters(groups=await _groups(visit) or (_path(visit)[:MAX_LENGTH],)).address)


async def new_job(visit: Visit) -> Response:
    for group in await groups_to_choose(visit):
        if _path(visit) in (group.name, group_path(group.name)):
            return visit.go(f"/jobs/new?group={quote(group.name, safe='')}")
    raise NotFound(msg("There is no group {visit}", visit=_path(visit)[:100]))


async def job(visit: Visit) -> Response:
    found = await visit.services.closeup.get(visit.who, visit.request.path_params["ref"])
    return visit.go(job_address(found.record.summary.id))


async def schedule_list(visit: Visit) -> Response:
    groups = await _groups(visit)
    return visit.go(f"/schedules?group={quote(groups[0], safe='')}" if groups else "/schedules")


async def schedule(visit: Visit) -> Response:
    id = visit.request.path_params["id"]
    return visit.go("/schedules/new" if id == "create" else f"/schedules/{quote(id, safe='')}")


async def _groups(visit: Visit) -> tuple[str, ...]:
    known = [group.name for group in await visit.services.groups.list(visit.who)]
    return tuple(name for name in known if group_path(name) == group_path(_path(visit)))


# -- what a group has, for its members


async def browse(visit: Visit) -> Response:
    return visit.go(files_path(await _own_group(visit), visit.request.path_params.get("path", "").strip("/")))


async def datasets(visit: Visit) -> Response:
    return visit.go(group_path_of(await _own_group(visit), "#datasets"))


async def images(visit: Visit) -> Response:
    return visit.go(group_path_of(await _own_group(visit), "#images"))


async def settings(visit: Visit) -> Response:
    """They were there for all members to read; ours are for those who may change them."""
    group = await _own_group(visit)
    return visit.go(group_path_of(group, "/settings" if may(visit.who, Verb.MANAGE_GROUP, group) else ""))


async def _own_group(visit: Visit) -> str:
    return await visit.services.files.group_of_path(visit.who, _path(visit))


async def tokens(visit: Visit) -> Response:
    return visit.go("/me/tokens")


_GROUP = "/console/g/{group}"
routes = [
    page("/console", home),
    page("/console/", home),
    page("/console/admin", admin, admin=True),
    page("/console/admin/{rest:any}", admin, admin=True),
    page(_GROUP, home),
    page(f"{_GROUP}/home", home),
    page(f"{_GROUP}/api-token", tokens),
    page(f"{_GROUP}/job", job_list),
    page(f"{_GROUP}/job/create", new_job),
    page(_GROUP + "/job/{ref}", job),
    page(f"{_GROUP}/recurringJob", schedule_list),
    page(_GROUP + "/recurringJob/{id}", schedule),
    page(f"{_GROUP}/browse", browse),
    page(_GROUP + "/browse/{path:any}", browse),
    page(f"{_GROUP}/datasets", datasets),
    page(_GROUP + "/datasets/{rest:any}", datasets),
    page(f"{_GROUP}/images", images),
    page(_GROUP + "/images/{rest:any}", images),
    page(f"{_GROUP}/settings", settings),
]
