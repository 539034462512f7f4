"""Image aliases: short names for images. The platform's are kept here; a group's own at /groups/NAME/images, by its
admins, with the same forms."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import ImageAlias, ImageKind, SecretKind
from holdfast.core.errors import NotFound, UserError
from holdfast.core.messages import msg
from holdfast.services.catalogue.image_aliases import ImageAliasChange

from ...fields import (
    FORM,
    Choice,
    ConfirmPage,
    Field,
    FormPage,
    Link,
    Section,
    mark_of,
    read_grants,
    try_confirm,
    try_form,
)
from ...forms import Form
from ...kind_names import image_kind
from ...visit import Visit
from ..group_pages import group_path_of, need_manager
from .addresses import edit_path, edit_routes
from .choices import naming, who_may

_HOME = "/admin/images"
_OF_PLACE = f"{_HOME}/aliases"
_OF_GROUP = "/groups/{group}/images"


def _owner(visit: Visit) -> str | None:
    """The group whose page this is; None on the admins' own."""
    owner: str | None = visit.request.path_params.get("group")
    if owner is not None:
        need_manager(visit, owner)
    return owner


def _base(owner: str | None) -> str:
    return _OF_PLACE if owner is None else group_path_of(owner, "/images")


def _back(visit: Visit, owner: str | None) -> Link:
    if owner is None:
        return Link(_HOME, visit.say("Images"))
    return Link(group_path_of(owner, "/settings"), owner)


def _path(alias: ImageAlias, owner: str | None, verb: str) -> str:
    return edit_path(_base(owner), alias.name, verb)


# -- the form


async def _sections(visit: Visit, owner: str | None, *, new: bool) -> tuple[Section, ...]:
    help = visit.say("Small letters, digits, dashes and dots. It cannot be changed later.")
    sections = [
        Section(title="", fields=naming(visit, name_help=help, new=new)),
        Section(title=visit.say("Image"), fields=await _image_fields(visit)),
    ]
    if owner is None or visit.who.admin:
        sections.append(await who_may(visit))
    return tuple(sections)


async def _image_fields(visit: Visit) -> tuple[Field, ...]:
    say = visit.say
    secrets = [each for each in await visit.services.secrets.list(visit.who) if each.kind is SecretKind.REGISTRY]
    names = [Choice("", say("None")), *(Choice(each.name, each.name) for each in secrets)]
    return (
        Field(
            name="kind",
            label=say("Made for"),
            kind="select",
            choices=tuple(Choice(kind.value, image_kind(visit, kind)) for kind in reversed(ImageKind)),
            help=say("Jobs without GPUs cannot choose an image for GPUs."),
        ),
        Field(name="url", label=say("Image"), required=True, help=say("As the list of imported images names it.")),
        Field(name="gpu_url", label=say("Another one for tasks with GPUs"), help=say("Empty: the same.")),
        Field(name="pull_secret", label=say("Secret of its registry"), kind="select", choices=tuple(names)),
    )


def _values(alias: ImageAlias) -> dict[str, Any]:
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


def _read(visit: Visit, form: Form) -> dict[str, Any]:
    found: dict[str, Any] = {
        "display_name": form.text("display_name"),
        "description": form.text("description"),
        "kind": _kind(form.text("kind")),
        "url": form.text("url"),
        "gpu_url": form.text("gpu_url"),
        "pull_secret": form.text("pull_secret") or None,
    }
    if visit.who.admin:  # others have no say in who else may use it
        found |= {"everyone": form.is_on("everyone"), "groups": tuple(read_grants(form))}
    return found


def _kind(text: str) -> ImageKind:
    try:
        return ImageKind(text or "both")
    except ValueError:
        raise UserError(msg("There is no kind {text} of images", text=repr(text[:40])), field="kind") from None


# -- a new one


async def show_new(visit: Visit) -> Response:
    return await visit.show(FORM, await _new_form(visit, _owner(visit)))


async def add(visit: Visit, form: Form) -> Response:
    owner = _owner(visit)

    async def work() -> Response:
        made = ImageAlias(name=form.text("name"), owner=owner, **_read(visit, form))
        await visit.services.image_aliases.create(visit.who, made)
        return visit.go(_back(visit, owner).href, visit.say("Image {name} is added.", name=made.name))

    return await try_form(visit, await _new_form(visit, owner), form, work)


async def _new_form(visit: Visit, owner: str | None) -> FormPage:
    url = visit.request.query_params.get("url", "")[:512]
    blank = ImageAlias(name="", url=url, everyone=owner is None)
    return FormPage(
        title=visit.say("Add an image"),
        action=f"{_base(owner)}/new",
        back=_back(visit, owner),
        submit=visit.say("Add"),
        about=visit.say("A short name that jobs can choose, for an image that is imported or pulled."),
        sections=await _sections(visit, owner, new=True),
        values=_values(blank),
    )


# -- changing


async def show_one(visit: Visit) -> Response:
    owner = _owner(visit)
    return await visit.show(FORM, await _form_of(visit, owner, await _named(visit, owner)))


async def change(visit: Visit, form: Form) -> Response:
    owner = _owner(visit)
    alias = await _named(visit, owner)

    async def work() -> Response:
        await visit.services.image_aliases.change(visit.who, alias.name, ImageAliasChange(**_read(visit, form)))
        return visit.go(_back(visit, owner).href, visit.say("Image {name} is changed.", name=alias.name))

    return await try_form(visit, await _form_of(visit, owner, alias), form, work)


async def _named(visit: Visit, owner: str | None) -> ImageAlias:
    alias = await visit.services.image_aliases.get(visit.who, visit.request.path_params["name"])
    if owner is not None and alias.owner != owner:
        raise NotFound(msg("{owner} has no image alias {name}", owner=owner[:100], name=alias.name))
    return alias


async def _form_of(visit: Visit, owner: str | None, alias: ImageAlias) -> FormPage:
    values = _values(alias)
    return FormPage(
        title=alias.name,
        action=_path(alias, owner, "edit"),
        back=_back(visit, owner),
        submit=visit.say("Save"),
        about=visit.say("Jobs that were submitted before keep the image they had; their reruns get the new one."),
        sections=await _sections(visit, owner, new=False),
        values=values,
        seen=mark_of(values),
        links=(Link(_path(alias, owner, "delete"), visit.say("Remove"), "danger"),),
    )


# -- removing


async def ask_removal(visit: Visit) -> Response:
    owner = _owner(visit)
    return await visit.show("parts/confirm.html", _removal(visit, owner, await _named(visit, owner)))


async def remove(visit: Visit, form: Form) -> Response:
    owner = _owner(visit)
    alias = await _named(visit, owner)

    async def work() -> Response:
        await visit.services.image_aliases.delete(visit.who, alias.name)
        return visit.go(_back(visit, owner).href, visit.say("Image {name} is removed.", name=alias.name))

    return await try_confirm(visit, _removal(visit, owner, alias), work)


def _removal(visit: Visit, owner: str | None, alias: ImageAlias) -> ConfirmPage:
    say = visit.say
    return ConfirmPage(
        title=say("Remove the name {name}?", name=alias.name),
        points=(
            say("The image that it stands for stays."),
            say("Jobs that were submitted before keep it; new ones cannot choose it by this name."),
        ),
        action=_path(alias, owner, "delete"),
        submit=say("Remove"),
        back=Link(_path(alias, owner, "edit"), alias.name),
    )


routes = [
    route
    for base, admin in ((_OF_PLACE, True), (_OF_GROUP, False))
    for route in edit_routes(
        base, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove), admin=admin
    )
]
