"""What jobs choose from by name (sizes, images, secrets), schedules, and more to know of groups and datasets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

serial_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    extend_jobs()
    create_try_indexes()
    extend_groups_and_datasets()
    create_instance_types()
    create_image_aliases()
    create_secrets()
    create_schedules()


def extend_jobs() -> None:
    op.add_column("jobs", sa.Column("schedule_id", exact_string))
    scheduled = sa.text("schedule_id IS NOT NULL")
    op.create_index(
        "ix_jobs_schedule", "jobs", ["schedule_id", "seq"], sqlite_where=scheduled, postgresql_where=scheduled
    )
    going_on = sa.text("schedule_id IS NOT NULL AND finished_at IS NULL")
    op.create_index("ix_jobs_schedule_open", "jobs", ["schedule_id"], sqlite_where=going_on, postgresql_where=going_on)


def create_try_indexes() -> None:
    """By when they ran."""
    for name, column, which in (
        ("started", "started_at", "started_at IS NOT NULL"),
        ("long", "finished_at", "finished_at - started_at > 604800000000"),
    ):
        where = sa.text(which)
        op.create_index(
            f"ix_task_attempts_{name}", "task_attempts", [column], sqlite_where=where, postgresql_where=where
        )


def extend_groups_and_datasets() -> None:
    op.add_column("groups", sa.Column("display_name", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("groups", sa.Column("shared_volume", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("groups", sa.Column("volume_capacity", sa.Integer))
    op.add_column("groups", sa.Column("launch_only", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("groups", sa.Column("home_symlink", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("groups", sa.Column("mlflow", sa.LargeBinary))
    op.add_column("datasets", sa.Column("display_name", sa.Text, nullable=False, server_default=sa.text("''")))
    op.add_column("datasets", sa.Column("variables", sa.LargeBinary))
    op.add_column("dataset_groups", sa.Column("writable", sa.Boolean, nullable=False, server_default=sa.false()))


def create_instance_types() -> None:
    op.create_table(
        "instance_types",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("cpu", sa.Double, nullable=False),
        sa.Column("memory", sa.BigInteger, nullable=False),
        sa.Column("gpu", sa.Integer, nullable=False),
        sa.Column("cpu_request", sa.Double),
        sa.Column("memory_request", sa.BigInteger),
        sa.Column("gpu_resource", sa.String, nullable=False),
        sa.Column("tolerations_json", sa.Text, nullable=False),
        sa.Column("node_selector_json", sa.Text, nullable=False),
        sa.Column("everyone", sa.Boolean, nullable=False),
        sa.Column("brought", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_instance_types"),
    )
    create_grant_table("instance_type_groups", "instance_type_name", "instance_types")


def create_image_aliases() -> None:
    op.create_table(
        "image_aliases",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("gpu_url", sa.Text, nullable=False),
        sa.Column("pull_secret", exact_string),
        sa.Column("owner", exact_string),
        sa.Column("everyone", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_image_aliases"),
        sa.ForeignKeyConstraint(["owner"], ["groups.name"], name="fk_image_aliases_owner", ondelete="CASCADE"),
    )
    create_grant_table("image_alias_groups", "image_alias_name", "image_aliases")


def create_grant_table(table: str, column: str, of: str) -> None:
    """Which groups may use what."""
    op.create_table(
        table,
        sa.Column(column, exact_string, nullable=False),
        sa.Column("group_name", exact_string, nullable=False),
        sa.PrimaryKeyConstraint(column, "group_name", name=f"pk_{table}"),
        sa.ForeignKeyConstraint([column], [f"{of}.name"], name=f"fk_{table}_{column}", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["group_name"], ["groups.name"], name=f"fk_{table}_group_name", ondelete="CASCADE"),
    )
    op.create_index(f"ix_{table}_group_name", table, ["group_name"])


def create_secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("registry_host", sa.String, nullable=False),
        sa.Column("username", sa.String, nullable=False),
        sa.Column("value", sa.LargeBinary),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )


def create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", exact_string, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user_name", exact_string, nullable=False),
        sa.Column("group_name", exact_string, nullable=False),
        sa.Column("spec_json", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("cron", sa.Text),
        sa.Column("timezone", sa.String, nullable=False),
        sa.Column("overlap", sa.String, nullable=False),
        sa.Column("missed", sa.String, nullable=False),
        sa.Column("ends_at", sa.BigInteger),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("invalid", sa.String),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("next_run_at", sa.BigInteger),
        sa.Column("queued_at", sa.BigInteger),
        sa.Column("last_run_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
    )
    for column in ("next_run_at", "queued_at"):
        there = sa.text(f"{column} IS NOT NULL")
        op.create_index(f"ix_schedules_{column}", "schedules", [column], sqlite_where=there, postgresql_where=there)
    op.create_index("ix_schedules_group", "schedules", ["group_name", "updated_at"])
    op.create_index("ix_schedules_user", "schedules", ["user_name"])
    op.create_table(
        "schedule_runs",
        sa.Column("seq", serial_integer, nullable=False),
        sa.Column("schedule_id", exact_string, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("result", sa.String, nullable=False),
        sa.Column("job_id", exact_string),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_schedule_runs"),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedules.id"], name="fk_schedule_runs_schedule_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_schedule_runs_schedule", "schedule_runs", ["schedule_id", "seq"])
