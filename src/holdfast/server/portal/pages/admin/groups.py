"""Admin pages of groups and quotas. Members and settings of group admins are at /groups/NAME/settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota, ResourceAmount
from holdfast.services.people.groups import GroupChange, Groups

from ...fields import Field, FormPage, Section, SelectOption
from ...form_values import (
    format_duration_input,
    format_number_input,
    format_size_input,
    read_duration_field,
    read_size_field,
)
from ...forms import Form
from ...listing import filter_and_paginate
from ...routes import build_page_route
from ...translations import N_
from ...visit import Visit
from ..group_pages import build_group_path, build_group_tabs
from .choices import build_name_fields
from .leftovers import describe_schedules, describe_unfinished_jobs
from .record_forms import RecordForms, RecordTexts, build_record_routes
from .slurm_fields import build_slurm_sections, make_slurm_values, read_slurm_fields

GROUPS_PATH = "/admin/groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    group: Group
    used: ResourceAmount


async def show_groups(visit: Visit) -> Response:
    capacity = await visit.services.installation.get_capacity(visit.current_actor)
    used = {use.group: use.used for use in capacity.groups}
    groups = await visit.services.groups.list(visit.current_actor)
    rows = [GroupRow(group=group, used=used.get(group.name, ResourceAmount())) for group in groups]
    found = filter_and_paginate(
        visit, rows, lambda row: f"{row.group.name} {row.group.display_name} {row.group.description}"
    )
    return await visit.render_response("admin/groups.html", found)


class GroupForms(RecordForms[Group]):
    path = GROUPS_PATH
    texts = RecordTexts(
        list=N_("Groups and quotas"),
        add=N_("Add a group"),
        added=N_("Group {name} was added. Now add its members."),
        changed=N_("Group {name} was changed."),
        remove=N_("Delete the group {name}?"),
        removed=N_("Group {name} was deleted."),
    )

    @property
    def service(self) -> Groups:
        return self.services.groups

    async def build_form_page(self, record: Group | None) -> FormPage:
        page = await super().build_form_page(record)
        return replace(page, tabs=build_group_tabs(self.visit, record.name, "quotas")) if record else page

    async def build_sections(self, record: Group | None) -> tuple[Section, ...]:
        return _build_group_sections(self.visit, new=record is None)

    async def build_values(self, record: Group | None) -> dict[str, Any]:
        return _group_to_values(record or Group(name=""))

    async def create_record(self, form: Form) -> Response:
        group = await self.service.create(self.actor, Group(name=form.get_text("name"), **_read_group_form(form)))
        message = self.visit.translate_text(self.texts.added, name=group.name)
        return self.visit.redirect(build_group_path(group.name, "/settings"), message)

    async def update_record(self, record: Group, form: Form) -> None:
        await self.service.change(self.actor, record.name, GroupChange(**_read_group_form(form)))

    async def describe_removal(self, record: Group) -> list[str]:
        _, visit, members = self.visit.translate_text, self.visit, len(record.members)
        return [
            await describe_unfinished_jobs(visit, group=record.name),
            visit.translate_plural(
                "{count} member is removed from it.", "{count} members are removed from it.", members, count=members
            ),
            await describe_schedules(visit, group=record.name),
            await _describe_grants(visit, record.name),
            _("Finished jobs are kept; only admins can see them."),
            _("Shared files and the shared volume are kept on disk until a group with the same name is added."),
        ]


async def _describe_grants(visit: Visit, group: str) -> str:
    """Describe the grants that are revoked with the removal of the group."""
    services = visit.services
    names = [
        record.name
        for service in (services.instance_types, services.image_aliases, services.datasets)
        for record in await service.list(visit.current_actor)
        if group in record.groups
    ]
    if not names:
        return ""
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    return visit.translate_text("It loses access to: {things}", things=shown)


# -- fields


def _build_group_sections(visit: Visit, *, new: bool) -> tuple[Section, ...]:
    _ = visit.translate_text
    help = _("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
    limit = Field(
        "time_limit",
        _("Job time limit"),
        example="1d",
        help=_("For example 12h or 2d. Empty: server default. 0: no limit. A job can set its own limit."),
    )
    return (
        Section("", build_name_fields(visit, name_help=help, new=new)),
        Section(
            _("Group quota"),
            _build_quota_fields(visit, "quota"),
            note=_("Total resources that its jobs can use at the same time. Empty: unlimited."),
        ),
        Section(
            _("Quota per user"),
            _build_quota_fields(visit, "user_quota"),
            note=_(
                "Total resources that one user's jobs in this group can use at the same time. At most the "
                "group quota. Empty: unlimited."
            ),
        ),
        Section(_("Jobs"), (limit, *_build_engine_fields(visit))),
        *build_slurm_sections(visit, _("Options of its jobs for Slurm. Instance types and jobs override them.")),
        Section(
            _("Shared volume"),
            _build_volume_fields(visit),
            note=_("A persistent folder for the group's jobs, mounted at /project/GROUP."),
        ),
    )


def _build_engine_fields(visit: Visit) -> tuple[Field, ...]:
    """Build the choice of an engine, if there are several."""
    names = visit.services.installation.engine.names
    if len(names) == 1:
        return ()
    choices = (SelectOption("", visit.translate_text("Server default")), *(SelectOption(name, name) for name in names))
    return (Field("engine", visit.translate_text("Engine"), kind="select", choices=choices),)


def _build_quota_fields(visit: Visit, prefix: str) -> tuple[Field, ...]:
    _ = visit.translate_text
    return (
        Field(f"{prefix}.cpu", _("CPU cores"), kind="number", example="∞"),
        Field(f"{prefix}.gpu", _("GPUs"), kind="whole", example="∞"),
        Field(f"{prefix}.memory", _("Memory"), example="∞", help=_("For example 64 GiB.")),
    )


def _build_volume_fields(visit: Visit) -> tuple[Field, ...]:
    _ = visit.translate_text
    return (
        Field("shared_volume", _("Mount a shared volume in its jobs"), kind="check"),
        Field(
            "launch_only",
            _("Visible only to jobs of this group"),
            kind="check",
            help=_("Otherwise, jobs of its members in other groups can also see it."),
        ),
        Field("home_symlink", _("Add a link to it in the home folder"), kind="check"),
        Field(
            "volume_capacity",
            _("Capacity in GB"),
            kind="whole",
            least="1",
            help=_("Planned capacity. For information only; not enforced."),
        ),
    )


def _group_to_values(group: Group) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": group.name,
        "display_name": group.display_name,
        "description": group.description,
        "time_limit": format_duration_input(group.time_limit),
        "engine": group.engine,
        **make_slurm_values(group.slurm),
        "shared_volume": group.shared_volume,
        "launch_only": group.launch_only,
        "home_symlink": group.home_symlink,
        "volume_capacity": format_number_input(group.volume_capacity),
    }
    for prefix, quota in (("quota", group.quota), ("user_quota", group.user_quota)):
        values[f"{prefix}.cpu"] = format_number_input(quota.cpu)
        values[f"{prefix}.gpu"] = format_number_input(quota.gpu)
        values[f"{prefix}.memory"] = format_size_input(quota.memory)
    return values


def _read_group_form(form: Form) -> dict[str, Any]:
    return {
        "display_name": form.get_text("display_name"),
        "description": form.get_text("description"),
        "quota": _read_quota(form, "quota"),
        "user_quota": _read_quota(form, "user_quota"),
        "time_limit": read_duration_field(form, "time_limit"),
        **({"engine": form.get_text("engine")} if form.get_all("engine") else {}),
        **read_slurm_fields(form),
        "shared_volume": form.is_checked("shared_volume"),
        "launch_only": form.is_checked("launch_only"),
        "home_symlink": form.is_checked("home_symlink"),
        "volume_capacity": form.get_integer("volume_capacity"),
    }


def _read_quota(form: Form, prefix: str) -> Quota:
    return Quota(
        cpu=form.get_number(f"{prefix}.cpu"),
        memory=read_size_field(form, f"{prefix}.memory"),
        gpu=form.get_integer(f"{prefix}.gpu"),
    )


routes = [build_page_route(GROUPS_PATH, show_groups, admin=True), *build_record_routes(GROUPS_PATH, GroupForms)]
