"""Choices and fields shared by several forms."""

from __future__ import annotations

from holdfast.core.catalogue import SecretKind

from ...fields import Field, Section, SelectOption
from ...visit import Visit


async def list_group_options(visit: Visit) -> tuple[SelectOption, ...]:
    groups = await visit.services.groups.list(visit.current_actor)
    return tuple(SelectOption(group.name, group.name) for group in groups)


async def list_secret_options(visit: Visit, kind: SecretKind) -> tuple[SelectOption, ...]:
    secrets = await visit.services.secrets.list(visit.current_actor)
    names = (secret.name for secret in secrets if secret.kind is kind)
    return (SelectOption("", visit.translate_text("None")), *(SelectOption(name, name) for name in names))


async def build_grant_section(visit: Visit, flag: str = "") -> Section:
    """Build the section with grants: everyone, or some groups."""
    _ = visit.translate_text
    everyone = Field("everyone", _("Everyone"), kind="check", help=_("Includes groups added later."))
    choices = await list_group_options(visit)
    groups = Field("groups", _("Groups"), kind="grants", choices=choices, flag=flag)
    return Section(_("Allowed groups"), (everyone, groups))


def build_name_fields(visit: Visit, *, name_help: str = "", new: bool = True) -> tuple[Field, ...]:
    """Build the fields for name (only of a new record), display name and description."""
    _ = visit.translate_text
    name = Field("name", _("Name"), required=True, help=name_help)
    shown = Field("display_name", _("Display name"), help=_("Shown to users. Empty: the name."))
    about = Field("description", _("Description"))
    return (name, shown, about) if new else (shown, about)
