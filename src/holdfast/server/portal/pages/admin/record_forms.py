"""Forms to add, edit and remove a record. The steps are the same for every kind of record; a subclass adds its fields,
its texts and the calls to its service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.access import Actor

from ...fields import (
    CONFIRM_TEMPLATE,
    FORM_TEMPLATE,
    ConfirmPage,
    FormPage,
    Link,
    Section,
    compute_record_version,
    handle_confirmation,
    handle_form,
)
from ...forms import Form
from ...routes import build_form_route, build_page_route
from ...visit import Visit


class NamedRecord(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=NamedRecord)
R_co = TypeVar("R_co", bound=NamedRecord, covariant=True)


class RecordService(Protocol[R_co]):
    async def get(self, actor: Actor, name: str, /) -> R_co: ...

    async def delete(self, actor: Actor, name: str, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTexts:
    """Texts about a kind of record, marked by N_. They can contain {name}."""

    list: str  # title of the list
    add: str  # title of the form
    added: str
    changed: str
    remove: str  # title of the confirmation
    removed: str
    about_new: str = ""
    about_edit: str = ""


class RecordForms(ABC, Generic[R]):
    """The forms of a kind of record, for one request."""

    path: str  # of the list
    texts: RecordTexts

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.services, self.actor = visit.services, visit.current_actor

    @property
    @abstractmethod
    def service(self) -> RecordService[R]: ...

    @abstractmethod
    async def build_sections(self, record: R | None) -> tuple[Section, ...]:
        """Build the fields of the form; None: of a new record."""

    @abstractmethod
    async def build_values(self, record: R | None) -> dict[str, Any]:
        """Return the values of the form; None: of a new record."""

    @abstractmethod
    async def create_record(self, form: Form) -> Response: ...

    @abstractmethod
    async def update_record(self, record: R, form: Form) -> None: ...

    @abstractmethod
    async def describe_removal(self, record: R) -> list[str]:
        """Return sentences about what else is removed; empty ones are left out."""

    async def load_record(self) -> R:
        """Load the record of the URL."""
        return await self.service.get(self.actor, self.visit.path_params["name"])

    async def delete_record(self, record: R, form: Form) -> None:
        await self.service.delete(self.actor, record.name)

    def get_field_aliases(self, record: R | None) -> Mapping[str, str]:
        """Map fields of the service to fields of the form, if they differ."""
        return {}

    # -- links

    @property
    def list_link(self) -> Link:
        return Link(self.path, self.visit.translate_text(self.texts.list))

    @property
    def new_path(self) -> str:
        return f"{self.path}/new"

    def build_path(self, record: R, verb: str) -> str:
        return build_record_path(self.path, record.name, verb)

    def redirect_to_list(self, text: str, name: str) -> Response:
        return self.visit.redirect(self.list_link.href, self.visit.translate_text(text, name=name))

    # -- pages

    async def build_form_page(self, record: R | None) -> FormPage:
        _, values = self.visit.translate_text, await self.build_values(record)
        return FormPage(
            title=record.name if record else _(self.texts.add),
            action=self.build_path(record, "edit") if record else self.new_path,
            back=self.list_link,
            submit=_("Save") if record else _("Add"),
            about=_(self.texts.about_edit if record else self.texts.about_new),
            sections=await self.build_sections(record),
            values=values,
            version=compute_record_version(values) if record else "",
            links=(Link(self.build_path(record, "delete"), _("Delete"), "danger"),) if record else (),
        )

    async def build_removal_page(self, record: R) -> ConfirmPage:
        _ = self.visit.translate_text
        return ConfirmPage(
            title=_(self.texts.remove, name=record.name),
            points=tuple(filter(None, await self.describe_removal(record))),
            action=self.build_path(record, "delete"),
            submit=_("Delete"),
            back=Link(self.build_path(record, "edit"), record.name),
        )

    async def show_new_form(self) -> Response:
        return await self.visit.render_response(FORM_TEMPLATE, await self.build_form_page(None))

    async def submit_new_form(self, form: Form) -> Response:
        page, aliases = await self.build_form_page(None), self.get_field_aliases(None)
        return await handle_form(self.visit, page, form, lambda: self.create_record(form), aliases)

    async def show_edit_form(self) -> Response:
        return await self.visit.render_response(FORM_TEMPLATE, await self.build_form_page(await self.load_record()))

    async def submit_edit_form(self, form: Form) -> Response:
        record = await self.load_record()

        async def update_and_redirect() -> Response:
            await self.update_record(record, form)
            return self.redirect_to_list(self.texts.changed, record.name)

        page, aliases = await self.build_form_page(record), self.get_field_aliases(record)
        return await handle_form(self.visit, page, form, update_and_redirect, aliases)

    async def show_removal(self) -> Response:
        return await self.visit.render_response(
            CONFIRM_TEMPLATE, await self.build_removal_page(await self.load_record())
        )

    async def submit_removal(self, form: Form) -> Response:
        record = await self.load_record()

        async def delete_and_redirect() -> Response:
            await self.delete_record(record, form)
            return self.redirect_to_list(self.texts.removed, record.name)

        return await handle_confirmation(self.visit, await self.build_removal_page(record), delete_and_redirect)


F = TypeVar("F", bound=RecordForms[Any])


def build_record_path(base: str, name: str, verb: str) -> str:
    return f"{base}/{quote(name, safe='')}/{verb}"


def build_record_routes(base: str, forms: type[RecordForms[Any]], *, admin: bool = True) -> list[Route]:
    return [
        *build_form_routes(f"{base}/new", forms, forms.show_new_form, forms.submit_new_form, admin),
        *build_form_routes(base + "/{name}/edit", forms, forms.show_edit_form, forms.submit_edit_form, admin),
        *build_form_routes(base + "/{name}/delete", forms, forms.show_removal, forms.submit_removal, admin),
    ]


def build_form_routes(
    path: str,
    forms: type[F],
    show: Callable[[F], Awaitable[Response]],
    submit: Callable[[F, Form], Awaitable[Response]],
    admin: bool = True,
) -> tuple[Route, Route]:
    async def show_page(visit: Visit) -> Response:
        return await show(forms(visit))

    async def submit_page(visit: Visit, form: Form) -> Response:
        return await submit(forms(visit), form)

    return build_page_route(path, show_page, admin=admin), build_form_route(path, submit_page, admin=admin)
