"""Insights of finished jobs, and their failed tasks in order of failure."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, text

from holdfast.core.messages import map_nested_texts, pack_message, unpack_message
from holdfast.core.records import TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding, Insight

from ..rows import make_storable
from ..statements import build_upsert
from ..tables import job_insights
from .history import task_record_from_row

T = TypeVar("T")

_DIAGNOSIS_ADAPTER = TypeAdapter(Diagnosis | None)
_EFFICIENCY_ADAPTER = TypeAdapter(Efficiency | None)
_FINDINGS_ADAPTER = TypeAdapter(tuple[Finding, ...])

_UPSERT_INSIGHT = build_upsert(job_insights)
_SELECT_INSIGHT = text("SELECT * FROM job_insights WHERE job_seq = :job_seq")
_SELECT_DIAGNOSES = text("SELECT job_seq, diagnosis_json FROM job_insights WHERE job_seq IN :seqs").bindparams(
    bindparam("seqs", expanding=True)
)
_SELECT_ENDED_TASKS = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = :job_seq AND t.attempt = :attempt AND t.state IN :states"
    " AND t.exit_json IS NOT NULL AND NOT EXISTS (SELECT 1 FROM task_attempts n WHERE n.job_seq = t.job_seq"
    " AND n.attempt = t.attempt AND n.role = t.role AND n.task_index = t.task_index AND n.number > t.number)"
    " ORDER BY coalesce(t.finished_at, t.started_at), t.role, t.task_index LIMIT :limit"
).bindparams(bindparam("states", expanding=True))


def save_insight(conn: Connection, job_seq: int, attempt: int, insight: Insight) -> None:
    """Save an insight, replacing an earlier one."""
    values = {
        "job_seq": job_seq,
        "attempt": attempt,
        "diagnosis_json": _dump_json(_DIAGNOSIS_ADAPTER, insight.diagnosis),
        "efficiency_json": _dump_json(_EFFICIENCY_ADAPTER, insight.efficiency),
        "findings_json": _dump_json(_FINDINGS_ADAPTER, insight.findings),
    }
    conn.execute(_UPSERT_INSIGHT, values)


def find_insight(conn: Connection, job_seq: int) -> Insight | None:
    """Return the insight of a job, or None. ValueError if it cannot be read."""
    row = conn.execute(_SELECT_INSIGHT, {"job_seq": job_seq}).one_or_none()
    if row is None:
        return None
    return Insight(
        diagnosis=_load_json(_DIAGNOSIS_ADAPTER, row.diagnosis_json),
        findings=_load_json(_FINDINGS_ADAPTER, row.findings_json) or (),
        efficiency=_load_json(_EFFICIENCY_ADAPTER, row.efficiency_json),
    )


def load_diagnoses(conn: Connection, job_seqs: list[int]) -> dict[int, Diagnosis]:
    """Map each job that has a readable diagnosis to it."""
    if not job_seqs:
        return {}
    found: dict[int, Diagnosis] = {}
    for row in conn.execute(_SELECT_DIAGNOSES, {"seqs": job_seqs}):
        with suppress(ValueError):  # damaged, or written by another version
            diagnosis = _load_json(_DIAGNOSIS_ADAPTER, row.diagnosis_json)
            if diagnosis is not None:
                found[row.job_seq] = diagnosis
    return found


def list_ended_tasks(
    conn: Connection, job_id: str, job_seq: int, attempt: int, states: tuple[TaskState, ...], limit: int
) -> list[TaskRecord]:
    """Return the newest try of each task of one attempt that ended in these states, earliest end first."""
    key = {"job_seq": job_seq, "attempt": attempt, "states": [state.value for state in states], "limit": limit}
    return [task_record_from_row(job_id, row) for row in conn.execute(_SELECT_ENDED_TASKS, key)]


def _dump_json(adapter: TypeAdapter[Any], value: Any) -> str | None:
    return make_storable(adapter.dump_json(map_nested_texts(value, pack_message)).decode()) if value else None


def _load_json(adapter: TypeAdapter[T], text: str | None) -> T | None:
    return map_nested_texts(adapter.validate_json(text), unpack_message) if text else None
