"""Forms as data: fields with labels, typed values and problems, all shown by one template.

A field has the name that services use (`UserError.field`), so that an error is shown at the field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.errors import Conflict, Forbidden, NotFound, NotLoggedIn, UserError

from .forms import Form
from .visit import Visit

VERSION_FIELD = "seen"  # the field with the version of the record that the form was filled with
FORM_TEMPLATE = "parts/form.html"
CONFIRM_TEMPLATE = "parts/confirm.html"
SECRET_FIELD_KINDS = ("password", "secret")  # values are not sent back; a secret may have several lines


@dataclass(frozen=True, slots=True)
class SelectOption:
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    _: KW_ONLY
    kind: str = "text"  # text, area, number, whole, check, select, password, secret, grants
    help: str = ""
    required: bool = False
    example: str = ""
    choices: tuple[SelectOption, ...] = ()  # of a select; with grants: the groups
    flag: str = ""  # with grants: label of a second checkbox beside each group
    least: str = ""  # with numbers


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    fields: tuple[Field, ...]
    _: KW_ONLY
    note: str = ""
    folded: bool = False  # collapsed, unless it contains a problem


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
class FieldProblem:
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
    problems: Mapping[str, FieldProblem] = field(default_factory=dict)  # by field; "": the whole form
    version: str = ""  # of the record; empty: a new one
    about: str = ""  # a sentence or two above the form
    links: tuple[Link, ...] = ()
    script: str = ""  # a JavaScript module
    tabs: tuple[Tab, ...] = ()  # above it

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(each for section in self.sections for each in section.fields)

    @property
    def first_invalid_field(self) -> str:
        return next((each.name for each in self.fields if each.name in self.problems), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPage:
    """Confirmation of a removal, with what else is removed. Works without scripts."""

    title: str
    points: tuple[str, ...]
    action: str
    submit: str
    back: Link
    hidden: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    problem: FieldProblem | None = None


# -- submitted values


def collect_typed_values(page: FormPage, form: Form) -> dict[str, Any]:
    """Return the typed values to show them again, without passwords."""
    return {each.name: _get_typed_value(each, form) for each in page.fields}


def _get_typed_value(each: Field, form: Form) -> Any:
    if each.kind == "check":
        return form.is_checked(each.name)
    if each.kind == "grants":
        return read_grants_field(form, each.name)
    return "" if each.kind in SECRET_FIELD_KINDS else form.get_raw_text(each.name)


def read_grants_field(form: Form, name: str = "groups") -> dict[str, bool]:
    """Map each group to whether its second checkbox is checked. That one alone means both."""
    flagged = set(form.get_all(f"{name}.flag"))
    return {group: group in flagged for group in {*form.get_all(name), *flagged}}


def compute_record_version(record: object) -> str:
    """Compute a hash that identifies the version of a record."""
    return hashlib.sha256(repr(record).encode("utf-8", "replace")).hexdigest()[:20]


# -- responses


async def handle_form(
    visit: Visit,
    page: FormPage,
    form: Form,
    work: Callable[[], Awaitable[Response]],
    field_aliases: Mapping[str, str] | None = None,
) -> Response:
    """Return the response of `work`; on an error, the form with the typed values and the problem at its field.
    `field_aliases`: field of a service -> field of this form, if they differ."""
    if page.version and form.get_text(VERSION_FIELD) != page.version:
        return await visit.render_response(FORM_TEMPLATE, _build_conflict_form(visit, page, form), 409)
    try:
        return await work()
    except UserError as error:
        shown = _build_refused_form(visit, page, form, error, field_aliases or {})
        if shown is None:
            raise
        return await visit.render_response(FORM_TEMPLATE, shown, 400)


def _build_refused_form(
    visit: Visit, page: FormPage, form: Form, error: UserError, aliases: Mapping[str, str]
) -> FormPage | None:
    """Build the form with the problem; None if the error is not about the form and needs an error page."""
    where = find_form_field(error.field or "", {each.name for each in page.fields}, aliases)
    if isinstance(error, NotLoggedIn) or (isinstance(error, NotFound | Forbidden) and not where):
        return None
    return replace(page, values=collect_typed_values(page, form), problems={where: build_field_problem(visit, error)})


def build_field_problem(visit: Visit, error: UserError) -> FieldProblem:
    return FieldProblem(visit.translate_error(error))


def find_form_field(name: str, known: set[str], aliases: Mapping[str, str]) -> str:
    """Return the closest field of the form, for example for `tolerations[2].key`. Empty: none."""
    while name:
        if name in known:
            return name
        if aliases.get(name) in known:
            return aliases[name]
        name = name[: max(name.rfind("."), name.rfind("["), 0)]
    return ""


def _build_conflict_form(visit: Visit, page: FormPage, form: Form) -> FormPage:
    """Build the form for an edit conflict: the typed values beside the current ones."""
    mine = collect_typed_values(page, form)
    differ = [
        each
        for each in page.fields
        if each.kind not in SECRET_FIELD_KINDS and mine[each.name] != page.values[each.name]
    ]
    now = {
        each.name: FieldProblem(
            visit.translate_text("Current value: {value}", value=_format_current_value(visit, page, each))
        )
        for each in differ
    }
    message = visit.translate_text("Another user changed this while you were editing")
    hint = visit.translate_text("The current values are shown below. Save again to overwrite them.")
    return replace(page, values=mine, problems={"": FieldProblem(message, hint), **now})


def _format_current_value(visit: Visit, page: FormPage, each: Field) -> str:
    value = page.values[each.name]
    if each.kind == "check":
        return visit.translate_text("Yes") if value else visit.translate_text("No")
    if each.kind == "grants":
        return ", ".join(sorted(value)) or "–"
    return str(value) or "–"


async def handle_confirmation(visit: Visit, page: ConfirmPage, work: Callable[[], Awaitable[Response]]) -> Response:
    """Return the response of `work`; on an error, the confirmation with the reason, such as running jobs."""
    try:
        return await work()
    except Conflict as error:
        return await visit.render_response(
            CONFIRM_TEMPLATE, replace(page, problem=build_field_problem(visit, error)), 409
        )
