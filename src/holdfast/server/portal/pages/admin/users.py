"""Users: who may come in, in which groups they are, and their passwords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.services.people.passwords import generate_password
from holdfast.services.people.users import UserChange

from ...fields import FORM, ConfirmPage, Field, FormPage, Link, Section, mark_of, read_grants, try_confirm, try_form
from ...forms import Form
from ...listing import Listed, listed
from ...routes import act, page
from ...visit import Visit
from .addresses import edit_path, edit_routes
from .choices import group_choices
from .what_stays import schedules_left, unfinished_jobs

HOME = "/admin/users"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserListPage:
    users: Listed[User]


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordPage:
    """Passwords that were made just now, and are shown this once."""

    title: str
    made: tuple[tuple[str, str], ...]  # user, password
    failed: tuple[tuple[str, str], ...] = ()  # user, why
    without: int = 0  # made with a password that was given
    back: Link


async def show_users(visit: Visit) -> Response:
    users = await visit.services.users.list(visit.who)
    found = listed(visit, users, lambda user: f"{user.name} {user.email} {' '.join(user.groups)}")
    return await visit.show("admin/users.html", UserListPage(users=found))


# -- a new one


async def show_new(visit: Visit) -> Response:
    return await visit.show(FORM, await _new_form(visit))


async def add(visit: Visit, form: Form) -> Response:
    async def work() -> Response:
        given = form.raw("password")
        password = given or generate_password()
        name = form.text("name")
        await visit.services.users.create(
            visit.who,
            name=name,
            password=password,
            email=form.text("email"),
            admin=form.is_on("admin"),
            groups=read_grants(form),
        )
        if given:
            return visit.go(HOME, visit.say("User {name} is added.", name=name))
        title = visit.say("User {name} is added", name=name)
        return await _show_once(visit, title, name, password)

    return await try_form(visit, await _new_form(visit), form, work)


async def _new_form(visit: Visit) -> FormPage:
    say = visit.say
    name = Field(
        name="name",
        label=say("Name"),
        required=True,
        help=say("Letters, digits, dots, dashes, underscores and @. It cannot be changed later."),
    )
    password = Field(name="password", label=say("Password"), kind="password", help=say("Empty: one is made for you."))
    return FormPage(
        title=say("Add a user"),
        action=f"{HOME}/new",
        back=_back(visit),
        submit=say("Add"),
        sections=(Section(title="", fields=(name, password)), *await _sections(visit)),
        values={"groups": {DEFAULT_GROUP: False}},
        links=(Link(f"{HOME}/import", say("Add many at once")),),
    )


async def _sections(visit: Visit, *, enabled: bool = False) -> tuple[Section, ...]:
    say = visit.say
    email = Field(name="email", label=say("Email"))
    rights = [
        Field(name="admin", label=say("Admin"), kind="check", help=say("Manages users, groups and everything else.")),
    ]
    if enabled:
        help = say("Whoever is disabled cannot log in, and their tokens do not work. Their jobs run on.")
        rights.append(Field(name="enabled", label=say("Enabled"), kind="check", help=help))
    groups = Field(
        name="groups",
        label=say("Groups"),
        kind="grants",
        flag=say("group admin"),
        choices=await group_choices(visit),
        help=say("Jobs run in a group. Admins of a group manage its members, images and time limit."),
    )
    return (
        Section(title="", fields=(email,)),
        Section(title=say("Rights"), fields=tuple(rights)),
        Section(title="", fields=(groups,)),
    )


def _back(visit: Visit) -> Link:
    return Link(HOME, visit.say("Users"))


# -- changing


async def show_one(visit: Visit) -> Response:
    return await visit.show(FORM, await _form_of(visit, await _named(visit)))


async def change(visit: Visit, form: Form) -> Response:
    user = await _named(visit)

    async def work() -> Response:
        wanted = UserChange(
            email=form.text("email"),
            admin=form.is_on("admin"),
            disabled=not form.is_on("enabled"),
            standing=read_grants(form),
        )
        await visit.services.users.update(visit.who, user.name, wanted)
        return visit.go(HOME, visit.say("User {name} is changed.", name=user.name))

    return await try_form(visit, await _form_of(visit, user), form, work)


async def _named(visit: Visit) -> User:
    return await visit.services.users.get(visit.who, visit.request.path_params["name"])


async def _form_of(visit: Visit, user: User) -> FormPage:
    values: dict[str, Any] = {
        "email": user.email,
        "admin": user.admin,
        "enabled": not user.disabled,
        "groups": dict(user.groups),
    }
    return FormPage(
        title=user.name,
        action=edit_path(HOME, user.name, "edit"),
        back=_back(visit),
        submit=visit.say("Save"),
        sections=await _sections(visit, enabled=True),
        values=values,
        seen=mark_of((values, user.name)),
        links=(
            Link(f"/jobs?user={quote(user.name, safe='')}", visit.say("Jobs")),
            Link(edit_path(HOME, user.name, "tokens"), visit.say("Tokens")),
            Link(f"/admin/audit?user={quote(user.name, safe='')}", visit.say("Audit")),
            Link(edit_path(HOME, user.name, "password"), visit.say("Set password")),
            Link(edit_path(HOME, user.name, "delete"), visit.say("Remove"), "danger"),
        ),
    )


# -- passwords


async def show_password_form(visit: Visit) -> Response:
    return await visit.show(FORM, _password_form(visit, await _named(visit)))


async def set_password(visit: Visit, form: Form) -> Response:
    user = await _named(visit)

    async def work() -> Response:
        given = form.raw("password")
        password = given or generate_password()
        await visit.services.users.set_password(visit.who, user.name, password)
        if given:
            return visit.go(
                edit_path(HOME, user.name, "edit"), visit.say("The password of {name} is set.", name=user.name)
            )
        return await _show_once(visit, visit.say("The password of {name} is set", name=user.name), user.name, password)

    return await try_form(visit, _password_form(visit, user), form, work)


def _password_form(visit: Visit, user: User) -> FormPage:
    say = visit.say
    return FormPage(
        title=say("Set the password of {name}", name=user.name),
        action=edit_path(HOME, user.name, "password"),
        back=Link(edit_path(HOME, user.name, "edit"), user.name),
        submit=say("Set password"),
        about=say("All logins of {name} end. Tokens for programs stay.", name=user.name),
        sections=(
            Section(
                title="",
                fields=(
                    Field(
                        name="password",
                        label=say("New password"),
                        kind="password",
                        help=say("Empty: one is made for you."),
                    ),
                ),
            ),
        ),
    )


async def _show_once(visit: Visit, title: str, user: str, password: str) -> Response:
    found = PasswordPage(title=title, made=((user, password),), back=_back(visit))
    return await visit.show("admin/passwords.html", found)


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", await _removal(visit, await _named(visit)))


async def remove(visit: Visit, form: Form) -> Response:
    user = await _named(visit)

    async def work() -> Response:
        await visit.services.users.delete(visit.who, user.name)
        return visit.go(HOME, visit.say("User {name} is removed.", name=user.name))

    return await try_confirm(visit, await _removal(visit, user), work)


async def _removal(visit: Visit, user: User) -> ConfirmPage:
    say = visit.say
    points = [
        await unfinished_jobs(visit, user=user.name),
        say("Finished jobs stay on record under this name, with their logs and artifacts."),
        await schedules_left(visit, user=user.name),
        say("Logins and tokens end at once."),
        say("To keep somebody out and lose nothing, disable the user instead."),
    ]
    return ConfirmPage(
        title=say("Remove the user {name}?", name=user.name),
        points=tuple(point for point in points if point),
        action=edit_path(HOME, user.name, "delete"),
        submit=say("Remove"),
        back=Link(edit_path(HOME, user.name, "edit"), user.name),
    )


routes = [
    page(HOME, show_users, admin=True),
    page(HOME + "/{name}/password", show_password_form, admin=True),
    act(HOME + "/{name}/password", set_password, admin=True),
    *edit_routes(HOME, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove)),
]
