"""Import of users from CSV: a preview of each line, then creation."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.job import DEFAULT_GROUP
from holdfast.services.people.passwords import generate_password

from ...fields import FORM_TEMPLATE, Field, FormPage, Link, Section, handle_form
from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...visit import Visit
from .user_csv import MAX_USER_LINES, UserLine, parse_user_lines
from .users import USERS_PATH, PasswordPage

EXAMPLE_CSV = "name,email,admin,groups\nada,ada@example.org,false,research|default\n"
_IMPORT_PATH = f"{USERS_PATH}/import"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserImportPage:
    lines: tuple[UserLine, ...]
    text: str  # submitted again to create them

    @property
    def valid(self) -> int:
        return sum(not line.problem for line in self.lines)


async def show_import(visit: Visit) -> Response:
    return await visit.render_response(FORM_TEMPLATE, _build_import_form(visit))


def _build_import_form(visit: Visit) -> FormPage:
    _ = visit.translate_text
    text = Field(
        "text",
        _("Users (CSV)"),
        kind="area",
        required=True,
        example=EXAMPLE_CSV,
        help=_(
            "The first line names the columns: name, and optionally email, password, admin and groups (separated "
            "by |). Missing passwords are generated. OpenPAI's username and vc columns are accepted. At most "
            "{limit} lines.",
            limit=MAX_USER_LINES,
        ),
    )
    return FormPage(
        title=_("Import users"),
        action=f"{_IMPORT_PATH}/preview",
        back=Link(USERS_PATH, _("Users")),
        submit=_("Preview"),
        sections=(Section("", (text,)),),
        script="js/textfile.js",
    )


async def preview_import(visit: Visit, form: Form) -> Response:
    """Show a preview; nothing is created yet."""

    async def show_preview() -> Response:
        lines = await _read_user_lines(visit, form)
        return await visit.render_response(
            "admin/user_import.html", UserImportPage(lines=tuple(lines), text=form.get_raw_text("text"))
        )

    return await handle_form(visit, _build_import_form(visit), form, show_preview)


async def _read_user_lines(visit: Visit, form: Form) -> list[UserLine]:
    users = [user.name for user in await visit.services.users.list(visit.current_actor)]
    groups = [group.name for group in await visit.services.groups.list(visit.current_actor)]
    return parse_user_lines(form.get_raw_text("text"), users, groups)


async def create_users(visit: Visit, form: Form) -> Response:
    """Create the users of the valid lines one by one, and show which ones failed."""
    generated, failed, provided = list[tuple[str, str]](), list[tuple[str, str]](), 0
    for line in await _read_user_lines(visit, form):
        password = line.password or generate_password()
        try:
            if line.problem:
                raise UserError(line.problem)
            await _create_user(visit, line, password)
        except UserError as error:
            failed.append((line.name, visit.translate_message(error.message)))
            continue
        if line.password:
            provided += 1
        else:
            generated.append((line.name, password))
    count = len(generated) + provided
    page = PasswordPage(
        title=visit.translate_plural("{count} user was added", "{count} users were added", count, count=count),
        generated=tuple(generated),
        failed=tuple(failed),
        provided=provided,
        back=Link(USERS_PATH, visit.translate_text("Users")),
    )
    return await visit.render_response("admin/passwords.html", page)


async def _create_user(visit: Visit, line: UserLine, password: str) -> None:
    groups = line.groups or (DEFAULT_GROUP,)
    await visit.services.users.create(
        visit.current_actor,
        name=line.name,
        password=password,
        email=line.email,
        admin=line.admin,
        groups=dict.fromkeys(groups, False),
    )


routes = [
    build_page_route(_IMPORT_PATH, show_import, admin=True),
    build_form_route(f"{_IMPORT_PATH}/preview", preview_import, admin=True),
    build_form_route(f"{_IMPORT_PATH}/create", create_users, admin=True),
]
