"""Image aliases: short names of images, and the groups they are granted to."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from holdfast.core.catalogue import ImageAlias, SecretKind
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from .grants import Grants
from .named_table import Catalogue
from .rows import make_storable
from .tables import groups, image_alias_groups, image_aliases, secrets

GRANTS = Grants(image_alias_groups)
_PULL_SECRET_KIND = SecretKind.REGISTRY


def count_image_aliases(conn: Connection, owner: str) -> int:
    here = image_aliases.c.owner == make_storable(owner)
    return conn.scalar(select(func.count()).select_from(image_aliases).where(here)) or 0


def _validate_references(conn: Connection, alias: ImageAlias) -> None:
    owner, secret = alias.owner, alias.pull_secret
    if owner is not None and conn.scalar(select(groups.c.name).where(groups.c.name == make_storable(owner))) is None:
        raise NotFound(msg("Group {owner} not found", owner=owner[:100]), field="owner")
    if (
        secret is not None
        and conn.scalar(select(secrets.c.kind).where(secrets.c.name == make_storable(secret))) != _PULL_SECRET_KIND
    ):
        raise NotFound(
            msg("Secret {secret} of kind {pulls} not found", secret=secret[:100], pulls=_PULL_SECRET_KIND),
            field="pull_secret",
        )


_ALIAS_CATALOGUE = Catalogue(
    ImageAlias,
    image_aliases,
    GRANTS,
    in_use=lambda name: msg("Image alias {name} already exists", name=name),
    not_found=lambda name: NotFound(msg("Image alias {name} not found", name=name[:100])),
    validate=_validate_references,
)
create_image_alias = _ALIAS_CATALOGUE.create
seed_image_aliases = _ALIAS_CATALOGUE.seed
get_image_alias = _ALIAS_CATALOGUE.get
list_image_aliases = _ALIAS_CATALOGUE.list_records
update_image_alias = _ALIAS_CATALOGUE.update
delete_image_alias = _ALIAS_CATALOGUE.delete_row
