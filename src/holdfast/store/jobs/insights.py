"""What was concluded of jobs that have ended; and which of their tasks failed, the first of them first."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, text

from holdfast.core.messages import map_texts, pack, unpack
from holdfast.core.records import TaskRecord
from holdfast.core.states import TaskState
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding, Insight

from ..rows import storable
from .history import record_of

_DIAGNOSIS = TypeAdapter(Diagnosis | None)
_EFFICIENCY = TypeAdapter(Efficiency | None)
_FINDINGS = TypeAdapter(tuple[Finding, ...])

_SAVE = text(
    "INSERT INTO job_insights (job_seq, attempt, diagnosis_json, efficiency_json, findings_json)"
    " VALUES (:job_seq, :attempt, :diagnosis, :efficiency, :findings)"
    " ON CONFLICT (job_seq) DO UPDATE SET attempt = excluded.attempt, diagnosis_json = excluded.diagnosis_json,"
    " efficiency_json = excluded.efficiency_json, findings_json = excluded.findings_json"
)
_GET = text("SELECT * FROM job_insights WHERE job_seq = :job_seq")
_MANY = text("SELECT job_seq, diagnosis_json FROM job_insights WHERE job_seq IN :seqs").bindparams(
    bindparam("seqs", expanding=True)
)
_ENDED = text(
    "SELECT t.* FROM task_attempts t WHERE t.job_seq = :job_seq AND t.attempt = :attempt AND t.state IN :states"
    " AND t.exit_json IS NOT NULL AND NOT EXISTS (SELECT 1 FROM task_attempts n WHERE n.job_seq = t.job_seq"
    " AND n.attempt = t.attempt AND n.role = t.role AND n.task_index = t.task_index AND n.number > t.number)"
    " ORDER BY coalesce(t.finished_at, t.started_at), t.role, t.task_index LIMIT :limit"
).bindparams(bindparam("states", expanding=True))


def save_insight(conn: Connection, job_seq: int, attempt: int, insight: Insight) -> None:
    """In place of what was kept before."""
    values = {
        "job_seq": job_seq,
        "attempt": attempt,
        "diagnosis": _json(_DIAGNOSIS, insight.diagnosis),
        "efficiency": _json(_EFFICIENCY, insight.efficiency),
        "findings": _json(_FINDINGS, insight.findings),
    }
    conn.execute(_SAVE, values)


def find_insight(conn: Connection, job_seq: int) -> Insight | None:
    """None when nothing is kept of that job. ValueError where it cannot be read."""
    row = conn.execute(_GET, {"job_seq": job_seq}).one_or_none()
    if row is None:
        return None
    return Insight(
        diagnosis=map_texts(_DIAGNOSIS.validate_json(row.diagnosis_json), unpack) if row.diagnosis_json else None,
        findings=map_texts(_FINDINGS.validate_json(row.findings_json), unpack) if row.findings_json else (),
        efficiency=map_texts(_EFFICIENCY.validate_json(row.efficiency_json), unpack) if row.efficiency_json else None,
    )


def find_diagnoses(conn: Connection, job_seqs: list[int]) -> dict[int, Diagnosis]:
    """Of those jobs that have one that is kept and can be read."""
    if not job_seqs:
        return {}
    found: dict[int, Diagnosis] = {}
    for row in conn.execute(_MANY, {"seqs": job_seqs}):
        with suppress(ValueError):  # damaged, or written by another version
            diagnosis = map_texts(_DIAGNOSIS.validate_json(row.diagnosis_json or "null"), unpack)
            if diagnosis is not None:
                found[row.job_seq] = diagnosis
    return found


def ended_tasks(
    conn: Connection, job_id: str, job_seq: int, attempt: int, states: tuple[TaskState, ...], limit: int
) -> list[TaskRecord]:
    """The newest try of each task of one attempt that ended so, those that ended first first."""
    key = {"job_seq": job_seq, "attempt": attempt, "states": [state.value for state in states], "limit": limit}
    return [record_of(job_id, row) for row in conn.execute(_ENDED, key)]


def _json(adapter: TypeAdapter[Any], value: Any) -> str | None:
    return storable(adapter.dump_json(map_texts(value, pack)).decode()) if value else None
