"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

serial_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.String, nullable=False),
        sa.Column("value", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    create_job_tables()
    create_history_tables()
    create_user_tables()
    create_search_index()


def create_job_tables() -> None:
    op.create_table(
        "jobs",
        sa.Column("seq", serial_integer, nullable=False),
        sa.Column("id", exact_string, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("group_name", sa.Text, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("submitted_at", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("attempt_started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("exit_code", sa.Integer),
        sa.Column("exit_kind", sa.String),
        sa.Column("exit_json", sa.Text),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("task_count", sa.Integer, nullable=False),
        sa.Column("cpu", sa.Double, nullable=False),
        sa.Column("memory", sa.BigInteger, nullable=False),
        sa.Column("gpu", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("tags_json", sa.Text),
        sa.Column("rerun_of", sa.String),
        sa.Column("idempotency_key", sa.String),
        sa.Column("stop_json", sa.Text),
        sa.Column("outcome_json", sa.Text),
        sa.Column("user_retries", sa.Integer, nullable=False),
        sa.Column("platform_retries", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.BigInteger),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("search", exact_string, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_jobs"),
    )
    op.create_index("uq_jobs_id", "jobs", ["id"], unique=True)
    op.create_index(
        "uq_jobs_idempotency_key",
        "jobs",
        ["user_name", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_index("ix_jobs_name", "jobs", ["name", "seq"])
    op.create_index("ix_jobs_state", "jobs", ["state", "seq"])
    op.create_index("ix_jobs_group", "jobs", ["group_name", "seq"])
    op.create_index("ix_jobs_group_state", "jobs", ["group_name", "state", "seq"])
    op.create_index("ix_jobs_user", "jobs", ["user_name", "seq"])
    op.create_index("ix_jobs_user_state", "jobs", ["user_name", "state", "seq"])
    op.create_index("ix_jobs_user_group_state", "jobs", ["user_name", "group_name", "state", "seq"])
    op.create_table(
        "job_specs",
        sa.Column("job_seq", serial_integer, nullable=False, autoincrement=False),
        sa.Column("spec_json", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary),
        sa.PrimaryKeyConstraint("job_seq", name="pk_job_specs"),
    )
    op.create_table(
        "job_hours",
        sa.Column("hour", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hour", name="pk_job_hours"),
    )


def create_history_tables() -> None:
    op.create_table(
        "task_attempts",
        sa.Column("job_seq", serial_integer, nullable=False, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("role", exact_string, nullable=False),
        sa.Column("task_index", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("node", sa.String),
        sa.Column("gpus_json", sa.Text),
        sa.Column("ports_json", sa.Text),
        sa.Column("placed_at", sa.BigInteger),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("exit_json", sa.Text),
        sa.Column("stop_json", sa.Text),
        sa.Column("user_retries", sa.Integer, nullable=False),
        sa.Column("platform_retries", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.BigInteger),
        sa.Column("job_finished_at", sa.BigInteger),
        sa.Column("logs_removed_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("job_seq", "attempt", "role", "task_index", "number", name="pk_task_attempts"),
        sqlite_with_rowid=False,
    )
    due = sa.text("job_finished_at IS NOT NULL AND logs_removed_at IS NULL")
    op.create_index(
        "ix_task_attempts_logs_due", "task_attempts", ["job_finished_at"], sqlite_where=due, postgresql_where=due
    )
    op.create_table(
        "events",
        sa.Column("seq", serial_integer, nullable=False),
        sa.Column("job_seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("task", sa.String),
        sa.Column("attempt", sa.Integer),
        sa.Column("state", sa.String),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_index("ix_events_job_seq_seq", "events", ["job_seq", "seq"])


def create_user_tables() -> None:
    op.create_table(
        "users",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("password_hash", sa.String),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    op.create_table(
        "groups",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("quota_cpu", sa.Double),
        sa.Column("quota_memory", sa.BigInteger),
        sa.Column("quota_gpu", sa.Integer),
        sa.Column("user_quota_cpu", sa.Double),
        sa.Column("user_quota_memory", sa.BigInteger),
        sa.Column("user_quota_gpu", sa.Integer),
        sa.Column("time_limit", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", name="pk_groups"),
    )
    op.create_table(
        "memberships",
        sa.Column("user_name", exact_string, nullable=False),
        sa.Column("group_name", exact_string, nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("user_name", "group_name", name="pk_memberships"),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], name="fk_memberships_user_name", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["group_name"], ["groups.name"], name="fk_memberships_group_name", ondelete="CASCADE"),
    )
    op.create_index("ix_memberships_group_name", "memberships", ["group_name"])
    op.create_table(
        "tokens",
        sa.Column("id", exact_string, nullable=False),
        sa.Column("user_name", exact_string, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("secret_hash", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.CheckConstraint("length(secret_hash) = 64", name=op.f("ck_tokens_secret_hash")),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], name="fk_tokens_user_name", ondelete="CASCADE"),
    )
    op.create_index("ix_tokens_user_name", "tokens", ["user_name"])


def create_search_index() -> None:
    """What finds parts of names and ids among a million jobs."""
    conn = op.get_bind()
    if conn.dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE job_search USING fts5("
            "text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
        )
        op.execute("CREATE VIRTUAL TABLE job_search_terms USING fts5vocab(job_search, row)")
        return
    try:
        with conn.begin_nested():
            op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except sa.exc.DBAPIError:  # not installed, or not ours to create: search reads the table instead
        return
    op.execute("CREATE INDEX ix_jobs_search ON jobs USING gin (search gin_trgm_ops)")
