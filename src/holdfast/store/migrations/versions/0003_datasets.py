"""Datasets and the groups they are granted to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

exact_string = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("name", exact_string, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("read_only", sa.Boolean, nullable=False),
        sa.Column("everyone", sa.Boolean, nullable=False),
        sa.Column("per_user", sa.Boolean, nullable=False),
        sa.Column("is_default", sa.Boolean, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("data_json", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_datasets"),
    )
    op.create_table(
        "dataset_groups",
        sa.Column("dataset_name", exact_string, nullable=False),
        sa.Column("group_name", exact_string, nullable=False),
        sa.PrimaryKeyConstraint("dataset_name", "group_name", name="pk_dataset_groups"),
        sa.ForeignKeyConstraint(
            ["dataset_name"], ["datasets.name"], name="fk_dataset_groups_dataset_name", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["group_name"], ["groups.name"], name="fk_dataset_groups_group_name", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_dataset_groups_group_name", "dataset_groups", ["group_name"])
