"""What admins of a group change: members, time limit, hold, MLflow and the group's own image aliases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.jobspec.holds import NOT_HELD, hold_word, parse_hold
from holdfast.services.people.groups import GroupChange

from ...amounts import duration_text, read_duration, read_variables, variables_text
from ...fields import FORM, Field, FormPage, Link, Section, Tab, Wrong, mark_of, try_form, wrong_of
from ...forms import Form
from ...routes import act, page
from ...visit import Visit
from ..group_pages import group_path_of, need_manager, tabs_of

_PATH = "/groups/{name}/settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage:
    group: Group
    tabs: tuple[Tab, ...]
    known_users: tuple[str, ...]  # to choose from, for those who see all users
    images: tuple[ImageAlias, ...]  # the group's own
    mlflow: Mlflow | None
    new_member: str = ""  # as it was typed
    new_limit: str = ""
    new_hold: str = ""
    wrongs: dict[str, Wrong]  # by field


async def show_settings(visit: Visit) -> Response:
    return await visit.show("groups/settings.html", await _page(visit))


async def _group(visit: Visit) -> Group:
    group = await visit.services.groups.get(visit.who, visit.request.path_params["name"])
    need_manager(visit, group.name)
    return group


async def _page(visit: Visit) -> SettingsPage:
    group, services = await _group(visit), visit.services
    users = [user.name for user in await services.users.list(visit.who)]
    aliases = await services.image_aliases.list(visit.who)
    return SettingsPage(
        group=group,
        tabs=tabs_of(visit, group.name, "settings"),
        known_users=tuple(name for name in users if name not in group.members),
        images=tuple(alias for alias in aliases if alias.owner == group.name),
        mlflow=await services.groups.mlflow(visit.who, group.name),
        new_limit=duration_text(group.time_limit),
        new_hold=hold_word(group.hold) if group.hold else "",
        wrongs={},
    )


async def _refused(visit: Visit, error: UserError, field: str, **kept: str) -> Response:
    """The page again, as it was typed, with what is wrong beside it."""
    shown = replace(await _page(visit), wrongs={field: wrong_of(visit, error)}, **kept)  # type: ignore[arg-type]
    return await visit.show("groups/settings.html", shown, 400)


def _back_to(group: Group) -> str:
    return group_path_of(group.name, "/settings")


# -- members


async def add_member(visit: Visit, form: Form) -> Response:
    group, user = await _group(visit), form.text("user")
    try:
        if user in group.members:
            raise UserError(msg("{user} is a member already", user=user), field="user")
        await visit.services.groups.set_member(visit.who, group.name, user, admin=form.is_on("admin"))
    except UserError as error:
        return await _refused(visit, error, "user", new_member=user)
    return visit.go(_back_to(group), visit.say("{user} is a member now.", user=user))


async def change_member(visit: Visit, form: Form) -> Response:
    """Another standing, or out. Whoever was taken out meanwhile does not come back by this."""
    group, user, verb = await _group(visit), form.text("user"), form.text("verb")
    groups, say = visit.services.groups, visit.say
    if user not in group.members:
        raise NotFound(msg("{user} is not a member of {name}", user=user[:100], name=group.name))
    if verb == "remove":
        await groups.remove_member(visit.who, group.name, user)
        stays = user != visit.who.name or visit.who.admin
        return visit.go(_back_to(group) if stays else "/groups", say("{user} is no longer a member.", user=user))
    await groups.set_member(visit.who, group.name, user, admin=verb == "raise")
    if verb == "raise":
        return visit.go(_back_to(group), say("{user} is an admin of the group now.", user=user))
    stays = user != visit.who.name or visit.who.admin
    target = _back_to(group) if stays else group_path_of(group.name)
    return visit.go(target, say("{user} is no longer an admin of the group.", user=user))


# -- time limit and hold


async def set_limit(visit: Visit, form: Form) -> Response:
    group = await _group(visit)
    try:
        change = GroupChange(time_limit=read_duration(form, "time_limit"))
        await visit.services.groups.change(visit.who, group.name, change)
    except UserError as error:
        return await _refused(visit, error, "time_limit", new_limit=form.raw("time_limit"))
    return visit.go(_back_to(group), visit.say("The time limit is set. Jobs that were submitted before keep theirs."))


async def set_hold(visit: Visit, form: Form) -> Response:
    group, word = await _group(visit), form.text("hold")
    try:
        hold = parse_hold(word) if word else NOT_HELD
        change = GroupChange(hold=None if hold == NOT_HELD else hold)
        await visit.services.groups.change(visit.who, group.name, change)
    except UserError as error:
        return await _refused(visit, error, "hold", new_hold=form.raw("hold"))
    return visit.go(_back_to(group), visit.say("The hold is set, for jobs that are submitted from now on."))


# -- MLflow


async def show_mlflow(visit: Visit) -> Response:
    return await visit.show(FORM, await _mlflow_form(visit, await _group(visit)))


async def set_mlflow(visit: Visit, form: Form) -> Response:
    group = await _group(visit)

    async def work() -> Response:
        found = Mlflow(
            tracking_uri=form.text("tracking_uri"),
            ui_url=form.text("ui_url"),
            tracking_envs=read_variables(form, "tracking_envs"),
            artifact_envs=read_variables(form, "artifact_envs"),
        )
        await visit.services.groups.set_mlflow(visit.who, group.name, found)
        return visit.go(_back_to(group), visit.say("MLflow is set, for jobs that start from now on."))

    return await try_form(visit, await _mlflow_form(visit, group), form, work)


async def remove_mlflow(visit: Visit, form: Form) -> Response:
    group = await _group(visit)
    await visit.services.groups.set_mlflow(visit.who, group.name, None)
    return visit.go(_back_to(group), visit.say("MLflow is no longer set."))


async def _mlflow_form(visit: Visit, group: Group) -> FormPage:
    say = visit.say
    found = await visit.services.groups.mlflow(visit.who, group.name)
    values: dict[str, Any] = {"tracking_uri": "", "ui_url": "", "tracking_envs": "", "artifact_envs": ""}
    if found is not None:
        values = {
            "tracking_uri": found.tracking_uri,
            "ui_url": found.ui_url,
            "tracking_envs": variables_text(found.tracking_envs),
            "artifact_envs": variables_text(found.artifact_envs),
        }
    lines = say("NAME=VALUE, one on each line. Only admins of the group see the values.")
    fields = (
        Field(
            name="tracking_uri",
            label=say("Address of the tracking server"),
            required=True,
            example="http://mlflow.example:5000",
        ),
        Field(name="ui_url", label=say("Address of its pages"), help=say("Where people look at experiments.")),
        Field(name="tracking_envs", label=say("Variables to reach it"), kind="area", help=lines),
        Field(name="artifact_envs", label=say("Variables to reach where it keeps artifacts"), kind="area", help=lines),
    )
    return FormPage(
        title=say("MLflow of {name}", name=group.name),
        action=_back_to(group) + "/mlflow",
        back=Link(_back_to(group), group.name),
        submit=say("Save"),
        about=say("Jobs of the group find these in their environment, and report their experiments there."),
        sections=(Section(title="", fields=fields),),
        values=values,
        seen=mark_of(values),
    )


routes = [
    page(_PATH, show_settings),
    act(f"{_PATH}/members/add", add_member),
    act(f"{_PATH}/members/change", change_member),
    act(f"{_PATH}/time-limit", set_limit),
    act(f"{_PATH}/hold", set_hold),
    page(f"{_PATH}/mlflow", show_mlflow),
    act(f"{_PATH}/mlflow", set_mlflow),
    act(f"{_PATH}/mlflow/remove", remove_mlflow),
]
