"""Groups and their quotas. Members and what admins of a group may change are at /groups/NAME/settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Amount, Quota
from holdfast.services.people.groups import GroupChange

from ...amounts import duration_text, number_text, read_duration, read_size, size_text
from ...fields import FORM, ConfirmPage, Field, FormPage, Link, Section, mark_of, try_confirm, try_form
from ...forms import Form
from ...listing import Listed, listed
from ...routes import page
from ...visit import Visit
from ..group_pages import group_path_of, tabs_of
from .addresses import edit_path, edit_routes
from .choices import naming
from .what_stays import schedules_left, unfinished_jobs

HOME = "/admin/groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    group: Group
    used: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListPage:
    groups: Listed[GroupRow]


async def show_groups(visit: Visit) -> Response:
    capacity = await visit.services.place.capacity(visit.who)
    used = {use.group: use.used for use in capacity.groups}
    rows = [GroupRow(group=group, used=used.get(group.name, Amount())) for group in await _all(visit)]
    found = listed(visit, rows, lambda row: f"{row.group.name} {row.group.display_name} {row.group.description}")
    return await visit.show("admin/groups.html", GroupListPage(groups=found))


async def _all(visit: Visit) -> list[Group]:
    return await visit.services.groups.list(visit.who)


# -- the form


def _sections(visit: Visit, *, new: bool) -> tuple[Section, ...]:
    say = visit.say
    help = say("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
    limit = Field(
        name="time_limit",
        label=say("Time limit of its jobs"),
        example="1d",
        help=say("Such as 12h or 2d. Empty: the server's own; 0: none. A job may ask for another one."),
    )
    return (
        Section(title="", fields=naming(visit, name_help=help, new=new)),
        Section(
            title=say("Quota of the group"),
            fields=_quota_fields(visit, "quota"),
            note=say("What all its jobs together may use at a time. Empty: no bound."),
        ),
        Section(
            title=say("Quota of each user"),
            fields=_quota_fields(visit, "user_quota"),
            note=say(
                "What one user's jobs in this group may use at a time. Not more than the group's. Empty: no bound."
            ),
        ),
        Section(title=say("Jobs"), fields=(limit,)),
        Section(title=say("Shared volume"), fields=_volume_fields(visit), note=_volume_note(visit)),
    )


def _quota_fields(visit: Visit, which: str) -> tuple[Field, ...]:
    say = visit.say
    return (
        Field(name=f"{which}.cpu", label=say("CPU cores"), kind="number", example="∞"),
        Field(name=f"{which}.gpu", label=say("GPUs"), kind="whole", example="∞"),
        Field(name=f"{which}.memory", label=say("Memory"), example="∞", help=say("Such as 64 GiB.")),
    )


def _volume_note(visit: Visit) -> str:
    return visit.say("A folder that stays, which jobs of the group find at /project/GROUP.")


def _volume_fields(visit: Visit) -> tuple[Field, ...]:
    say = visit.say
    return (
        Field(name="shared_volume", label=say("Its jobs have a shared volume"), kind="check"),
        Field(
            name="launch_only",
            label=say("Only jobs of this group see it"),
            kind="check",
            help=say("Else jobs that its members run in other groups see it, too."),
        ),
        Field(name="home_symlink", label=say("A link in the home folder leads to it"), kind="check"),
        Field(
            name="volume_capacity",
            label=say("Capacity in GB"),
            kind="whole",
            least="1",
            help=say("What it is meant to have. It is told, not enforced."),
        ),
    )


def _values(group: Group) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": group.name,
        "display_name": group.display_name,
        "description": group.description,
        "time_limit": duration_text(group.time_limit),
        "shared_volume": group.shared_volume,
        "launch_only": group.launch_only,
        "home_symlink": group.home_symlink,
        "volume_capacity": number_text(group.volume_capacity),
    }
    for which, quota in (("quota", group.quota), ("user_quota", group.user_quota)):
        values[f"{which}.cpu"] = number_text(quota.cpu)
        values[f"{which}.gpu"] = number_text(quota.gpu)
        values[f"{which}.memory"] = size_text(quota.memory)
    return values


def _read(form: Form) -> dict[str, Any]:
    return {
        "display_name": form.text("display_name"),
        "description": form.text("description"),
        "quota": _quota(form, "quota"),
        "user_quota": _quota(form, "user_quota"),
        "time_limit": read_duration(form, "time_limit"),
        "shared_volume": form.is_on("shared_volume"),
        "launch_only": form.is_on("launch_only"),
        "home_symlink": form.is_on("home_symlink"),
        "volume_capacity": form.whole("volume_capacity"),
    }


def _quota(form: Form, which: str) -> Quota:
    return Quota(
        cpu=form.number(f"{which}.cpu"), memory=read_size(form, f"{which}.memory"), gpu=form.whole(f"{which}.gpu")
    )


# -- a new one


async def show_new(visit: Visit) -> Response:
    return await visit.show(FORM, _new_form(visit))


async def add(visit: Visit, form: Form) -> Response:
    async def work() -> Response:
        made = await visit.services.groups.create(visit.who, Group(name=form.text("name"), **_read(form)))
        said = visit.say("Group {name} is added. Now add its members.", name=made.name)
        return visit.go(group_path_of(made.name, "/settings"), said)

    return await try_form(visit, _new_form(visit), form, work)


def _new_form(visit: Visit) -> FormPage:
    return FormPage(
        title=visit.say("Add a group"),
        action=f"{HOME}/new",
        back=_back(visit),
        submit=visit.say("Add"),
        sections=_sections(visit, new=True),
        values=_values(Group(name="")),
    )


def _back(visit: Visit) -> Link:
    return Link(HOME, visit.say("Groups and quotas"))


# -- changing


async def show_one(visit: Visit) -> Response:
    return await visit.show(FORM, _form_of(visit, await _named(visit)))


async def change(visit: Visit, form: Form) -> Response:
    group = await _named(visit)

    async def work() -> Response:
        await visit.services.groups.change(visit.who, group.name, GroupChange(**_read(form)))
        return visit.go(HOME, visit.say("Group {name} is changed.", name=group.name))

    return await try_form(visit, _form_of(visit, group), form, work)


async def _named(visit: Visit) -> Group:
    return await visit.services.groups.get(visit.who, visit.request.path_params["name"])


def _form_of(visit: Visit, group: Group) -> FormPage:
    values = _values(group)
    return FormPage(
        title=group.name,
        action=edit_path(HOME, group.name, "edit"),
        back=_back(visit),
        submit=visit.say("Save"),
        sections=_sections(visit, new=False),
        values=values,
        seen=mark_of(values),
        tabs=tabs_of(visit, group.name, "quotas"),
        links=(Link(edit_path(HOME, group.name, "delete"), visit.say("Remove"), "danger"),),
    )


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", await _removal(visit, await _named(visit)))


async def remove(visit: Visit, form: Form) -> Response:
    group = await _named(visit)

    async def work() -> Response:
        await visit.services.groups.delete(visit.who, group.name)
        return visit.go(HOME, visit.say("Group {name} is removed.", name=group.name))

    return await try_confirm(visit, await _removal(visit, group), work)


async def _removal(visit: Visit, group: Group) -> ConfirmPage:
    say, count = visit.say, visit.words.count
    members = len(group.members)
    points = [
        await unfinished_jobs(visit, group=group.name),
        count("{count} member leaves it.", "{count} members leave it.", members).format(count=members),
        await schedules_left(visit, group=group.name),
        await _granted(visit, group),
        say("Finished jobs stay on record; only admins see them."),
        say("Shared files and the shared volume stay on disk until a group of the same name is added."),
    ]
    return ConfirmPage(
        title=say("Remove the group {name}?", name=group.name),
        points=tuple(point for point in points if point),
        action=edit_path(HOME, group.name, "delete"),
        submit=say("Remove"),
        back=Link(edit_path(HOME, group.name, "edit"), group.name),
    )


async def _granted(visit: Visit, group: Group) -> str:
    """What is its own goes with it; what was granted to it is taken back."""
    services, name = visit.services, group.name
    things = [
        *(each.name for each in await services.instance_types.list(visit.who) if name in each.groups),
        *(each.name for each in await services.image_aliases.list(visit.who) if name in each.groups),
        *(each.name for each in await services.datasets.list(visit.who) if name in each.groups),
    ]
    if not things:
        return ""
    shown = ", ".join(things[:10]) + (" …" if len(things) > 10 else "")
    return visit.say("It no longer has: {things}", things=shown)


routes = [
    page(HOME, show_groups, admin=True),
    *edit_routes(HOME, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove)),
]
