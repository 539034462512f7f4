"""Secrets for git and for registries. A value goes in and is never shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.services.catalogue.secrets import SecretChange

from ...fields import FORM, ConfirmPage, Field, FormPage, Link, Section, mark_of, try_confirm, try_form
from ...forms import Form
from ...listing import Listed, listed
from ...routes import page
from ...visit import Visit
from .addresses import edit_path, edit_routes

HOME = "/admin/secrets"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    secret: Secret
    kind: str
    used_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretListPage:
    secrets: Listed[SecretRow]


async def show_secrets(visit: Visit) -> Response:
    users = await _users(visit)
    rows = [
        SecretRow(secret=each, kind=_kind_label(visit, each.kind), used_by=tuple(users.get(each.name, ())))
        for each in await visit.services.secrets.list(visit.who)
    ]
    found = listed(visit, rows, lambda row: f"{row.secret.name} {row.secret.display_name} {row.secret.registry_host}")
    return await visit.show("admin/secrets.html", SecretListPage(secrets=found))


async def _users(visit: Visit) -> dict[str, list[str]]:
    """Secret -> what goes by it."""
    found: dict[str, list[str]] = {}
    for dataset in await visit.services.datasets.list(visit.who):
        found.setdefault(str(dataset.data.get("secret", "")), []).append(dataset.name)
    for alias in await visit.services.image_aliases.list(visit.who):
        found.setdefault(alias.pull_secret or "", []).append(alias.name)
    return found


def _kind_label(visit: Visit, kind: SecretKind) -> str:
    return visit.say("Registry") if kind is SecretKind.REGISTRY else visit.say("Git")


# -- the form


def _sections(visit: Visit, kind: SecretKind, *, new: bool) -> tuple[Section, ...]:
    say = visit.say
    name_help = say("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
    fields = [
        *((Field(name="name", label=say("Name"), required=True, help=name_help),) if new else ()),
        Field(name="display_name", label=say("Display name")),
    ]
    keep = "" if new else say("Empty: as it is.")
    if kind is SecretKind.REGISTRY:
        fields += [
            Field(name="registry_host", label=say("Registry"), required=True, example="ghcr.io"),
            Field(name="username", label=say("User name"), required=True),
            Field(name="value", label=say("Password"), kind="password", required=new, help=keep),
        ]
    else:
        help = say("A private SSH key without a passphrase, or a password or token. It is kept encrypted, never shown.")
        if not new:
            help = say("A private SSH key without a passphrase, or a password or token. Empty: as it is.")
        fields += [
            Field(name="username", label=say("User name"), help=say("With a password; not with an SSH key.")),
            Field(name="value", label=say("Value"), kind="secret", required=new, help=help),
        ]
    return (Section(title="", fields=tuple(fields)),)


def _values(secret: Secret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "display_name": secret.display_name,
        "registry_host": secret.registry_host,
        "username": secret.username,
        "value": "",
    }


# -- a new one


async def show_new(visit: Visit) -> Response:
    return await visit.show(FORM, _new_form(visit, _kind(visit)))


def _kind(visit: Visit) -> SecretKind:
    try:
        return SecretKind(visit.request.query_params.get("kind", ""))
    except ValueError:
        raise NotFound(msg("There is nothing at this address")) from None


async def add(visit: Visit, form: Form) -> Response:
    kind = _kind(visit)

    async def work() -> Response:
        made = Secret(
            name=form.text("name"),
            display_name=form.text("display_name"),
            kind=kind,
            registry_host=form.text("registry_host"),
            username=form.text("username"),
        )
        await visit.services.secrets.create(visit.who, made, form.raw("value"))
        return visit.go(HOME, visit.say("Secret {name} is added.", name=made.name))

    return await try_form(visit, _new_form(visit, kind), form, work)


def _new_form(visit: Visit, kind: SecretKind) -> FormPage:
    say = visit.say
    title = say("Add a secret for a registry") if kind is SecretKind.REGISTRY else say("Add a secret for git")
    return FormPage(
        title=title,
        action=f"{HOME}/new?kind={kind.value}",
        back=_back(visit),
        submit=say("Add"),
        sections=_sections(visit, kind, new=True),
        values=_values(Secret(name="")),
    )


def _back(visit: Visit) -> Link:
    return Link(HOME, visit.say("Secrets"))


# -- changing


async def show_one(visit: Visit) -> Response:
    return await visit.show(FORM, _form_of(visit, await _named(visit)))


async def change(visit: Visit, form: Form) -> Response:
    secret = await _named(visit)

    async def work() -> Response:
        given = {"display_name": form.text("display_name"), "username": form.text("username")}
        if secret.kind is SecretKind.REGISTRY:
            given["registry_host"] = form.text("registry_host")
        if form.text("value"):
            given["value"] = form.raw("value")
        await visit.services.secrets.change(visit.who, secret.name, SecretChange(**given))
        return visit.go(HOME, visit.say("Secret {name} is changed.", name=secret.name))

    return await try_form(visit, _form_of(visit, secret), form, work)


async def _named(visit: Visit) -> Secret:
    return await visit.services.secrets.get(visit.who, visit.request.path_params["name"])


def _form_of(visit: Visit, secret: Secret) -> FormPage:
    values = _values(secret)
    return FormPage(
        title=secret.name,
        action=edit_path(HOME, secret.name, "edit"),
        back=_back(visit),
        submit=visit.say("Save"),
        sections=_sections(visit, secret.kind, new=False),
        values=values,
        seen=mark_of(values),
        links=(Link(edit_path(HOME, secret.name, "delete"), visit.say("Remove"), "danger"),),
    )


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", await _removal(visit, await _named(visit)))


async def remove(visit: Visit, form: Form) -> Response:
    secret = await _named(visit)

    async def work() -> Response:
        await visit.services.secrets.delete(visit.who, secret.name)
        return visit.go(HOME, visit.say("Secret {name} is removed.", name=secret.name))

    return await try_confirm(visit, await _removal(visit, secret), work)


async def _removal(visit: Visit, secret: Secret) -> ConfirmPage:
    say = visit.say
    users = (await _users(visit)).get(secret.name, [])
    used = say("These go by it, and need another one first: {names}", names=", ".join(users[:10]))
    return ConfirmPage(
        title=say("Remove the secret {name}?", name=secret.name),
        points=(used if users else say("Nothing goes by it."), say("Its value cannot be brought back.")),
        action=edit_path(HOME, secret.name, "delete"),
        submit=say("Remove"),
        back=Link(edit_path(HOME, secret.name, "edit"), secret.name),
    )


routes = [
    page(HOME, show_secrets, admin=True),
    *edit_routes(HOME, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove)),
]
