"""Image aliases: short names for images, and who may use them. Admins of a group look after their group's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.catalogue import ImageAlias, ImageKind
from holdfast.core.errors import Forbidden, NotFound, UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.store import image_aliases as rows

from ..audit import AuditedStore, AuditEntry, given
from ..cached_value import Remembered
from ..name_suggestions import nearest, need_group
from ..names import check_dns_name, check_prose, check_text
from ..people.groups import UNSET, Unset
from ..refusals import NoImageAlias

MAX_OWNED = 200  # by one group: everything there is to choose from is kept at hand
MAX_URL_LENGTH = 512  # as for the image of a job
SEEDED = ImageAlias(
    name=HOST_IMAGE,
    display_name=msg("This machine"),
    description=msg("The programs of the machine that the job runs on."),
    url=HOST_IMAGE,
    everyone=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAliasChange:
    display_name: str | Unset = UNSET
    description: str | Unset = UNSET
    kind: ImageKind | Unset = UNSET
    url: str | Unset = UNSET
    gpu_url: str | Unset = UNSET
    pull_secret: str | Unset | None = UNSET
    everyone: bool | Unset = UNSET
    groups: tuple[str, ...] | Unset = UNSET  # these and no others


class ImageAliases:
    def __init__(self, store: AuditedStore) -> None:
        self._store = store
        self._known = Remembered(self._read)

    async def seed(self) -> None:
        """At the first start."""
        await self._known.changed_by(self._store.write_quietly(rows.seed_image_aliases, [SEEDED]))
        await self.known()  # the first job need not wait for it

    # -- looking

    async def usable(self, actor: Actor, group: str) -> list[ImageAlias]:
        """What jobs of a group can name: its own first, then everyone's. None, of a group one is not in."""
        if not may(actor, Verb.SUBMIT_JOB, group):
            return []
        found = [alias for alias in (await self.known()).values() if is_for(alias, group)]
        return sorted(found, key=lambda alias: not _is_linked(alias, group))

    async def list(self, actor: Actor) -> list[ImageAlias]:
        """By name: all, for admins; everyone's and those of their groups, for others."""
        return [alias for alias in (await self.known()).values() if may_see(actor, alias)]

    async def get(self, actor: Actor, name: str) -> ImageAlias:
        found = (await self.known()).get(name)
        if found is None or not may_see(actor, found):
            raise unknown(name, await self.list(actor))
        return found

    async def known(self) -> Mapping[str, ImageAlias]:
        """All, by name; for the platform's own use."""
        return await self._known.get()

    def forget(self) -> None:
        """Groups changed, and with them who may use what."""
        self._known.forget()

    # -- changing

    async def create(self, actor: Actor, alias: ImageAlias) -> ImageAlias:
        """With an owner, it is for that group; only admins share it with others."""
        _need_keeper(actor, alias.owner)
        check_dns_name(alias.name, msg("an image alias"))
        made = _tidy(alias)
        _check(made)
        _need_sharer(actor, made)
        deed = _deed(actor, Act.CREATED, made.name, given(made))
        await self._known.changed_by(self._store.write(deed, _create, made))
        return made

    async def change(self, actor: Actor, name: str, change: ImageAliasChange) -> ImageAlias:
        """Jobs that were submitted before keep the image they had; their reruns get the new one."""
        deed = _deed(actor, Act.CHANGED, name, given(change))
        return await self._known.changed_by(self._store.write(deed, _change, actor, name, change))

    async def delete(self, actor: Actor, name: str) -> None:
        """The images it stands for stay."""
        deed = _deed(actor, Act.REMOVED, name)
        await self._known.changed_by(self._store.write(deed, _delete, actor, name))

    async def grant(self, actor: Actor, name: str, group: str) -> ImageAlias:
        _need_admin(actor)
        deed = _deed(actor, Act.GRANTED, name, {"group": group})
        return await self._known.changed_by(self._store.write(deed, _grant, actor, name, group))

    async def revoke(self, actor: Actor, name: str, group: str) -> ImageAlias:
        _need_admin(actor)
        deed = _deed(actor, Act.REVOKED, name, {"group": group})
        return await self._known.changed_by(self._store.write(deed, _revoke, actor, name, group))

    async def _read(self) -> Mapping[str, ImageAlias]:
        return {alias.name: alias for alias in await self._store.read(rows.list_image_aliases)}


def _deed(actor: Actor, act: Act, name: str, detail: Mapping[str, Any] | None = None) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.IMAGE_ALIAS, act=act, subject=name, detail=detail or {})


def is_for(alias: ImageAlias, group: str) -> bool:
    return alias.everyone or _is_linked(alias, group)


