"""Images: those that are imported, and the names that jobs choose them by."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias
from holdfast.core.errors import NotFound
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.engines.base import ImageInfo

from ...fields import ConfirmPage, Link, try_confirm
from ...forms import Form
from ...kind_names import image_kind
from ...listing import Listed, listed
from ...routes import act, page
from ...visit import Visit

HOME = "/admin/images"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    image: ImageInfo
    remove: str  # address; empty: it cannot be
    name_it: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRow:
    alias: ImageAlias
    kind: str
    missing: tuple[str, ...]  # images it stands for that are not here


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesPage:
    images: tuple[ImageRow, ...]
    aliases: Listed[AliasRow]
    most_bytes: int


async def show_images(visit: Visit) -> Response:
    images = await visit.services.images.list(visit.who)
    here = {_plain(image.name) for image in images}
    rows = [_alias_row(visit, alias, here) for alias in await visit.services.image_aliases.list(visit.who)]
    found = ImagesPage(
        images=tuple(map(_image_row, sorted(images, key=lambda image: (image.name != HOST_IMAGE, image.name)))),
        aliases=listed(visit, rows, lambda row: f"{row.alias.name} {row.alias.display_name} {row.alias.url}"),
        most_bytes=visit.services.settings.server.max_image_bytes,
    )
    return await visit.show("admin/images.html", found)


def _image_row(image: ImageInfo) -> ImageRow:
    name = quote(image.name, safe="")
    return ImageRow(
        image=image,
        remove="" if image.name == HOST_IMAGE else f"{HOME}/remove?name={name}",
        name_it=f"{HOME}/aliases/new?url={name}",
    )


def _alias_row(visit: Visit, alias: ImageAlias, here: set[str]) -> AliasRow:
    urls = dict.fromkeys(url for url in (alias.url, alias.gpu_url) if url)
    missing = tuple(url for url in urls if _plain(url) not in here)
    return AliasRow(alias=alias, kind=image_kind(visit, alias.kind), missing=missing)


def _plain(name: str) -> str:
    """Without a tag, the one that is called latest is meant."""
    return name.removesuffix(":latest")


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", await _removal(visit, visit.request.query_params.get("name", "")))


async def remove(visit: Visit, form: Form) -> Response:
    name = form.text("name")

    async def work() -> Response:
        await visit.services.images.remove(visit.who, name)
        return visit.go(HOME, visit.say("Image {name} is removed.", name=name))

    return await try_confirm(visit, await _removal(visit, name), work)


async def _removal(visit: Visit, name: str) -> ConfirmPage:
    if name not in {image.name for image in await visit.services.images.list(visit.who)}:
        raise NotFound(msg("There is no image {name}", name=name[:100]))
    say = visit.say
    aliases = await visit.services.image_aliases.list(visit.who)
    by = [alias.name for alias in aliases if _plain(name) in (_plain(alias.url), _plain(alias.gpu_url))]
    points = [say("Its files are removed from this machine. Tasks that run on it go on.")]
    if by:
        points.append(say("Jobs could not start any more that choose: {names}", names=", ".join(by[:10])))
    return ConfirmPage(
        title=say("Remove the image {name}?", name=name),
        points=tuple(points),
        action=f"{HOME}/remove",
        submit=say("Remove"),
        back=Link(HOME, say("Images")),
        hidden={"name": name},
    )


routes = [
    page(HOME, show_images, admin=True),
    page(f"{HOME}/remove", ask_removal, admin=True),
    act(f"{HOME}/remove", remove, admin=True),
]
