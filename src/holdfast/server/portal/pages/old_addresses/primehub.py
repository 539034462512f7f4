"""Redirects from the pages of PrimeHub's console. They name a group by its path: research-a for research_A."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.access import Permission, has_permission
from holdfast.core.errors import NotFound
from holdfast.core.identity import format_group_path
from holdfast.core.messages import msg

from ....any_path import AnyPathConvertor  # noqa: F401 - {path:any}
from ...jobs.choices import list_submit_groups
from ...jobs.filters import MAX_FILTER_LENGTH, JobListFilters
from ...routes import build_page_route, build_redirect_route
from ...visit import Visit
from ..group_pages import build_group_path
from ..groups.files import build_files_path
from ..job.view import build_job_address

_ADMIN_PATHS = {  # its admin pages -> ours
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


def _get_group_path(visit: Visit) -> str:
    path: str = visit.path_params["group"]
    return path


async def redirect_admin(visit: Visit) -> Response:
    first = visit.path_params.get("rest", "").strip("/").partition("/")[0]
    return visit.redirect(f"/admin/{_ADMIN_PATHS.get(first, 'users')}")


# -- jobs. Lists show all groups with that path; an empty list shows its own message.


async def redirect_group_jobs(visit: Visit) -> Response:
    groups = await _list_groups_by_path(visit) or (_get_group_path(visit)[:MAX_FILTER_LENGTH],)
    return visit.redirect(JobListFilters(groups=groups).address)


async def redirect_new_job(visit: Visit) -> Response:
    for group in await list_submit_groups(visit):
        if _get_group_path(visit) in (group.name, format_group_path(group.name)):
            return visit.redirect(f"/jobs/new?group={quote(group.name, safe='')}")
    raise NotFound(msg("Group {group} not found", group=_get_group_path(visit)[:100]))


async def redirect_job(visit: Visit) -> Response:
    found = await visit.services.job_pages.get(visit.current_actor, visit.path_params["ref"])
    return visit.redirect(build_job_address(found.record.summary.id))


async def redirect_schedule_list(visit: Visit) -> Response:
    groups = await _list_groups_by_path(visit)
    return visit.redirect(f"/schedules?group={quote(groups[0], safe='')}" if groups else "/schedules")


async def redirect_schedule(visit: Visit) -> Response:
    id = visit.path_params["id"]
    return visit.redirect("/schedules/new" if id == "create" else f"/schedules/{quote(id, safe='')}")


async def _list_groups_by_path(visit: Visit) -> tuple[str, ...]:
    known = [group.name for group in await visit.services.groups.list(visit.current_actor)]
    return tuple(name for name in known if format_group_path(name) == format_group_path(_get_group_path(visit)))


# -- pages of a group


async def redirect_files(visit: Visit) -> Response:
    return visit.redirect(build_files_path(await _find_own_group(visit), visit.path_params.get("path", "").strip("/")))


async def redirect_datasets(visit: Visit) -> Response:
    return visit.redirect(build_group_path(await _find_own_group(visit), "#datasets"))


async def redirect_images(visit: Visit) -> Response:
    return visit.redirect(build_group_path(await _find_own_group(visit), "#images"))


async def redirect_settings(visit: Visit) -> Response:
    """Redirect to the settings, which only group admins can open."""
    group = await _find_own_group(visit)
    manages = has_permission(visit.current_actor, Permission.MANAGE_GROUP, group)
    return visit.redirect(build_group_path(group, "/settings" if manages else ""))


async def _find_own_group(visit: Visit) -> str:
    return await visit.services.files.find_group_by_path(visit.current_actor, _get_group_path(visit))


_GROUP_ROUTE_PREFIX = "/console/g/{group}"
routes = [
    build_redirect_route("/console", "/"),
    build_redirect_route("/console/", "/"),
    build_page_route("/console/admin", redirect_admin, admin=True),
    build_page_route("/console/admin/{rest:any}", redirect_admin, admin=True),
    build_redirect_route(_GROUP_ROUTE_PREFIX, "/"),
    build_redirect_route(f"{_GROUP_ROUTE_PREFIX}/home", "/"),
    build_redirect_route(f"{_GROUP_ROUTE_PREFIX}/api-token", "/me/tokens"),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/job", redirect_group_jobs),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/job/create", redirect_new_job),
    build_page_route(_GROUP_ROUTE_PREFIX + "/job/{ref}", redirect_job),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/recurringJob", redirect_schedule_list),
    build_page_route(_GROUP_ROUTE_PREFIX + "/recurringJob/{id}", redirect_schedule),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/browse", redirect_files),
    build_page_route(_GROUP_ROUTE_PREFIX + "/browse/{path:any}", redirect_files),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/datasets", redirect_datasets),
    build_page_route(_GROUP_ROUTE_PREFIX + "/datasets/{rest:any}", redirect_datasets),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/images", redirect_images),
    build_page_route(_GROUP_ROUTE_PREFIX + "/images/{rest:any}", redirect_images),
    build_page_route(f"{_GROUP_ROUTE_PREFIX}/settings", redirect_settings),
]
