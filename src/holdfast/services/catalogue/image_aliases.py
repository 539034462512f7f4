"""Image aliases: short names for images, granted to groups. Admins of a group manage the group's aliases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.catalogue import ImageAlias, ImageKind
from holdfast.core.errors import Forbidden, NotFound, UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.store import image_aliases as rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..cached_value import CachedValue
from ..errors import ImageAliasNotFound
from ..name_suggestions import require_group, suggest_name
from ..names import check_dns_name, check_multiline_text, check_text
from ..people.groups import UNSET, Unset
from ..permissions import require_admin

ADMINS_ONLY_MESSAGE = msg("Only admins can share image aliases with other groups")
MAX_ALIASES_PER_GROUP = 200  # by one group: all aliases are cached
MAX_URL_LENGTH = 512  # as for the image of a job
HOST_ALIAS = ImageAlias(
    name=HOST_IMAGE,
    display_name=msg("This machine"),
    description=msg("The programs installed on the node that runs the job."),
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
    groups: tuple[str, ...] | Unset = UNSET  # replaces all grants


class ImageAliases:
    def __init__(self, store: AuditedStore) -> None:
        self._store = store
        self._cache = CachedValue(self._load_aliases)

    async def seed_aliases(self) -> None:
        """Add the default alias at the first start."""
        await self._cache.invalidate_after(self._store.write_unaudited(rows.seed_image_aliases, [HOST_ALIAS]))
        await self.load_all()  # the first job need not wait for it

    # -- reading

    async def list_usable_aliases(self, actor: Actor, group: str) -> list[ImageAlias]:
        """Return the aliases that jobs of a group can use, the group's first; none if the actor is not a member."""
        if not has_permission(actor, Permission.SUBMIT_JOB, group):
            return []
        found = [alias for alias in (await self.load_all()).values() if is_alias_available(alias, group)]
        return sorted(found, key=lambda alias: not _is_granted(alias, group))

    async def list(self, actor: Actor) -> list[ImageAlias]:
        """Return the aliases that the actor can see, by name."""
        return [alias for alias in (await self.load_all()).values() if can_see_alias(actor, alias)]

    async def get(self, actor: Actor, name: str) -> ImageAlias:
        found = (await self.load_all()).get(name)
        if found is None or not can_see_alias(actor, found):
            raise build_alias_not_found_error(name, await self.list(actor))
        return found

    async def load_all(self) -> Mapping[str, ImageAlias]:
        """Return all aliases by name, without a permission check."""
        return await self._cache.get()

    def invalidate(self) -> None:
        """Clear the cache after a change to groups, which changes the grants."""
        self._cache.invalidate()

    # -- writing

    async def create(self, actor: Actor, alias: ImageAlias) -> ImageAlias:
        """Create an alias. One with an owner is for that group; only admins can share it with others."""
        _require_manager(actor, alias.owner)
        check_dns_name(alias.name, msg("an image alias"))
        made = _normalize_alias(alias)
        _check_alias(made)
        _check_sharing(actor, made)
        entry = AuditEntry(actor.name, AuditKind.IMAGE_ALIAS, AuditAction.CREATED, made.name, collect_set_fields(made))
        await self._cache.invalidate_after(self._store.write(entry, _insert_alias, made))
        return made

    async def change(self, actor: Actor, name: str, change: ImageAliasChange) -> ImageAlias:
        """Change an alias. Jobs submitted earlier keep their image; their reruns get the new one."""
        entry = AuditEntry(actor.name, AuditKind.IMAGE_ALIAS, AuditAction.CHANGED, name, collect_set_fields(change))
        return await self._cache.invalidate_after(self._store.write(entry, _update_alias, actor, name, change))

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete an alias but not its images."""
        entry = AuditEntry(actor.name, AuditKind.IMAGE_ALIAS, AuditAction.REMOVED, name)
        await self._cache.invalidate_after(self._store.write(entry, _delete_alias, actor, name))

    async def grant(self, actor: Actor, name: str, group: str) -> ImageAlias:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.IMAGE_ALIAS, AuditAction.GRANTED, name, {"group": group})
        return await self._cache.invalidate_after(self._store.write(entry, _grant_alias, actor, name, group))

    async def revoke(self, actor: Actor, name: str, group: str) -> ImageAlias:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.IMAGE_ALIAS, AuditAction.REVOKED, name, {"group": group})
        return await self._cache.invalidate_after(self._store.write(entry, _revoke_alias, actor, name, group))

    async def _load_aliases(self) -> Mapping[str, ImageAlias]:
        return {alias.name: alias for alias in await self._store.read(rows.list_image_aliases)}


def is_alias_available(alias: ImageAlias, group: str) -> bool:
    return alias.everyone or _is_granted(alias, group)


def _is_granted(alias: ImageAlias, group: str) -> bool:
    return alias.owner == group or group in alias.groups


def can_see_alias(actor: Actor, alias: ImageAlias) -> bool:
    return actor.admin or alias.everyone or any(_is_granted(alias, group) for group in actor.groups)


def can_manage_aliases(actor: Actor, owner: str | None) -> bool:
    return has_permission(actor, Permission.MANAGE_INSTALLATION if owner is None else Permission.MANAGE_GROUP, owner)


def build_alias_not_found_error(name: str, known: Iterable[ImageAlias]) -> ImageAliasNotFound:
    hint = suggest_name(name, [alias.name for alias in known], "holdfast image alias ls")
    return ImageAliasNotFound(msg("Image alias {name} not found", name=name[:100]), name=name, hint=hint)


def _require_manager(actor: Actor, owner: str | None) -> None:
    if can_manage_aliases(actor, owner):
        return
    if owner is None:
        raise Forbidden(
            msg("Only admins can manage image aliases"),
            hint=msg("To create an alias for a group that you administer, set `owner` to that group."),
        )
    raise Forbidden(msg("Only admins of {owner} can manage its image aliases", owner=owner[:100]), field="owner")


def _check_sharing(actor: Actor, alias: ImageAlias) -> None:
    if alias.everyone or set(alias.groups) - {alias.owner}:
        require_admin(actor, ADMINS_ONLY_MESSAGE)


def _normalize_alias(alias: ImageAlias) -> ImageAlias:
    same = alias.kind is not ImageKind.BOTH or alias.gpu_url == alias.url
    owners = () if alias.owner is None else (alias.owner,)
    return replace(
        alias,
        display_name=alias.display_name.strip(),
        gpu_url="" if same else alias.gpu_url,
        pull_secret=alias.pull_secret or None,
        groups=tuple(sorted({*alias.groups, *owners})),
    )


def _check_alias(alias: ImageAlias) -> None:
    check_text(alias.display_name, "display_name", longest=255)
    check_multiline_text(alias.description, "description")
    if not alias.url:
        raise UserError(msg("An image alias requires an image"), field="url")
    for field in ("url", "gpu_url"):
        text = getattr(alias, field)
        check_text(text, field, longest=MAX_URL_LENGTH)
        if any(letter.isspace() for letter in text):
            raise UserError(msg("{field} must be an image name without spaces", field=field), field=field)


# -- inside a write transaction


def _require_alias(conn: Connection, actor: Actor, name: str) -> ImageAlias:
    """Load an alias that the actor can change."""
    found = rows.get_image_alias(conn, name)
    if found is None or not can_see_alias(actor, found):
        raise build_alias_not_found_error(
            name, [alias for alias in rows.list_image_aliases(conn) if can_see_alias(actor, alias)]
        )
    _require_manager(actor, found.owner)
    return found


def _insert_alias(conn: Connection, alias: ImageAlias) -> None:
    if alias.owner is not None and rows.count_image_aliases(conn, alias.owner) >= MAX_ALIASES_PER_GROUP:
        raise UserError(
            msg(
                "{owner} already has the maximum of {max_owned} image aliases",
                owner=alias.owner,
                max_owned=MAX_ALIASES_PER_GROUP,
            ),
            hint=msg("Remove some first."),
        )
    rows.create_image_alias(conn, alias)


def _update_alias(conn: Connection, actor: Actor, name: str, change: ImageAliasChange) -> ImageAlias:
    before = _require_alias(conn, actor, name)
    after = _normalize_alias(replace(before, **collect_set_fields(change)))
    _check_alias(after)
    if (after.everyone, after.groups) != (before.everyone, before.groups):
        _check_sharing(actor, after)
    rows.update_image_alias(conn, after)
    return after


def _delete_alias(conn: Connection, actor: Actor, name: str) -> None:
    _require_alias(conn, actor, name)
    rows.delete_image_alias(conn, name)


def _grant_alias(conn: Connection, actor: Actor, name: str, group: str) -> ImageAlias:
    alias = _require_alias(conn, actor, name)
    require_group(conn, group, "groups")
    rows.GRANTS.grant(conn, alias.name, group)
    return _require_alias(conn, actor, name)


def _revoke_alias(conn: Connection, actor: Actor, name: str, group: str) -> ImageAlias:
    alias = _require_alias(conn, actor, name)
    if alias.owner == group:
        raise UserError(
            msg("{name} belongs to {group}", name=name, group=group[:100]),
            hint=msg("To revoke the alias from the group that owns it, delete the alias."),
        )
    if not rows.GRANTS.revoke(conn, name, group):
        raise NotFound(msg("The image alias {name} is not granted to {group}", name=name, group=group[:100]))
    return _require_alias(conn, actor, name)
