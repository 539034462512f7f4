"""Image aliases: short names for images. Platform aliases are managed here; aliases of a group at /groups/NAME/images,
by its admins, with the same forms."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias, ImageKind, SecretKind
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.catalogue.image_aliases import ImageAliasChange, ImageAliases

from ...fields import Field, Link, Section, SelectOption, read_grants_field
from ...forms import Form
from ...kind_names import get_image_kind_name
from ...translations import N_
from ...visit import Visit
from ..group_pages import build_group_path, require_group_manager
from .choices import build_grant_section, build_name_fields, list_secret_options
from .record_forms import RecordForms, RecordTexts, build_record_routes

_IMAGES_PATH = "/admin/images"
_PLATFORM_ALIASES_PATH = f"{_IMAGES_PATH}/aliases"
_GROUP_ALIASES_PATH = "/groups/{group}/images"


class ImageAliasForms(RecordForms[ImageAlias]):
    texts = RecordTexts(
        list=N_("Images"),
        add=N_("Add an image alias"),
        added=N_("Image alias {name} was added."),
        changed=N_("Image alias {name} was changed."),
        remove=N_("Delete the image alias {name}?"),
        removed=N_("Image alias {name} was deleted."),
        about_new=N_("A short name that jobs can use for an imported or pulled image."),
        about_edit=N_("Jobs that are already submitted keep their image. Reruns use the new one."),
    )

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.owner: str | None = visit.path_params.get("group")  # None on admin pages
        if self.owner is not None:
            require_group_manager(visit, self.owner)
        self.path = _PLATFORM_ALIASES_PATH if self.owner is None else build_group_path(self.owner, "/images")

    @property
    def service(self) -> ImageAliases:
        return self.services.image_aliases

    @property
    def list_link(self) -> Link:
        if self.owner is None:
            return Link(_IMAGES_PATH, self.visit.translate_text(self.texts.list))
        return Link(build_group_path(self.owner, "/settings"), self.owner)

    async def load_record(self) -> ImageAlias:
        alias = await super().load_record()
        if self.owner is not None and alias.owner != self.owner:
            raise NotFound(msg("Image alias {name} of {owner} not found", owner=self.owner[:100], name=alias.name))
        return alias

    async def build_sections(self, record: ImageAlias | None) -> tuple[Section, ...]:
        visit, _ = self.visit, self.visit.translate_text
        help = _("Lowercase letters, digits, dashes and dots. It cannot be changed later.")
        return (
            Section("", build_name_fields(visit, name_help=help, new=record is None)),
            Section(_("Image"), await _build_image_fields(visit)),
            *((await build_grant_section(visit),) if self.owner is None or self.actor.admin else ()),
        )

    async def build_values(self, record: ImageAlias | None) -> dict[str, Any]:
        url = self.visit.query.get("url", "")[:512]
        return _alias_to_values(record or ImageAlias(name="", url=url, everyone=self.owner is None))

    async def create_record(self, form: Form) -> Response:
        alias = ImageAlias(name=form.get_text("name"), owner=self.owner, **_read_alias_form(self.visit, form))
        await self.service.create(self.actor, alias)
        return self.redirect_to_list(self.texts.added, alias.name)

    async def update_record(self, record: ImageAlias, form: Form) -> None:
        await self.service.change(self.actor, record.name, ImageAliasChange(**_read_alias_form(self.visit, form)))

    async def describe_removal(self, record: ImageAlias) -> list[str]:
        _ = self.visit.translate_text
        return [
            _("The image itself is kept."),
            _("Jobs that are already submitted are not affected. New jobs cannot use this name."),
        ]


# -- fields


async def _build_image_fields(visit: Visit) -> tuple[Field, ...]:
    _ = visit.translate_text
    secrets = await list_secret_options(visit, SecretKind.REGISTRY)
    return (
        Field(
            "kind",
            _("Hardware"),
            kind="select",
            choices=tuple(SelectOption(kind.value, get_image_kind_name(visit, kind)) for kind in reversed(ImageKind)),
            help=_("Jobs without GPUs cannot use a GPU image."),
        ),
        Field("url", _("Image"), required=True, help=_("A name from the list of imported images.")),
        Field("gpu_url", _("Image for tasks with GPUs"), help=_("Empty: the same image.")),
        Field("pull_secret", _("Registry secret"), kind="select", choices=secrets),
    )


def _alias_to_values(alias: ImageAlias) -> dict[str, Any]:
    return {
        "name": alias.name,
        "display_name": alias.display_name,
        "description": alias.description,
        "kind": alias.kind.value,
        "url": alias.url,
        "gpu_url": alias.gpu_url,
        "pull_secret": alias.pull_secret or "",
        "everyone": alias.everyone,
        "groups": dict.fromkeys(alias.groups, False),
    }


def _read_alias_form(visit: Visit, form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {
        "display_name": form.get_text("display_name"),
        "description": form.get_text("description"),
        "kind": _parse_image_kind(form.get_text("kind")),
        "url": form.get_text("url"),
        "gpu_url": form.get_text("gpu_url"),
        "pull_secret": form.get_text("pull_secret") or None,
    }
    if visit.current_actor.admin:  # group admins cannot change the grants
        found |= {"everyone": form.is_checked("everyone"), "groups": tuple(read_grants_field(form))}
    return found


def _parse_image_kind(text: str) -> ImageKind:
    try:
        return ImageKind(text or "both")
    except ValueError:
        raise UserError(msg("Unknown image kind {text}", text=repr(text[:40])), field="kind") from None


routes = [
    *build_record_routes(_PLATFORM_ALIASES_PATH, ImageAliasForms),
    *build_record_routes(_GROUP_ALIASES_PATH, ImageAliasForms, admin=False),
]
