"""Admin pages of secrets for git and registries. Values are never shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.services.catalogue.secrets import SecretChange, Secrets

from ...fields import Field, FormPage, Section
from ...forms import Form
from ...listing import filter_and_paginate
from ...routes import build_page_route
from ...translations import N_
from ...visit import Visit
from .record_forms import RecordForms, RecordTexts, build_record_routes

SECRETS_PATH = "/admin/secrets"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    secret: Secret
    kind: str
    used_by: tuple[str, ...]


async def show_secrets(visit: Visit) -> Response:
    _, users = visit.translate_text, await _map_secret_users(visit)
    rows = [
        SecretRow(
            secret=secret,
            kind=_("Registry") if secret.kind is SecretKind.REGISTRY else _("Git"),
            used_by=tuple(users.get(secret.name, ())),
        )
        for secret in await visit.services.secrets.list(visit.current_actor)
    ]
    found = filter_and_paginate(
        visit, rows, lambda row: f"{row.secret.name} {row.secret.display_name} {row.secret.registry_host}"
    )
    return await visit.render_response("admin/secrets.html", found)


async def _map_secret_users(visit: Visit) -> dict[str, list[str]]:
    """Map each secret to what uses it."""
    found: dict[str, list[str]] = {}
    for dataset in await visit.services.datasets.list(visit.current_actor):
        found.setdefault(str(dataset.data.get("secret", "")), []).append(dataset.name)
    for alias in await visit.services.image_aliases.list(visit.current_actor):
        found.setdefault(alias.pull_secret or "", []).append(alias.name)
    return found


class SecretForms(RecordForms[Secret]):
    path = SECRETS_PATH
    texts = RecordTexts(
        list=N_("Secrets"),
        add=N_("Add a secret for git"),
        added=N_("Secret {name} was added."),
        changed=N_("Secret {name} was changed."),
        remove=N_("Delete the secret {name}?"),
        removed=N_("Secret {name} was deleted."),
    )

    @property
    def service(self) -> Secrets:
        return self.services.secrets

    @property
    def requested_kind(self) -> SecretKind:
        """The kind of a new secret."""
        try:
            return SecretKind(self.visit.query.get("kind", ""))
        except ValueError:
            raise NotFound(msg("Not found: no resource has this URL")) from None

    @property
    def new_path(self) -> str:
        return f"{SECRETS_PATH}/new?kind={self.requested_kind.value}"

    async def build_form_page(self, record: Secret | None) -> FormPage:
        page = await super().build_form_page(record)
        if record is None and self.requested_kind is SecretKind.REGISTRY:
            return replace(page, title=self.visit.translate_text("Add a secret for a registry"))
        return page

    async def build_sections(self, record: Secret | None) -> tuple[Section, ...]:
        _, new, kind = self.visit.translate_text, record is None, record.kind if record else self.requested_kind
        name_help = _("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
        fields = [
            *((Field("name", _("Name"), required=True, help=name_help),) if new else ()),
            Field("display_name", _("Display name")),
        ]
        if kind is SecretKind.REGISTRY:
            help = "" if new else _("Empty: unchanged.")
            fields += [
                Field("registry_host", _("Registry"), required=True, example="ghcr.io"),
                Field("username", _("User name"), required=True),
                Field("value", _("Password"), kind="password", required=new, help=help),
            ]
        else:
            help = _(
                "An SSH private key without a passphrase, or a password or token. It is encrypted and never shown."
            )
            if not new:
                help = _("An SSH private key without a passphrase, or a password or token. Empty: unchanged.")
            fields += [
                Field("username", _("User name"), help=_("Only for a password, not for an SSH key.")),
                Field("value", _("Value"), kind="secret", required=new, help=help),
            ]
        return (Section("", tuple(fields)),)

    async def build_values(self, record: Secret | None) -> dict[str, Any]:
        secret = record or Secret(name="")
        return {
            "name": secret.name,
            "display_name": secret.display_name,
            "registry_host": secret.registry_host,
            "username": secret.username,
            "value": "",
        }

    async def create_record(self, form: Form) -> Response:
        texts = {field: form.get_text(field) for field in ("name", "display_name", "registry_host", "username")}
        secret = Secret(kind=self.requested_kind, **texts)
        await self.service.create(self.actor, secret, form.get_raw_text("value"))
        return self.redirect_to_list(self.texts.added, secret.name)

    async def update_record(self, record: Secret, form: Form) -> None:
        changes = {"display_name": form.get_text("display_name"), "username": form.get_text("username")}
        if record.kind is SecretKind.REGISTRY:
            changes["registry_host"] = form.get_text("registry_host")
        if form.get_text("value"):
            changes["value"] = form.get_raw_text("value")
        await self.service.change(self.actor, record.name, SecretChange(**changes))

    async def describe_removal(self, record: Secret) -> list[str]:
        _ = self.visit.translate_text
        users = (await _map_secret_users(self.visit)).get(record.name, [])
        used = _("These use it and need another secret first: {names}", names=", ".join(users[:10]))
        return [used if users else _("It is not in use."), _("Its value cannot be recovered.")]


routes = [build_page_route(SECRETS_PATH, show_secrets, admin=True), *build_record_routes(SECRETS_PATH, SecretForms)]
