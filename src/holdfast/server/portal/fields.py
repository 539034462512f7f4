"""Forms as data: fields with their labels, what was typed, and what is wrong with it. One template shows them all.

A field has the name by which services speak of it (`UserError.field`), so what they refuse is told where it was typed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, Forbidden, NotFound, NotLoggedIn, UserError

from .forms import Form
from .visit import Visit

SEEN = "seen"  # the field that says which version of a thing a form was filled with
FORM = "parts/form.html"
HIDDEN = ("password", "secret")  # never shown again; a secret may have several lines


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    label: str
    kind: str = "text"  # text, area, number, whole, check, select, password, secret, grants
    help: str = ""
    required: bool = False
    example: str = ""
    choices: tuple[Choice, ...] = ()  # of a select; with grants: the groups
    flag: str = ""  # with grants: what a second box beside each group means
    least: str = ""  # with numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    fields: tuple[Field, ...]
    note: str = ""
    folded: bool = False  # seldom needed: shown when it is opened, or something in it is wrong


@dataclass(frozen=True, slots=True)
class Link:
    href: str
    label: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    href: str
    label: str
    here: bool


@dataclass(frozen=True, slots=True)
class Wrong:
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPage:
    title: str
    action: str
    back: Link
    submit: str
    sections: tuple[Section, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    wrongs: Mapping[str, Wrong] = field(default_factory=dict)  # by field; "" for the whole
    seen: str = ""
    about: str = ""  # a sentence or two above the form
    links: tuple[Link, ...] = ()
    script: str = ""  # a module of its own
    tabs: tuple[Tab, ...] = ()  # above it

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(each for section in self.sections for each in section.fields)

    @property
    def first_wrong(self) -> str:
        return next((each.name for each in self.fields if each.name in self.wrongs), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPage:
    """What is about to be removed, and what goes with it. Works without scripts, and can be read before."""

    title: str
    points: tuple[str, ...]
    action: str
    submit: str
    back: Link
    hidden: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    wrong: Wrong | None = None


# -- what was sent


def typed(page: FormPage, form: Form) -> dict[str, Any]:
    """What was typed, to be shown again. Passwords are not."""
    return {each.name: _typed(each, form) for each in page.fields}


def _typed(each: Field, form: Form) -> Any:
    if each.kind == "check":
        return form.is_on(each.name)
    if each.kind == "grants":
        return read_grants(form, each.name)
    return "" if each.kind in HIDDEN else form.raw(each.name)


def read_grants(form: Form, name: str = "groups") -> dict[str, bool]:
    """Group -> whether the second box beside it is ticked. That one alone means both."""
    flagged = set(form.all(f"{name}.flag"))
    return {group: group in flagged for group in {*form.all(name), *flagged}}


def mark_of(record: object) -> str:
    """Tells versions of a record apart, and nothing else of it."""
    return hashlib.sha256(repr(record).encode("utf-8", "replace")).hexdigest()[:20]


# -- answers


async def try_form(
    visit: Visit,
    page: FormPage,
    form: Form,
    work: Callable[[], Awaitable[Response]],
    also: Mapping[str, str] | None = None,
) -> Response:
    """What `work` answers; or the form again, as it was typed, with what is wrong where it is. `also`: field of a
    service -> field of this form, where they differ."""
    if page.seen and form.text(SEEN) != page.seen:
        return await visit.show(FORM, _overtaken(visit, page, form), 409)
    try:
        return await work()
    except UserError as error:
        shown = _refused(visit, page, form, error, also or {})
        if shown is None:
            raise
        return await visit.show(FORM, shown, 400)


def _refused(visit: Visit, page: FormPage, form: Form, error: UserError, also: Mapping[str, str]) -> FormPage | None:
    """None where the form is not what is wrong: then the error is a page of its own."""
    where = place_of(error.field or "", {each.name for each in page.fields}, also)
    if isinstance(error, NotLoggedIn) or (isinstance(error, NotFound | Forbidden) and not where):
        return None
    return replace(page, values=typed(page, form), wrongs={where: wrong_of(visit, error)})


def wrong_of(visit: Visit, error: UserError) -> Wrong:
    return Wrong(visit.tell_error(error))


def place_of(name: str, known: set[str], also: Mapping[str, str]) -> str:
    """Of `tolerations[2].key`, say: the closest field there is. Empty: none."""
    while name:
        if name in known:
            return name
        if also.get(name) in known:
            return also[name]
        name = name[: max(name.rfind("."), name.rfind("["), 0)]
    return ""


def _overtaken(visit: Visit, page: FormPage, form: Form) -> FormPage:
    """Somebody else was quicker: what was typed, beside what is there now."""
    mine = typed(page, form)
    differ = [each for each in page.fields if each.kind not in HIDDEN and mine[each.name] != page.values[each.name]]
    now = {each.name: Wrong(visit.say("It is now: {value}", value=_shown(visit, page, each))) for each in differ}
    message = visit.say("Somebody changed this after you opened it")
    hint = visit.say("What is there now is told below. Save again to put yours in its place.")
    return replace(page, values=mine, wrongs={"": Wrong(message, hint), **now})


def _shown(visit: Visit, page: FormPage, each: Field) -> str:
    value = page.values[each.name]
    if each.kind == "check":
        return visit.say("Yes") if value else visit.say("No")
    if each.kind == "grants":
        return ", ".join(sorted(value)) or "–"
    return str(value) or "–"


async def try_confirm(
    visit: Visit, page: ConfirmPage, work: Callable[[], Awaitable[Response]], status: int = 409
) -> Response:
    """What `work` answers; or the question again with why it cannot be done, such as jobs that still run."""
    try:
        return await work()
    except Conflict as error:
        return await visit.show("parts/confirm.html", replace(page, wrong=wrong_of(visit, error)), status)
