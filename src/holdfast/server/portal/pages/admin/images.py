"""Admin pages of imported images and image aliases."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias
from holdfast.core.errors import NotFound
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.engines.base import ImageSummary

from ...fields import ConfirmPage, Link, handle_confirmation
from ...forms import Form
from ...kind_names import get_image_kind_name
from ...listing import ListPage, filter_and_paginate
from ...routes import build_form_route, build_page_route
from ...visit import Visit

IMAGES_PATH = "/admin/images"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    image: ImageSummary
    remove: str  # address; empty: not removable
    name_it: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRow:
    alias: ImageAlias
    kind: str
    missing: tuple[str, ...]  # images of the alias that are not imported


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesPage:
    images: tuple[ImageRow, ...]
    aliases: ListPage[AliasRow]
    most_bytes: int


async def show_images(visit: Visit) -> Response:
    images = await visit.services.images.list(visit.current_actor)
    imported = {_strip_latest_tag(image.name) for image in images}
    aliases = await visit.services.image_aliases.list(visit.current_actor)
    rows = [_build_alias_row(visit, alias, imported) for alias in aliases]
    found = ImagesPage(
        images=tuple(map(_build_image_row, sorted(images, key=lambda image: (image.name != HOST_IMAGE, image.name)))),
        aliases=filter_and_paginate(
            visit, rows, lambda row: f"{row.alias.name} {row.alias.display_name} {row.alias.url}"
        ),
        most_bytes=visit.services.settings.server.max_image_bytes,
    )
    return await visit.render_response("admin/images.html", found)


def _build_image_row(image: ImageSummary) -> ImageRow:
    name = quote(image.name, safe="")
    return ImageRow(
        image=image,
        remove="" if image.name == HOST_IMAGE else f"{IMAGES_PATH}/remove?name={name}",
        name_it=f"{IMAGES_PATH}/aliases/new?url={name}",
    )


def _build_alias_row(visit: Visit, alias: ImageAlias, imported: set[str]) -> AliasRow:
    urls = dict.fromkeys(url for url in (alias.url, alias.gpu_url) if url)
    missing = tuple(url for url in urls if _strip_latest_tag(url) not in imported)
    return AliasRow(alias=alias, kind=get_image_kind_name(visit, alias.kind), missing=missing)


def _strip_latest_tag(name: str) -> str:
    """Remove the tag `latest`, which is the default."""
    return name.removesuffix(":latest")


# -- removing


async def show_image_removal(visit: Visit) -> Response:
    return await visit.render_response(
        "parts/confirm.html", await _build_image_removal_page(visit, visit.query.get("name", ""))
    )


async def submit_image_removal(visit: Visit, form: Form) -> Response:
    name = form.get_text("name")

    async def delete_image() -> Response:
        await visit.services.images.remove(visit.current_actor, name)
        return visit.redirect(IMAGES_PATH, visit.translate_text("Image alias {name} was deleted.", name=name))

    return await handle_confirmation(visit, await _build_image_removal_page(visit, name), delete_image)


async def _build_image_removal_page(visit: Visit, name: str) -> ConfirmPage:
    if name not in {image.name for image in await visit.services.images.list(visit.current_actor)}:
        raise NotFound(msg("Image {name} not found", name=name[:100]))
    _ = visit.translate_text
    aliases = await visit.services.image_aliases.list(visit.current_actor)
    bare = _strip_latest_tag(name)
    users = [alias.name for alias in aliases if bare in map(_strip_latest_tag, (alias.url, alias.gpu_url))]
    points = [_("This deletes its files from this server. Tasks that use it keep running.")]
    if users:
        points.append(_("Jobs that use these names can no longer start: {names}", names=", ".join(users[:10])))
    return ConfirmPage(
        title=_("Delete the image {name}?", name=name),
        points=tuple(points),
        action=f"{IMAGES_PATH}/remove",
        submit=_("Delete"),
        back=Link(IMAGES_PATH, _("Images")),
        hidden={"name": name},
    )


routes = [
    build_page_route(IMAGES_PATH, show_images, admin=True),
    build_page_route(f"{IMAGES_PATH}/remove", show_image_removal, admin=True),
    build_form_route(f"{IMAGES_PATH}/remove", submit_image_removal, admin=True),
]
