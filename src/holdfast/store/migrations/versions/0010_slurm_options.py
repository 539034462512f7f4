"""Options for Slurm of groups and instance types."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("groups", sa.Column("slurm_json", sa.Text))
    op.add_column("instance_types", sa.Column("slurm_json", sa.Text))
