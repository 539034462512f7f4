"""Tries of whole jobs, tags to find jobs by, whose job of which name, and what clients keep with users and groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BATCH_SIZE = 2000  # jobs read and changed together

serial_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("role_count", sa.Integer, nullable=False, server_default=sa.text("1")))
    op.add_column("jobs", sa.Column("exit_cause", sa.String))
    op.create_index("ix_jobs_user_job", "jobs", ["user_name", "name", "seq"])
    op.create_table(
        "job_attempts",
        sa.Column("job_seq", serial_integer, nullable=False, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger, nullable=False),
        sa.Column("outcome_json", sa.Text, nullable=False),
        sa.Column("counted", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("job_seq", "attempt", name="pk_job_attempts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "job_tags",
        sa.Column("tag", exact_string, nullable=False),
        sa.Column("job_seq", serial_integer, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("tag", "job_seq", name="pk_job_tags"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_job_tags_job_seq", "job_tags", ["job_seq"])
    op.add_column("users", sa.Column("extension_json", sa.Text))
    op.add_column("groups", sa.Column("extension_json", sa.Text))
    fill_role_counts_and_tags()


# A job with one task has one role: most jobs are not even read.
_SELECT_JOBS = sa.text(
    "SELECT j.seq, j.tags_json, s.spec_json FROM jobs j JOIN job_specs s ON s.job_seq = j.seq"
    " WHERE j.seq > :after AND (j.task_count > 1 OR j.tags_json IS NOT NULL) ORDER BY j.seq LIMIT :batch"
)
_UPDATE_ROLE_COUNT = sa.text("UPDATE jobs SET role_count = :count WHERE seq = :seq")
_INSERT_TAG = sa.text("INSERT INTO job_tags (tag, job_seq) VALUES (:tag, :seq) ON CONFLICT (tag, job_seq) DO NOTHING")


def fill_role_counts_and_tags() -> None:
    """Read here and not by the database: PostgreSQL refuses whole texts for one character it does not like."""
    conn = op.get_bind()
    for rows in iter_job_batches(conn):
        counts = [{"seq": row.seq, "count": len(json.loads(row.spec_json)["roles"])} for row in rows]
        several = [values for values in counts if values["count"] != 1]
        tags = [
            {"seq": row.seq, "tag": tag.replace("\0", "\ufffd").encode("utf-8", "replace").decode()}
            for row in rows
            for tag in json.loads(row.tags_json or "[]")
        ]
        if several:
            conn.execute(_UPDATE_ROLE_COUNT, several)
        if tags:
            conn.execute(_INSERT_TAG, tags)


def iter_job_batches(conn: sa.Connection) -> Iterator[list[sa.Row[Any]]]:
    after = 0
    while rows := list(conn.execute(_SELECT_JOBS, {"after": after, "batch": BATCH_SIZE})):
        yield rows
        after = rows[-1].seq
