"""Brings a database to the present tables. Cheap when it is there already: Alembic is loaded only to migrate."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

HEAD = "0007"  # the newest migration; a test keeps it true
MIGRATIONS = Path(__file__).parent / "migrations"


def current_version(conn: Connection) -> str | None:
    """None for an empty database."""
    if conn.dialect.name == "postgresql" and conn.scalar(text("SHOW server_encoding")) != "UTF8":
        raise UserError(
            msg("The PostgreSQL database does not store UTF-8"), hint=msg("Create it with ENCODING 'UTF8'.")
        )
    if not conn.dialect.has_table(conn, "alembic_version"):
        return None
    version: str | None = conn.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def migrate(engine: Engine) -> None:
    """All missing migrations in one transaction: a crash half-way leaves the database as it was."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.begin() as conn:
        config.attributes["connection"] = conn
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise _too_new(str(error)) from error


def _too_new(detail: str) -> UserError:
    return UserError(
        msg("The database was written by another release of Holdfast ({detail})", detail=detail),
        hint=msg("Start the release that wrote it, or a newer one."),
    )
