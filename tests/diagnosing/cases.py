"""Jobs that failed, made up of what a test says of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.core.exits.exit import Exit, classify_exit
from holdfast.core.job import GIB, Job, JobFormat, Resources, Role
from holdfast.core.verdicts import Diagnosis
from holdfast.diagnosis.case import JobDiagnosisInput, LogExcerpt, TaskDiagnosisInput
from holdfast.diagnosis.job_diagnosis import diagnose_job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROLE = Role(name="main", commands=("python train.py",), instances=4, resources=Resources(memory=2 * GIB))


def ended(
    log: str = "",
    code: int = 1,
    *,
    index: int = 0,
    second: float = 60,
    exit: Exit | None = None,
    stopped: bool = False,
    peak: int | None = None,
    role: Role = ROLE,
) -> TaskDiagnosisInput:
    return TaskDiagnosisInput(
        task=f"{role.name}-{index}",
        role=role,
        exit=exit or classify_exit(code),
        started_at=NOW,
        ended_at=NOW + timedelta(seconds=second),
        stopped=stopped,
        log=(LogExcerpt(0, log.encode()),),
        memory_peak=peak,
        memory_limit=role.resources.memory,
    )


def case_of(
    *tasks: TaskDiagnosisInput, dialect: JobFormat = JobFormat.HOLDFAST, exit: Exit | None = None
) -> JobDiagnosisInput:
    failed = [task for task in tasks if not task.stopped]
    return JobDiagnosisInput(
        job=Job(name="a", roles=(tasks[0].role if tasks else ROLE,), dialect=dialect),
        attempt=0,
        exit=exit or (failed[0].exit if failed else None),
        tasks=tasks,
        failed=len(failed),
        time_limit=timedelta(hours=1),
    )


def verdict(*tasks: TaskDiagnosisInput, dialect: JobFormat = JobFormat.HOLDFAST) -> Diagnosis:
    found = diagnose_job(case_of(*tasks, dialect=dialect))
    assert found is not None
    return found


def of_log(log: str, code: int = 1) -> Diagnosis:
    return verdict(ended(log, code))
