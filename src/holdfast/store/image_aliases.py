"""Image aliases: names that stand for images, and the groups they are for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.core.catalogue import ImageAlias, ImageKind, SecretKind
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg

from . import seeds
from .grants import Grants
from .rows import storable
from .tables import groups, image_alias_groups, image_aliases, secrets

GRANTS = Grants(image_alias_groups)
_PULLS = SecretKind.REGISTRY


def create_image_alias(conn: Connection, *, alias: ImageAlias) -> None:
    """With its grants; Conflict when the name is taken, NotFound when a group or its secret is missing."""
    if get_image_alias(conn, alias.name) is not None:
        raise Conflict(msg("There is an image alias {name} already", name=alias.name), field="name")
    _need_what_it_names(conn, alias)
    conn.execute(insert(image_aliases), {"name": alias.name, **_values(alias)})
    GRANTS.set(conn, alias.name, alias.groups)


def seed_image_aliases(conn: Connection, aliases: Iterable[ImageAlias]) -> None:
    """At the first start only."""
    if seeds.due(conn, image_aliases):
        for alias in aliases:
            create_image_alias(conn, alias=alias)


def get_image_alias(conn: Connection, name: str) -> ImageAlias | None:
    row = conn.execute(select(image_aliases).where(image_aliases.c.name == storable(name))).one_or_none()
    return None if row is None else _alias_of(row, GRANTS.of(conn, row.name))


def list_image_aliases(conn: Connection) -> list[ImageAlias]:
    """By name."""
    granted = GRANTS.all(conn)
    rows = conn.execute(select(image_aliases).order_by(image_aliases.c.name))
    return [_alias_of(row, granted.get(row.name, ())) for row in rows]


def count_owned(conn: Connection, owner: str) -> int:
    here = image_aliases.c.owner == storable(owner)
    return conn.scalar(select(func.count()).select_from(image_aliases).where(here)) or 0


def update_image_alias(conn: Connection, *, alias: ImageAlias) -> None:
    """All of it, with its grants."""
    _need_what_it_names(conn, alias)
    here = image_aliases.c.name == storable(alias.name)
    if not conn.execute(update(image_aliases).where(here).values(_values(alias))).rowcount:
        raise _no(alias.name)
    GRANTS.set(conn, alias.name, alias.groups)


def delete_image_alias(conn: Connection, name: str) -> None:
    """With its grants. The images it stood for stay."""
    if not conn.execute(delete(image_aliases).where(image_aliases.c.name == storable(name))).rowcount:
        raise _no(name)


def _need_what_it_names(conn: Connection, alias: ImageAlias) -> None:
    owner, secret = alias.owner, alias.pull_secret
    if owner is not None and conn.scalar(select(groups.c.name).where(groups.c.name == storable(owner))) is None:
        raise NotFound(msg("There is no group {owner}", owner=owner[:100]), field="owner")
    if secret is not None and conn.scalar(select(secrets.c.kind).where(secrets.c.name == storable(secret))) != _PULLS:
        raise NotFound(
            msg("There is no secret {secret} of the kind {pulls}", secret=secret[:100], pulls=_PULLS),
            field="pull_secret",
        )


def _alias_of(row: Row[Any], granted: Iterable[str]) -> ImageAlias:
    return ImageAlias(
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        kind=ImageKind(row.kind),
        url=row.url,
        gpu_url=row.gpu_url,
        pull_secret=row.pull_secret,
        owner=row.owner,
        everyone=row.everyone,
        groups=tuple(granted),
    )


def _values(alias: ImageAlias) -> dict[str, Any]:
    return {
        "display_name": storable(alias.display_name),
        "description": storable(alias.description),
        "kind": alias.kind,
        "url": alias.url,
        "gpu_url": alias.gpu_url,
        "pull_secret": alias.pull_secret,
        "owner": alias.owner,
        "everyone": alias.everyone,
    }


def _no(name: str) -> NotFound:
    return NotFound(msg("There is no image alias {name}", name=name[:100]))
