"""What people changed about the place; what each chose for the portal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

serial_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", serial_integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", exact_string, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("act", sa.String, nullable=False),
        sa.Column("subject", exact_string, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("detail_json", sa.Text),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_index("ix_audit_actor", "audit", ["actor", "seq"])
    op.create_index("ix_audit_kind", "audit", ["kind", "seq"])
    op.create_index("ix_audit_subject", "audit", ["subject", "seq"])
    op.add_column("users", sa.Column("preferences_json", sa.Text))
