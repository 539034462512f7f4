"""Runs migrations on the connection it is given, inside that connection's transaction."""

from __future__ import annotations

from alembic import context

from holdfast.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
