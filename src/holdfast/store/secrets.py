"""Secrets that admins keep: for git and for registries. Values are sealed here, and bound to the name."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from holdfast.core.catalogue import Secret, SecretKind
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.messages import msg

from .connections import vault_of
from .rows import storable
from .tables import datasets, image_aliases, secrets


def create_secret(conn: Connection, secret: Secret, value: str) -> None:
    """Conflict when the name is taken."""
    if get_secret(conn, secret.name) is not None:
        raise Conflict(msg("There is a secret {name} already", name=secret.name), field="name")
    conn.execute(insert(secrets), {"name": secret.name, **_values(secret), "value": _sealed(conn, secret.name, value)})


def get_secret(conn: Connection, name: str) -> Secret | None:
    row = conn.execute(_shown().where(secrets.c.name == storable(name))).one_or_none()
    return None if row is None else _secret_of(row)


def list_secrets(conn: Connection) -> list[Secret]:
    """By name."""
    return [_secret_of(row) for row in conn.execute(_shown().order_by(secrets.c.name))]


def secret_value(conn: Connection, name: str) -> str | None:
    """None when there is no such secret."""
    sealed = conn.scalar(select(secrets.c.value).where(secrets.c.name == storable(name)))
    return None if sealed is None else vault_of(conn).unseal(bytes(sealed), about=_about(name)).decode()


def update_secret(conn: Connection, secret: Secret, value: str | None) -> None:
    """The value stays where none is given."""
    changed: dict[str, Any] = _values(secret)
    if value is not None:
        changed["value"] = _sealed(conn, secret.name, value)
    if not conn.execute(update(secrets).where(secrets.c.name == secret.name).values(changed)).rowcount:
        raise no_secret(secret.name)


def delete_secret(conn: Connection, name: str) -> None:
    if not conn.execute(delete(secrets).where(secrets.c.name == storable(name))).rowcount:
        raise no_secret(name)


def users_of_secret(conn: Connection, name: str) -> list[str]:
    """What would miss it, in words: "dataset code", "image torch"."""
    rows = conn.execute(select(datasets.c.name, datasets.c.data_json).where(datasets.c.kind == "git"))
    found = [msg("dataset {name}", name=row.name) for row in rows if json.loads(row.data_json).get("secret") == name]
    named = image_aliases.c.pull_secret == storable(name)
    images = conn.execute(select(image_aliases.c.name).where(named)).scalars()
    return sorted(found) + sorted(msg("image {image}", image=image) for image in images)


def no_secret(name: str) -> NotFound:
    return NotFound(msg("There is no secret {name}", name=name[:100]))


def _shown() -> Any:
    return select(secrets.c.name, secrets.c.display_name, secrets.c.kind, secrets.c.registry_host, secrets.c.username)


def _secret_of(row: Row[Any]) -> Secret:
    return Secret(
        name=row.name,
        display_name=row.display_name,
        kind=SecretKind(row.kind),
        registry_host=row.registry_host,
        username=row.username,
    )


def _values(secret: Secret) -> dict[str, Any]:
    return {
        "display_name": storable(secret.display_name),
        "kind": secret.kind.value,
        "registry_host": storable(secret.registry_host),
        "username": storable(secret.username),
    }


def _sealed(conn: Connection, name: str, value: str) -> bytes:
    return vault_of(conn).seal(value.encode(), about=_about(name))


def _about(name: str) -> str:
    return msg("the secret {name}", name=name)