def _is_linked(alias: ImageAlias, group: str) -> bool:
    return alias.owner == group or group in alias.groups


def may_see(actor: Actor, alias: ImageAlias) -> bool:
    return actor.admin or alias.everyone or any(_is_linked(alias, group) for group in actor.groups)


def may_keep(actor: Actor, owner: str | None) -> bool:
    """Whether one may make and change aliases of this owner."""
    return may(actor, Verb.MANAGE_PLACE) if owner is None else may(actor, Verb.MANAGE_GROUP, owner)


def unknown(name: str, known: Iterable[ImageAlias]) -> NoImageAlias:
    hint = nearest(name, [alias.name for alias in known], "holdfast image alias ls")
    return NoImageAlias(msg("There is no image alias {name}", name=name[:100]), name=name, hint=hint)


def _need_keeper(actor: Actor, owner: str | None) -> None:
    if may_keep(actor, owner):
        return
    if owner is None:
        raise Forbidden(
            msg("Only admins manage image aliases"), hint=msg("Admins of a group manage its own: name it as owner.")
        )
    raise Forbidden(msg("Only admins of {owner} manage its image aliases", owner=owner[:100]), field="owner")


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins share image aliases among groups"))


def _need_sharer(actor: Actor, alias: ImageAlias) -> None:
    if alias.everyone or set(alias.groups) - {alias.owner}:
        _need_admin(actor)


def _tidy(alias: ImageAlias) -> ImageAlias:
    """One spelling for what means the same."""
    same = alias.kind is not ImageKind.BOTH or alias.gpu_url == alias.url
    owners = () if alias.owner is None else (alias.owner,)
    return replace(
        alias,
        display_name=alias.display_name.strip(),
        gpu_url="" if same else alias.gpu_url,
        pull_secret=alias.pull_secret or None,
        groups=tuple(sorted({*alias.groups, *owners})),
    )


def _check(alias: ImageAlias) -> None:
    check_text(alias.display_name, "display_name", longest=255)
    check_prose(alias.description, "description")
    if not alias.url:
        raise UserError(msg("An image alias needs the image that it stands for"), field="url")
    for field in ("url", "gpu_url"):
        text = getattr(alias, field)
        check_text(text, field, longest=MAX_URL_LENGTH)
        if any(letter.isspace() for letter in text):
            raise UserError(msg("{field} must be the name of an image, without spaces", field=field), field=field)


# -- within one write each


def _need(conn: Connection, actor: Actor, name: str) -> ImageAlias:
    """One that the actor may change."""
    found = rows.get_image_alias(conn, name)
    if found is None or not may_see(actor, found):
        raise unknown(name, [alias for alias in rows.list_image_aliases(conn) if may_see(actor, alias)])
    _need_keeper(actor, found.owner)
    return found


def _create(conn: Connection, alias: ImageAlias) -> None:
    if alias.owner is not None and rows.count_owned(conn, alias.owner) >= MAX_OWNED:
        raise UserError(
            msg("{owner} has {most_owned} image aliases already", owner=alias.owner, most_owned=MAX_OWNED),
            hint=msg("Remove some first."),
        )
    rows.create_image_alias(conn, alias=alias)


def _change(conn: Connection, actor: Actor, name: str, change: ImageAliasChange) -> ImageAlias:
    given = {key: value for key in change.__slots__ if not isinstance(value := getattr(change, key), Unset)}
    before = _need(conn, actor, name)
    after = _tidy(replace(before, **given))
    _check(after)
    if (after.everyone, after.groups) != (before.everyone, before.groups):
        _need_sharer(actor, after)
    rows.update_image_alias(conn, alias=after)
    return after


def _delete(conn: Connection, actor: Actor, name: str) -> None:
    _need(conn, actor, name)
    rows.delete_image_alias(conn, name)


def _grant(conn: Connection, actor: Actor, name: str, group: str) -> ImageAlias:
    alias = _need(conn, actor, name)
    need_group(conn, group, "groups")
    rows.GRANTS.grant(conn, alias.name, group)
    return _need(conn, actor, name)


def _revoke(conn: Connection, actor: Actor, name: str, group: str) -> ImageAlias:
    alias = _need(conn, actor, name)
    if alias.owner == group:
        raise UserError(
            msg("{name} belongs to {group}", name=name, group=group[:100]),
            hint=msg("Remove the alias to take it from its own group."),
        )
    if not rows.GRANTS.revoke(conn, name, group):
        raise NotFound(msg("The image alias {name} is not granted to {group}", name=name, group=group[:100]))
    return _need(conn, actor, name)
