"""The groups of a user; and one group: quotas and usage, members, and choices for jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.records import Dataset, Group
from holdfast.core.scheduling.placement import GroupUsage, ResourceAmount

from ...fields import Tab
from ...form_values import format_duration_input
from ...kind_names import get_dataset_kind_names
from ...listing import filter_and_paginate
from ...routes import build_page_route
from ...visit import Visit
from ..group_pages import build_group_tabs


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    group: Group
    used: ResourceAmount
    member: bool
    admin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    group: Group
    title: str
    tabs: tuple[Tab, ...]
    use: GroupUsage
    mine: ResourceAmount  # the visitor's share of the usage
    instance_types: tuple[InstanceType, ...]
    images: tuple[ImageAlias, ...]
    datasets: tuple[Dataset, ...]
    kinds: Mapping[str, str]  # display names of dataset kinds
    limit: str  # time limit; empty: none
    limit_is_own: bool  # not the default of the server
    mlflow: str  # address of its web page or tracking server


async def show_groups(visit: Visit) -> Response:
    used = {use.group: use.used for use in (await visit.services.installation.get_capacity(visit.current_actor)).groups}
    mine = visit.current_actor.groups
    cards = [
        GroupCard(
            group=group,
            used=used.get(group.name, ResourceAmount()),
            member=group.name in mine,
            admin=mine.get(group.name, False),
        )
        for group in await visit.services.groups.list(visit.current_actor)
    ]
    cards.sort(key=lambda card: not card.member)
    found = filter_and_paginate(visit, cards, lambda card: f"{card.group.name} {card.group.display_name}")
    return await visit.render_response("groups/list.html", found)


async def show_group(visit: Visit) -> Response:
    services, actor = visit.services, visit.current_actor
    group = await services.groups.get(actor, visit.path_params["name"])
    use = await services.installation.get_group_usage(actor, group)
    found = GroupPage(
        group=group,
        title=group.display_name or group.name,
        tabs=build_group_tabs(visit, group.name, "overview"),
        use=use,
        mine=use.users.get(actor.name, ResourceAmount()),
        instance_types=tuple(await services.instance_types.list_usable_types(actor, group.name)),
        images=tuple(await services.image_aliases.list_usable_aliases(actor, group.name)),
        datasets=tuple(await services.datasets.list_usable_datasets(actor, group.name)),
        kinds={kind: label for kind, (label, _) in get_dataset_kind_names(visit).items()},
        limit=_format_time_limit(group.time_limit, services.settings.jobs.time_limit),
        limit_is_own=group.time_limit is not None,
        mlflow=await _find_mlflow_address(visit, group),
    )
    return await visit.render_response("groups/overview.html", found)


def _format_time_limit(own: timedelta | None, everywhere: float) -> str:
    limit = timedelta(seconds=everywhere) if own is None else own
    return format_duration_input(limit) if limit else ""


async def _find_mlflow_address(visit: Visit, group: Group) -> str:
    if not (visit.current_actor.admin or group.name in visit.current_actor.groups):
        return ""
    found = await visit.services.groups.get_mlflow(visit.current_actor, group.name)
    return (found.ui_url or found.tracking_uri) if found else ""


routes = [build_page_route("/groups", show_groups), build_page_route("/groups/{name}", show_group)]
