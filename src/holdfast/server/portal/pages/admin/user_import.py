"""Many users at once, from CSV: looked at line by line first, then made."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from holdfast.core.errors import UserError
from holdfast.core.job import DEFAULT_GROUP
from holdfast.services.people.passwords import generate_password

from ...fields import FORM, Field, FormPage, Link, Section, try_form
from ...forms import Form
from ...routes import act, page
from ...visit import Visit
from .user_csv import MAX_LINES, Line, read_lines
from .users import HOME, PasswordPage

EXAMPLE = "name,email,admin,groups\nada,ada@example.org,false,research|default\n"
_PATH = f"{HOME}/import"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPage:
    lines: tuple[Line, ...]
    text: str  # to be sent again

    @property
    def good(self) -> int:
        return sum(not line.problem for line in self.lines)


async def show_import(visit: Visit) -> Response:
    return await visit.show(FORM, _form(visit))


def _form(visit: Visit) -> FormPage:
    say = visit.say
    text = Field(
        name="text",
        label=say("Users as CSV"),
        kind="area",
        required=True,
        example=EXAMPLE,
        help=say(
            "The first line names the columns: name, and where wanted email, password, admin and groups (several with "
            "| between them). Without a password one is made. OpenPAI's username and vc are understood. At most {most} "
            "lines at a time.",
            most=MAX_LINES,
        ),
    )
    return FormPage(
        title=say("Add many users"),
        action=f"{_PATH}/preview",
        back=Link(HOME, say("Users")),
        submit=say("Look at it first"),
        sections=(Section(title="", fields=(text,)),),
        script="js/textfile.js",
    )


async def preview(visit: Visit, form: Form) -> Response:
    """Nothing is made yet."""

    async def work() -> Response:
        lines = await _read(visit, form)
        return await visit.show("admin/user_import.html", PreviewPage(lines=tuple(lines), text=form.raw("text")))

    return await try_form(visit, _form(visit), form, work)


async def _read(visit: Visit, form: Form) -> list[Line]:
    users = [user.name for user in await visit.services.users.list(visit.who)]
    groups = [group.name for group in await visit.services.groups.list(visit.who)]
    return read_lines(form.raw("text"), users, groups)


async def create(visit: Visit, form: Form) -> Response:
    """The lines that nothing is wrong with, one after the other; what came in between is told."""
    made, failed, given = list[tuple[str, str]](), list[tuple[str, str]](), 0
    for line in await _read(visit, form):
        if line.problem:
            failed.append((line.name, visit.tell(line.problem)))
            continue
        password = line.password or generate_password()
        try:
            await _create_one(visit, line, password)
        except UserError as error:
            failed.append((line.name, visit.tell(error.message)))
            continue
        if line.password:
            given += 1
        else:
            made.append((line.name, password))
    count = len(made) + given
    title = visit.words.count("{count} user is added", "{count} users are added", count).format(count=count)
    back = Link(HOME, visit.say("Users"))
    shown = PasswordPage(title=title, made=tuple(made), failed=tuple(failed), without=given, back=back)
    return await visit.show("admin/passwords.html", shown)


async def _create_one(visit: Visit, line: Line, password: str) -> None:
    groups = line.groups or (DEFAULT_GROUP,)
    await visit.services.users.create(
        visit.who,
        name=line.name,
        password=password,
        email=line.email,
        admin=line.admin,
        groups=dict.fromkeys(groups, False),
    )


routes = [
    page(_PATH, show_import, admin=True),
    act(f"{_PATH}/preview", preview, admin=True),
    act(f"{_PATH}/create", create, admin=True),
]
