"""Group settings for group admins: members, time limit, hold, MLflow and image aliases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.jobspec.holds import NO_HOLD, format_hold, parse_hold
from holdfast.services.people.groups import GroupChange

from ...fields import (
    FORM_TEMPLATE,
    Field,
    FieldProblem,
    FormPage,
    Link,
    Section,
    Tab,
    build_field_problem,
    compute_record_version,
    handle_form,
)
from ...form_values import format_duration_input, format_variables, read_duration_field, read_variables_field
from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...visit import Visit
from ..group_pages import build_group_path, build_group_tabs, require_group_manager

_SETTINGS_PATH = "/groups/{name}/settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettingsPage:
    group: Group
    tabs: tuple[Tab, ...]
    known_users: tuple[str, ...]  # suggestions, for those who see all users
    images: tuple[ImageAlias, ...]  # the group's own
    mlflow: Mlflow | None
    new_member: str = ""  # as typed
    new_limit: str = ""
    new_hold: str = ""
    problems: dict[str, FieldProblem]  # by field


async def show_group_settings(visit: Visit) -> Response:
    return await visit.render_response("groups/settings.html", await _build_settings_page(visit))


async def _load_managed_group(visit: Visit) -> Group:
    group = await visit.services.groups.get(visit.current_actor, visit.path_params["name"])
    require_group_manager(visit, group.name)
    return group


async def _build_settings_page(visit: Visit) -> GroupSettingsPage:
    group, services = await _load_managed_group(visit), visit.services
    users = [user.name for user in await services.users.list(visit.current_actor)]
    aliases = await services.image_aliases.list(visit.current_actor)
    return GroupSettingsPage(
        group=group,
        tabs=build_group_tabs(visit, group.name, "settings"),
        known_users=tuple(name for name in users if name not in group.members),
        images=tuple(alias for alias in aliases if alias.owner == group.name),
        mlflow=await services.groups.get_mlflow(visit.current_actor, group.name),
        new_limit=format_duration_input(group.time_limit),
        new_hold=format_hold(group.hold) if group.hold else "",
        problems={},
    )


async def _show_settings_problem(visit: Visit, error: UserError, field: str, **typed: str) -> Response:
    """Show the page with the typed values and the problem."""
    shown = replace(await _build_settings_page(visit), problems={field: build_field_problem(visit, error)}, **typed)  # type: ignore[arg-type]
    return await visit.render_response("groups/settings.html", shown, 400)


def _build_settings_path(group: Group) -> str:
    return build_group_path(group.name, "/settings")


# -- members


async def add_group_member(visit: Visit, form: Form) -> Response:
    group, user = await _load_managed_group(visit), form.get_text("user")
    try:
        if user in group.members:
            raise UserError(msg("{user} is already a member", user=user), field="user")
        await visit.services.groups.set_member(visit.current_actor, group.name, user, admin=form.is_checked("admin"))
    except UserError as error:
        return await _show_settings_problem(visit, error, "user", new_member=user)
    return visit.redirect(_build_settings_path(group), visit.translate_text("{user} is now a member.", user=user))


async def change_group_member(visit: Visit, form: Form) -> Response:
    """Change the admin flag of a member or remove it. A user who was removed is not added again."""
    group, user, verb = await _load_managed_group(visit), form.get_text("user"), form.get_text("verb")
    groups, _ = visit.services.groups, visit.translate_text
    if user not in group.members:
        raise NotFound(msg("{user} is not a member of {name}", user=user[:100], name=group.name))
    keeps_access = user != visit.current_actor.name or visit.current_actor.admin
    if verb == "remove":
        await groups.remove_member(visit.current_actor, group.name, user)
        target = _build_settings_path(group) if keeps_access else "/groups"
        return visit.redirect(target, _("{user} is no longer a member.", user=user))
    await groups.set_member(visit.current_actor, group.name, user, admin=verb == "raise")
    if verb == "raise":
        return visit.redirect(_build_settings_path(group), _("{user} is now a group admin.", user=user))
    target = _build_settings_path(group) if keeps_access else build_group_path(group.name)
    return visit.redirect(target, _("{user} is no longer a group admin.", user=user))


# -- time limit and hold


async def set_time_limit(visit: Visit, form: Form) -> Response:
    group = await _load_managed_group(visit)
    try:
        change = GroupChange(time_limit=read_duration_field(form, "time_limit"))
        await visit.services.groups.change(visit.current_actor, group.name, change)
    except UserError as error:
        return await _show_settings_problem(visit, error, "time_limit", new_limit=form.get_raw_text("time_limit"))
    message = visit.translate_text("The time limit was saved. Jobs that are already submitted keep theirs.")
    return visit.redirect(_build_settings_path(group), message)


async def set_default_hold(visit: Visit, form: Form) -> Response:
    group, text = await _load_managed_group(visit), form.get_text("hold")
    try:
        hold = parse_hold(text) if text else NO_HOLD
        change = GroupChange(hold=None if hold == NO_HOLD else hold)
        await visit.services.groups.change(visit.current_actor, group.name, change)
    except UserError as error:
        return await _show_settings_problem(visit, error, "hold", new_hold=form.get_raw_text("hold"))
    message = visit.translate_text("The hold setting was saved. It applies to new jobs.")
    return visit.redirect(_build_settings_path(group), message)


# -- MLflow


async def show_mlflow(visit: Visit) -> Response:
    return await visit.render_response(FORM_TEMPLATE, await _build_mlflow_form(visit, await _load_managed_group(visit)))


async def set_mlflow(visit: Visit, form: Form) -> Response:
    group = await _load_managed_group(visit)

    async def save_mlflow() -> Response:
        found = Mlflow(
            tracking_uri=form.get_text("tracking_uri"),
            ui_url=form.get_text("ui_url"),
            tracking_envs=read_variables_field(form, "tracking_envs"),
            artifact_envs=read_variables_field(form, "artifact_envs"),
        )
        await visit.services.groups.set_mlflow(visit.current_actor, group.name, found)
        message = visit.translate_text("MLflow is configured for jobs that start from now on.")
        return visit.redirect(_build_settings_path(group), message)

    return await handle_form(visit, await _build_mlflow_form(visit, group), form, save_mlflow)


async def remove_mlflow(visit: Visit, form: Form) -> Response:
    group = await _load_managed_group(visit)
    await visit.services.groups.set_mlflow(visit.current_actor, group.name, None)
    return visit.redirect(_build_settings_path(group), visit.translate_text("MLflow is no longer configured."))


async def _build_mlflow_form(visit: Visit, group: Group) -> FormPage:
    _ = visit.translate_text
    found = await visit.services.groups.get_mlflow(visit.current_actor, group.name)
    values: dict[str, Any] = {
        "tracking_uri": found.tracking_uri if found else "",
        "ui_url": found.ui_url if found else "",
        "tracking_envs": format_variables(found.tracking_envs if found else {}),
        "artifact_envs": format_variables(found.artifact_envs if found else {}),
    }
    lines = _("NAME=VALUE, one per line. Only group admins can see the values.")
    fields = (
        Field("tracking_uri", _("Tracking server URL"), required=True, example="http://mlflow.example:5000"),
        Field("ui_url", _("Web UI URL"), help=_("The address where users view experiments.")),
        Field("tracking_envs", _("Tracking server variables"), kind="area", help=lines),
        Field("artifact_envs", _("Artifact store variables"), kind="area", help=lines),
    )
    return FormPage(
        title=_("MLflow of {name}", name=group.name),
        action=_build_settings_path(group) + "/mlflow",
        back=Link(_build_settings_path(group), group.name),
        submit=_("Save"),
        about=_("Jobs of the group get these as environment variables and report their experiments to MLflow."),
        sections=(Section("", fields),),
        values=values,
        version=compute_record_version(values),
    )


routes = [
    build_page_route(_SETTINGS_PATH, show_group_settings),
    build_form_route(f"{_SETTINGS_PATH}/members/add", add_group_member),
    build_form_route(f"{_SETTINGS_PATH}/members/change", change_group_member),
    build_form_route(f"{_SETTINGS_PATH}/time-limit", set_time_limit),
    build_form_route(f"{_SETTINGS_PATH}/hold", set_default_hold),
    build_page_route(f"{_SETTINGS_PATH}/mlflow", show_mlflow),
    build_form_route(f"{_SETTINGS_PATH}/mlflow", set_mlflow),
    build_form_route(f"{_SETTINGS_PATH}/mlflow/remove", remove_mlflow),
]
