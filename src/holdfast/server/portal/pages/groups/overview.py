"""One's groups; and one of them: its quotas and their use, its members, and what its jobs can choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.records import Dataset, Group
from holdfast.core.scheduling.placement import Amount, GroupUse

from ...amounts import duration_text
from ...fields import Tab
from ...kind_names import dataset_kinds
from ...listing import Listed, listed
from ...routes import page
from ...visit import Visit
from ..group_pages import tabs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCard:
    group: Group
    used: Amount
    member: bool
    admin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPage:
    groups: Listed[GroupCard]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    group: Group
    title: str
    tabs: tuple[Tab, ...]
    use: GroupUse
    mine: Amount  # of the use, what is the visitor's own
    instance_types: tuple[InstanceType, ...]
    images: tuple[ImageAlias, ...]
    datasets: tuple[Dataset, ...]
    kinds: Mapping[str, str]  # of datasets, in words
    limit: str  # of time; empty: none
    limit_is_own: bool  # and not the server's
    mlflow: str  # address of its pages, or of the server


async def show_groups(visit: Visit) -> Response:
    used = {use.group: use.used for use in (await visit.services.place.capacity(visit.who)).groups}
    mine = visit.who.groups
    cards = [
        GroupCard(
            group=group,
            used=used.get(group.name, Amount()),
            member=group.name in mine,
            admin=mine.get(group.name, False),
        )
        for group in await visit.services.groups.list(visit.who)
    ]
    cards.sort(key=lambda card: not card.member)
    found = listed(visit, cards, lambda card: f"{card.group.name} {card.group.display_name}")
    return await visit.show("groups/list.html", GroupsPage(groups=found))


async def show_group(visit: Visit) -> Response:
    services, who = visit.services, visit.who
    group = await services.groups.get(who, visit.request.path_params["name"])
    use = await services.place.use_of(who, group)
    found = GroupPage(
        group=group,
        title=group.display_name or group.name,
        tabs=tabs_of(visit, group.name, "overview"),
        use=use,
        mine=use.users.get(who.name, Amount()),
        instance_types=tuple(await services.instance_types.usable(who, group.name)),
        images=tuple(await services.image_aliases.usable(who, group.name)),
        datasets=tuple(await services.datasets.usable(who, group.name)),
        kinds={kind: label for kind, (label, _) in dataset_kinds(visit).items()},
        limit=_limit(group.time_limit, services.settings.jobs.time_limit),
        limit_is_own=group.time_limit is not None,
        mlflow=await _mlflow(visit, group),
    )
    return await visit.show("groups/overview.html", found)


def _limit(own: timedelta | None, everywhere: float) -> str:
    limit = timedelta(seconds=everywhere) if own is None else own
    return duration_text(limit) if limit else ""


async def _mlflow(visit: Visit, group: Group) -> str:
    if not (visit.who.admin or group.name in visit.who.groups):
        return ""
    found = await visit.services.groups.mlflow(visit.who, group.name)
    return (found.ui_url or found.tracking_uri) if found else ""


routes = [page("/groups", show_groups), page("/groups/{name}", show_group)]
