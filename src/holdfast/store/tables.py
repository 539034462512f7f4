"""The current tables. Times are UTC microseconds since 1970, durations microseconds, structures JSON text: the same on
both databases, and exact.

A job consists of `jobs`, a narrow row that is updated and listed; `job_specs`, the submission, written once; and
`job_search`, the index for text search (a trigram table on SQLite, a trigram index on PostgreSQL).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    false,
    text,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# SQLite numbers rows automatically only if the column type is INTEGER.
Serial = BigInteger().with_variant(Integer(), "sqlite")
Micros = BigInteger
LONG_TRY_MICROS = 7 * 24 * 3600 * 1_000_000  # microseconds; part of an index
# Compared by bytes, so that ranges do not depend on the locale of the database.
ExactString = String().with_variant(String(collation="C"), "postgresql")


def _build_partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Build a partial index. `_complete_indexes` adds the condition for PostgreSQL: passing it here would load its
    dialect on SQLite too, and slow down the start."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), info={"where": where})


@event.listens_for(metadata, "before_create")
def _complete_indexes(target: MetaData, connection: Connection, **_: Any) -> None:
    if connection.dialect.name != "postgresql":
        return
    for index in (index for table in target.tables.values() for index in table.indexes if "where" in index.info):
        index.dialect_kwargs["postgresql_where"] = text(index.info["where"])


meta = Table("meta", metadata, Column("key", String, primary_key=True), Column("value", String, nullable=False))

jobs = Table(
    "jobs",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("id", ExactString, nullable=False),
    Column("name", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("submitted_at", Micros, nullable=False),
    Column("started_at", Micros),
    Column("attempt_started_at", Micros),
    Column("finished_at", Micros),
    Column("exit_code", Integer),
    Column("exit_kind", String),
    Column("exit_json", Text),
    Column("attempt", Integer, nullable=False),
    Column("task_count", Integer, nullable=False),
    Column("cpu", Double, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("gpu", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("dialect", String, nullable=False),
    Column("tags_json", Text),
    Column("rerun_of", String),
    Column("idempotency_key", String),
    Column("stop_json", Text),
    Column("outcome_json", Text),
    Column("user_retries", Integer, nullable=False),
    Column("platform_retries", Integer, nullable=False),
    Column("retry_at", Micros),
    Column("version", Integer, nullable=False),
    Column("search", ExactString, nullable=False),  # folded name and id, for text search
    Column("role_count", Integer, nullable=False, server_default=text("1")),
    Column("exit_cause", String),
    Column("schedule_id", ExactString),  # of the schedule that submitted it
    Index("uq_jobs_id", "id", unique=True),
    _build_partial_index(
        "uq_jobs_idempotency_key", "user_name", "idempotency_key", unique=True, where="idempotency_key IS NOT NULL"
    ),
    Index("ix_jobs_name", "name", "seq"),
    # One for each filter, each ending in the paging key: the list is a merge of ranges of one of these.
    Index("ix_jobs_state", "state", "seq"),
    Index("ix_jobs_group", "group_name", "seq"),
    Index("ix_jobs_group_state", "group_name", "state", "seq"),
    Index("ix_jobs_user", "user_name", "seq"),
    Index("ix_jobs_user_state", "user_name", "state", "seq"),
    Index("ix_jobs_user_group_state", "user_name", "group_name", "state", "seq"),
    Index("ix_jobs_user_job", "user_name", "name", "seq"),  # jobs by user and name, newest last
    _build_partial_index("ix_jobs_schedule", "schedule_id", "seq", where="schedule_id IS NOT NULL"),
    # Schedules with jobs that are not final.
    _build_partial_index(
        "ix_jobs_schedule_open", "schedule_id", where="schedule_id IS NOT NULL AND finished_at IS NULL"
    ),
)

job_specs = Table(
    "job_specs",
    metadata,
    Column("job_seq", Serial, primary_key=True, autoincrement=False),
    Column("spec_json", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("secrets", LargeBinary),  # sealed by the vault
)

# Jobs submitted in each hour: maps a time range to a range of the paging key, even after clock jumps.
job_hours = Table(
    "job_hours",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),  # hours since 1970
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
)

task_attempts = Table(
    "task_attempts",
    metadata,
    Column("job_seq", Serial, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("role", ExactString, primary_key=True),
    Column("task_index", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", String, nullable=False),
    Column("node", String),
    Column("gpus_json", Text),
    Column("ports_json", Text),
    Column("placed_at", Micros),
    Column("started_at", Micros),
    Column("finished_at", Micros),
    Column("exit_json", Text),
    Column("stop_json", Text),
    Column("user_retries", Integer, nullable=False),
    Column("platform_retries", Integer, nullable=False),
    Column("retry_at", Micros),
    # Set on all attempts of a job when it ends: start of the retention time. 0: expired by a later try.
    Column("job_finished_at", Micros),
    Column("logs_removed_at", Micros),
    Column("hold_json", Text),  # of the current or last hold
    Column("engine", String),  # NULL: not placed, or by a release with one engine
    Column("host", String),  # empty or NULL: the node itself
    _build_partial_index(
        "ix_task_attempts_logs_due", "job_finished_at", where="job_finished_at IS NOT NULL AND logs_removed_at IS NULL"
    ),
    # Tries in a time range: those that started in it or shortly before, and the few long ones.
    _build_partial_index("ix_task_attempts_started", "started_at", where="started_at IS NOT NULL"),
    _build_partial_index("ix_task_attempts_long", "finished_at", where=f"finished_at - started_at > {LONG_TRY_MICROS}"),
    sqlite_with_rowid=False,
)

# Ended attempts of jobs. The newest attempt is in the row of the job.
job_attempts = Table(
    "job_attempts",
    metadata,
    Column("job_seq", Serial, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("started_at", Micros),
    Column("finished_at", Micros, nullable=False),
    Column("outcome_json", Text, nullable=False),
    Column("counted", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

# The inverse of `jobs.tags_json`: the jobs that have a tag.
job_tags = Table(
    "job_tags",
    metadata,
    Column("tag", ExactString, primary_key=True),
    Column("job_seq", Serial, primary_key=True, autoincrement=False),
    Index("ix_job_tags_job_seq", "job_seq"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("job_seq", BigInteger, nullable=False),
    Column("at", Micros, nullable=False),
    Column("kind", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("actor", String, nullable=False),
    Column("task", String),
    Column("attempt", Integer),
    Column("state", String),
    Index("ix_events_job_seq_seq", "job_seq", "seq"),
)

users = Table(
    "users",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("admin", Boolean, nullable=False),
    Column("email", String, nullable=False),
    Column("password_hash", String),  # None: cannot log in by password
    Column("created_at", Micros, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("extension_json", Text),  # data of API clients
    Column("preferences_json", Text),  # language and theme of the portal, and the default group
)

groups = Table(
    "groups",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("description", Text, nullable=False),
    Column("quota_cpu", Double),
    Column("quota_memory", BigInteger),
    Column("quota_gpu", Integer),
    Column("user_quota_cpu", Double),
    Column("user_quota_memory", BigInteger),
    Column("user_quota_gpu", Integer),
    Column("time_limit", Micros),
    Column("extension_json", Text),  # data of API clients
    Column("display_name", Text, nullable=False, server_default=text("''")),
    Column("shared_volume", Boolean, nullable=False, server_default=false()),
    Column("volume_capacity", Integer),
    Column("launch_only", Boolean, nullable=False, server_default=true()),
    Column("home_symlink", Boolean, nullable=False, server_default=true()),
    Column("mlflow", LargeBinary),  # sealed: it may contain passwords
    Column("hold_json", Text),  # default hold policy of its jobs
    Column("engine", String),
    Column("slurm_json", Text),  # options of its jobs for Slurm
)

memberships = Table(
    "memberships",
    metadata,
    Column("user_name", ExactString, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("group_name", ExactString, ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
    Column("admin", Boolean, nullable=False),
    Index("ix_memberships_group_name", "group_name"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", ExactString, primary_key=True),
    Column("user_name", ExactString, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("name", String, nullable=False),
    Column("secret_hash", String, nullable=False),
    Column("created_at", Micros, nullable=False),
    Column("expires_at", Micros),
    Column("last_used_at", Micros),
    CheckConstraint("length(secret_hash) = 64", name="secret_hash"),  # a SHA-256, never the secret
    Index("ix_tokens_user_name", "user_name"),
)

datasets = Table(
    "datasets",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("path", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("everyone", Boolean, nullable=False),
    Column("per_user", Boolean, nullable=False),
    Column("is_default", Boolean, nullable=False),
    Column("kind", String, nullable=False),
    Column("data_json", Text, nullable=False),
    Column("display_name", Text, nullable=False, server_default=text("''")),
    Column("variables", LargeBinary),  # of the kind env, sealed: they may contain passwords
)

dataset_groups = Table(
    "dataset_groups",
    metadata,
    Column("dataset_name", ExactString, ForeignKey("datasets.name", ondelete="CASCADE"), primary_key=True),
    Column("group_name", ExactString, ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
    Column("writable", Boolean, nullable=False, server_default=false()),
    Index("ix_dataset_groups_group_name", "group_name"),
)

instance_types = Table(
    "instance_types",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("cpu", Double, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("gpu", Integer, nullable=False),
    Column("cpu_request", Double),
    Column("memory_request", BigInteger),
    Column("gpu_resource", String, nullable=False),
    Column("tolerations_json", Text, nullable=False),
    Column("node_selector_json", Text, nullable=False),
    Column("everyone", Boolean, nullable=False),
    Column("brought", Boolean, nullable=False),
    Column("slurm_json", Text),  # options for Slurm
)

instance_type_groups = Table(
    "instance_type_groups",
    metadata,
    Column("instance_type_name", ExactString, ForeignKey("instance_types.name", ondelete="CASCADE"), primary_key=True),
    Column("group_name", ExactString, ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
    Index("ix_instance_type_groups_group_name", "group_name"),
)

image_aliases = Table(
    "image_aliases",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("kind", String, nullable=False),
    Column("url", Text, nullable=False),
    Column("gpu_url", Text, nullable=False),
    Column("pull_secret", ExactString),
    Column("owner", ExactString, ForeignKey("groups.name", ondelete="CASCADE")),
    Column("everyone", Boolean, nullable=False),
)

image_alias_groups = Table(
    "image_alias_groups",
    metadata,
    Column("image_alias_name", ExactString, ForeignKey("image_aliases.name", ondelete="CASCADE"), primary_key=True),
    Column("group_name", ExactString, ForeignKey("groups.name", ondelete="CASCADE"), primary_key=True),
    Index("ix_image_alias_groups_group_name", "group_name"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", ExactString, primary_key=True),
    Column("display_name", Text, nullable=False),
    Column("kind", String, nullable=False),
    Column("registry_host", String, nullable=False),
    Column("username", String, nullable=False),
    Column("value", LargeBinary),  # sealed; None: not set yet
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", ExactString, primary_key=True),
    Column("name", Text, nullable=False),
    Column("user_name", ExactString, nullable=False),
    Column("group_name", ExactString, nullable=False),
    Column("spec_json", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("secrets", LargeBinary),  # of the job, sealed
    Column("kind", String, nullable=False),
    Column("cron", Text),
    Column("timezone", String, nullable=False),
    Column("overlap", String, nullable=False),
    Column("missed", String, nullable=False),
    Column("ends_at", Micros),
    Column("paused", Boolean, nullable=False),
    Column("invalid", String),  # why it cannot run
    Column("message", Text, nullable=False),
    Column("next_run_at", Micros),
    Column("queued_at", Micros),
    Column("last_run_at", Micros),
    Column("created_at", Micros, nullable=False),
    Column("updated_at", Micros, nullable=False),
    Column("version", Integer, nullable=False),
    _build_partial_index("ix_schedules_next_run_at", "next_run_at", where="next_run_at IS NOT NULL"),
    _build_partial_index("ix_schedules_queued_at", "queued_at", where="queued_at IS NOT NULL"),
    Index("ix_schedules_group", "group_name", "updated_at"),
    Index("ix_schedules_user", "user_name"),
)

# Runs of schedules, by due time or started by a user.
schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("schedule_id", ExactString, ForeignKey("schedules.id", ondelete="CASCADE"), nullable=False),
    Column("due_at", Micros, nullable=False),
    Column("at", Micros, nullable=False),
    Column("result", String, nullable=False),
    Column("job_id", ExactString),
    Column("message", Text, nullable=False),
    Column("actor", String, nullable=False),
    Index("ix_schedule_runs_schedule", "schedule_id", "seq"),
)

# Audit entries; never altered, deleted after a time.
audit = Table(
    "audit",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("at", Micros, nullable=False),
    Column("actor", ExactString, nullable=False),
    Column("kind", String, nullable=False),
    Column("act", String, nullable=False),
    Column("subject", ExactString, nullable=False),
    Column("address", String, nullable=False),
    Column("detail_json", Text),
    Index("ix_audit_at", "at"),
    Index("ix_audit_actor", "actor", "seq"),
    Index("ix_audit_kind", "kind", "seq"),
    Index("ix_audit_subject", "subject", "seq"),
)

# Insights of ended jobs, kept forever because logs and metrics are not.
job_insights = Table(
    "job_insights",
    metadata,
    Column("job_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("diagnosis_json", Text),
    Column("efficiency_json", Text),
    Column("findings_json", Text),
)

# Notification recipients of users. An address can be a credential, so it is sealed.
notification_recipients = Table(
    "notice_recipients",
    metadata,
    Column("id", ExactString, primary_key=True),
    Column("user_name", ExactString, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("way", String, nullable=False),
    Column("address_sealed", LargeBinary, nullable=False),
    Column("events_json", Text, nullable=False),
    Column("created_at", Micros, nullable=False),
    Index("ix_notice_recipients_user_name", "user_name"),
)

# Jobs that request notifications: few, so this avoids reading every job.
notifying_jobs = Table("notice_jobs", metadata, Column("job_seq", BigInteger, primary_key=True, autoincrement=False))

# Notifications and the results of their delivery; deleted after a time.
notifications = Table(
    "notices",
    metadata,
    Column("seq", Serial, primary_key=True),
    Column("id", ExactString, nullable=False),
    Column("user_name", ExactString, nullable=False),
    Column("way", String, nullable=False),
    Column("lane", ExactString, nullable=False),  # notifications of one lane are sent one after another
    Column("address_sealed", LargeBinary, nullable=False),
    Column("event", String, nullable=False),
    Column("happening", ExactString, nullable=False),  # the same in all notifications of one event
    Column("job_id", ExactString),
    Column("subject", Text, nullable=False),
    Column("body_json", Text, nullable=False),
    Column("created_at", Micros, nullable=False),
    Column("state", String, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_at", Micros),
    Column("ended_at", Micros),
    Column("error", Text, nullable=False),
    Index("uq_notices_id", "id", unique=True),
    Index("ix_notices_user_name", "user_name", "seq"),
    Index("ix_notices_recent", "user_name", "created_at"),
    Index("ix_notices_created_at", "created_at"),
    _build_partial_index("ix_notices_due", "next_at", where="next_at IS NOT NULL"),
    _build_partial_index("ix_notices_sending", "seq", where="state = 'sending'"),
)
