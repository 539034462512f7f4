"""Tags of jobs. The row of a job has them in order, for display; `job_tags` maps tags to jobs, for search. Both are
written here, together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from holdfast.core.errors import JobNotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import NewEvent

from ..rows import make_storable, to_json
from .events import insert_events
from .rows import event_to_row

MAX_TAGS = 100  # of one job

_SELECT_TAGS = text("SELECT seq, tags_json FROM jobs WHERE id = :id")
_UPDATE_TAGS = text("UPDATE jobs SET tags_json = :tags_json WHERE seq = :seq")
_INSERT_TAG = text("INSERT INTO job_tags (tag, job_seq) VALUES (:tag, :seq) ON CONFLICT (tag, job_seq) DO NOTHING")
_DELETE_TAG = text("DELETE FROM job_tags WHERE tag = :tag AND job_seq = :seq")


def insert_tags(conn: Connection, job_seq: int, tags: Sequence[str]) -> None:
    """Insert the tags of a new job."""
    conn.execute(_INSERT_TAG, [{"tag": make_storable(tag), "seq": job_seq} for tag in tags])


def add_tag(conn: Connection, job_id: str, tag: str, *, event: NewEvent) -> bool:
    """Add a tag and its event; return False if the job already has the tag."""
    row, tags = _load_tags(conn, job_id)
    if tag in tags:
        return False
    if len(tags) >= MAX_TAGS:
        raise UserError(
            msg("A job can have at most {max_tags} tags", max_tags=MAX_TAGS), hint=msg("Remove a tag first.")
        )
    insert_tags(conn, row.seq, [tag])
    _update_tags(conn, row.seq, [*tags, tag], event)
    return True


def remove_tag(conn: Connection, job_id: str, tag: str, *, event: NewEvent) -> bool:
    """Remove a tag and record the event; return False if the job does not have the tag."""
    row, tags = _load_tags(conn, job_id)
    if tag not in tags:
        return False
    conn.execute(_DELETE_TAG, {"tag": make_storable(tag), "seq": row.seq})
    _update_tags(conn, row.seq, [each for each in tags if each != tag], event)
    return True


def _load_tags(conn: Connection, job_id: str) -> tuple[Row[Any], list[str]]:
    row = conn.execute(_SELECT_TAGS, {"id": make_storable(job_id)}).one_or_none()
    if row is None:
        raise JobNotFound(msg("Job {job_id} not found", job_id=job_id))
    return row, json.loads(row.tags_json) if row.tags_json else []


def _update_tags(conn: Connection, seq: int, tags: Sequence[str], event: NewEvent) -> None:
    conn.execute(_UPDATE_TAGS, {"seq": seq, "tags_json": to_json(tags) if tags else None})
    insert_events(conn, [event_to_row(seq, event)])
