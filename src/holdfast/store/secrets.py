"""Secrets for git and registries, managed by admins. Values are sealed here, and bound to the name."""

from __future__ import annotations

import json

from sqlalchemy import Connection, select

from holdfast.core.catalogue import Secret
from holdfast.core.errors import NotFound
from holdfast.core.messages import msg

from .connections import get_vault
from .mapping import record_from_row, record_to_row
from .named_table import NamedTable
from .rows import make_storable
from .tables import datasets, image_aliases, secrets


def create_secret(conn: Connection, secret: Secret, value: str) -> None:
    """Create a secret; Conflict if the name is in use."""
    _SECRET_TABLE.check_name_unused(conn, secret.name)
    _SECRET_TABLE.insert_row(conn, record_to_row(secret, secrets, value=_seal_value(conn, secret.name, value)))


def get_secret(conn: Connection, name: str) -> Secret | None:
    row = _SECRET_TABLE.find_row(conn, name)
    return None if row is None else record_from_row(Secret, row)


def list_secrets(conn: Connection) -> list[Secret]:
    """Return all secrets, sorted by name."""
    return [record_from_row(Secret, row) for row in _SECRET_TABLE.list_rows(conn)]


def load_secret_value(conn: Connection, name: str) -> str | None:
    """Return the value; None if the secret does not exist."""
    sealed = conn.scalar(select(secrets.c.value).where(secrets.c.name == make_storable(name)))
    return None if sealed is None else get_vault(conn).unseal(bytes(sealed), about=_build_seal_context(name)).decode()


def update_secret(conn: Connection, secret: Secret, value: str | None) -> None:
    """Update a secret; None keeps the value."""
    changed = record_to_row(secret, secrets)
    if value is not None:
        changed["value"] = _seal_value(conn, secret.name, value)
    _SECRET_TABLE.update_row(conn, secret.name, changed)


def list_secret_references(conn: Connection, name: str) -> list[str]:
    """Return what uses the secret, as text: "dataset code", "image torch"."""
    rows = conn.execute(select(datasets.c.name, datasets.c.data_json).where(datasets.c.kind == "git"))
    found = [msg("dataset {name}", name=row.name) for row in rows if json.loads(row.data_json).get("secret") == name]
    named = image_aliases.c.pull_secret == make_storable(name)
    images = conn.execute(select(image_aliases.c.name).where(named)).scalars()
    return sorted(found) + sorted(msg("image {image}", image=image) for image in images)


def build_secret_not_found_error(name: str) -> NotFound:
    return NotFound(msg("Secret {name} not found", name=name[:100]))


_SECRET_TABLE = NamedTable(
    secrets, lambda name: msg("Secret {name} already exists", name=name), not_found=build_secret_not_found_error
)
delete_secret = _SECRET_TABLE.delete_row


def _seal_value(conn: Connection, name: str, value: str) -> bytes:
    return get_vault(conn).seal(value.encode(), about=_build_seal_context(name))


def _build_seal_context(name: str) -> str:
    return f"the secret {name}"  # never change it: stored values are bound to this text
