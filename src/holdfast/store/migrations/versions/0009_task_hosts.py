"""The machine of each task attempt on a node that stands for several machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("task_attempts", sa.Column("host", sa.String))
