"""Admin pages of users, their groups and passwords."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.job import DEFAULT_GROUP
from holdfast.core.records import User
from holdfast.services.people.passwords import generate_password
from holdfast.services.people.users import UserChange, Users

from ...fields import FORM_TEMPLATE, Field, FormPage, Link, Section, handle_form, read_grants_field
from ...forms import Form
from ...listing import filter_and_paginate
from ...routes import build_page_route
from ...translations import N_
from ...visit import Visit
from .choices import list_group_options
from .leftovers import describe_schedules, describe_unfinished_jobs
from .record_forms import RecordForms, RecordTexts, build_form_routes, build_record_routes

USERS_PATH = "/admin/users"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordPage:
    """New passwords, shown once."""

    title: str
    generated: tuple[tuple[str, str], ...]  # user, password
    failed: tuple[tuple[str, str], ...] = ()  # user, why
    provided: int = 0  # number of users created with a password of the admin
    back: Link


async def show_users(visit: Visit) -> Response:
    users = await visit.services.users.list(visit.current_actor)
    found = filter_and_paginate(visit, users, lambda user: f"{user.name} {user.email} {' '.join(user.groups)}")
    return await visit.render_response("admin/users.html", found)


class UserForms(RecordForms[User]):
    path = USERS_PATH
    texts = RecordTexts(
        list=N_("Users"),
        add=N_("Add a user"),
        added=N_("User {name} was added."),
        changed=N_("User {name} was changed."),
        remove=N_("Delete the user {name}?"),
        removed=N_("User {name} was deleted."),
    )

    @property
    def service(self) -> Users:
        return self.services.users

    async def build_form_page(self, record: User | None) -> FormPage:
        _, page = self.visit.translate_text, await super().build_form_page(record)
        if record is None:
            return replace(page, links=(Link(f"{USERS_PATH}/import", _("Import users")),))
        name = quote(record.name, safe="")
        links = (
            Link(f"/jobs?user={name}", _("Jobs")),
            Link(self.build_path(record, "tokens"), _("Tokens")),
            Link(f"/admin/audit?user={name}", _("Audit log")),
            Link(self.build_path(record, "password"), _("Set password")),
        )
        return replace(page, links=(*links, *page.links))

    async def build_sections(self, record: User | None) -> tuple[Section, ...]:
        _, new = self.visit.translate_text, record is None
        name_help = _("Letters, digits, dots, dashes, underscores and @. It cannot be changed later.")
        name = Field("name", _("Name"), required=True, help=name_help)
        email = Field("email", _("Email"))
        admin_help = _("Manages users, groups and everything else.")
        admin = Field("admin", _("Admin"), kind="check", help=admin_help)
        enabled_help = _("Disabled users cannot log in, and their tokens do not work. Their jobs keep running.")
        enabled = Field("enabled", _("Enabled"), kind="check", help=enabled_help)
        groups = Field(
            "groups",
            _("Groups"),
            kind="grants",
            flag=_("group admin"),
            choices=await list_group_options(self.visit),
            help=_("Jobs run in a group. Group admins manage its members, images and time limit."),
        )
        return (
            *((Section("", (name, _build_password_field(self.visit, _("Password")))),) if new else ()),
            Section("", (email,)),
            Section(_("Permissions"), (admin,) if new else (admin, enabled)),
            Section("", (groups,)),
        )

    async def build_values(self, record: User | None) -> dict[str, Any]:
        if record is None:
            return {"groups": {DEFAULT_GROUP: False}}
        return {
            "name": record.name,
            "email": record.email,
            "admin": record.admin,
            "enabled": not record.disabled,
            "groups": dict(record.groups),
        }

    async def create_record(self, form: Form) -> Response:
        name, password = form.get_text("name"), form.get_raw_text("password") or generate_password()
        await self.service.create(
            self.actor,
            name=name,
            password=password,
            email=form.get_text("email"),
            admin=form.is_checked("admin"),
            groups=read_grants_field(form),
        )
        if form.get_raw_text("password"):
            return self.redirect_to_list(self.texts.added, name)
        return await self._show_password(self.visit.translate_text("User {name} was added", name=name), name, password)

    async def update_record(self, record: User, form: Form) -> None:
        change = UserChange(
            email=form.get_text("email"),
            admin=form.is_checked("admin"),
            disabled=not form.is_checked("enabled"),
            standing=read_grants_field(form),
        )
        await self.service.apply_change(self.actor, record.name, change)

    async def describe_removal(self, record: User) -> list[str]:
        _ = self.visit.translate_text
        return [
            await describe_unfinished_jobs(self.visit, user=record.name),
            _("Finished jobs are kept under this name, with their logs and artifacts."),
            await describe_schedules(self.visit, user=record.name),
            _("Logins and tokens stop working immediately."),
            _("To block access without deleting anything, disable the user instead."),
        ]

    # -- passwords

    async def show_password_form(self) -> Response:
        return await self.visit.render_response(FORM_TEMPLATE, self._build_password_form(await self.load_record()))

    async def submit_password_form(self, form: Form) -> Response:
        user, _ = await self.load_record(), self.visit.translate_text

        async def save_password() -> Response:
            password = form.get_raw_text("password") or generate_password()
            await self.service.set_password(self.actor, user.name, password)
            if form.get_raw_text("password"):
                message = _("The password of {name} was set.", name=user.name)
                return self.visit.redirect(self.build_path(user, "edit"), message)
            return await self._show_password(_("The password of {name} was set", name=user.name), user.name, password)

        return await handle_form(self.visit, self._build_password_form(user), form, save_password)

    def _build_password_form(self, user: User) -> FormPage:
        _ = self.visit.translate_text
        return FormPage(
            title=_("Set the password of {name}", name=user.name),
            action=self.build_path(user, "password"),
            back=Link(self.build_path(user, "edit"), user.name),
            submit=_("Set password"),
            about=_("This ends all logins of {name}. API tokens remain valid.", name=user.name),
            sections=(Section("", (_build_password_field(self.visit, _("New password")),)),),
        )

    async def _show_password(self, title: str, user: str, password: str) -> Response:
        page = PasswordPage(title=title, generated=((user, password),), back=self.list_link)
        return await self.visit.render_response("admin/passwords.html", page)


def _build_password_field(visit: Visit, label: str) -> Field:
    help = visit.translate_text("Empty: a password is generated.")
    return Field("password", label, kind="password", help=help)


routes = [
    build_page_route(USERS_PATH, show_users, admin=True),
    *build_form_routes(
        USERS_PATH + "/{name}/password", UserForms, UserForms.show_password_form, UserForms.submit_password_form
    ),
    *build_record_routes(USERS_PATH, UserForms),
]
