"""Failed tasks that are kept, and groups whose jobs are held unless they say otherwise."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("task_attempts", sa.Column("hold_json", sa.Text))
    op.add_column("groups", sa.Column("hold_json", sa.Text))
