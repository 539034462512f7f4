"""What was concluded of ended jobs; notices, and who gets them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

serial_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "job_insights",
        sa.Column("job_seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("diagnosis_json", sa.Text),
        sa.Column("efficiency_json", sa.Text),
        sa.Column("findings_json", sa.Text),
        sa.PrimaryKeyConstraint("job_seq", name="pk_job_insights"),
    )
    op.create_table(
        "notice_recipients",
        sa.Column("id", exact_string, nullable=False),
        sa.Column("user_name", exact_string, nullable=False),
        sa.Column("way", sa.String, nullable=False),
        sa.Column("address_sealed", sa.LargeBinary, nullable=False),
        sa.Column("events_json", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notice_recipients"),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], ondelete="CASCADE", name="fk_notice_recipients_user_name"
        ),
    )
    op.create_index("ix_notice_recipients_user_name", "notice_recipients", ["user_name"])
    op.create_table(
        "notice_jobs",
        sa.Column("job_seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("job_seq", name="pk_notice_jobs"),
    )
    op.create_table(
        "notices",
        sa.Column("seq", serial_integer, nullable=False),
        sa.Column("id", exact_string, nullable=False),
        sa.Column("user_name", exact_string, nullable=False),
        sa.Column("way", sa.String, nullable=False),
        sa.Column("lane", exact_string, nullable=False),
        sa.Column("address_sealed", sa.LargeBinary, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("happening", exact_string, nullable=False),
        sa.Column("job_id", exact_string),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("body_json", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("next_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_notices"),
    )
    op.create_index("uq_notices_id", "notices", ["id"], unique=True)
    op.create_index("ix_notices_user_name", "notices", ["user_name", "seq"])
    op.create_index("ix_notices_recent", "notices", ["user_name", "created_at"])
    op.create_index("ix_notices_created_at", "notices", ["created_at"])
    due, sending = sa.text("next_at IS NOT NULL"), sa.text("state = 'sending'")
    op.create_index("ix_notices_due", "notices", ["next_at"], sqlite_where=due, postgresql_where=due)
    op.create_index("ix_notices_sending", "notices", ["seq"], sqlite_where=sending, postgresql_where=sending)
