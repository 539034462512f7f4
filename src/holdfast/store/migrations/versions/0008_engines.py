"""The engine of each task attempt, and the default engine of a group."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("task_attempts", sa.Column("engine", sa.String))
    op.add_column("groups", sa.Column("engine", sa.String))
