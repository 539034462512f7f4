"""What every store must keep of conclusions about jobs."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import classify_exit
from holdfast.core.job import Job, Role
from holdfast.core.states import JobState, TaskState
from holdfast.core.verdicts import (
    Confidence,
    Diagnosis,
    Efficiency,
    Evidence,
    EvidenceKind,
    Fault,
    Finding,
    FindingKind,
    Frame,
    Insight,
    ResourceUsage,
)
from holdfast.store.jobs import insights
from tests.store.open_store import NOW, Opened

USED = ResourceUsage(
    tasks=2, seconds=9.5, cpu_asked=2, cpu_used=0.5, memory_asked=1, memory_peak=None, gpu_asked=0, gpu_used=None
)
DIAGNOSIS = Diagnosis(
    fault=Fault.MISSING_MODULE,
    title="No module named 'torch'",
    explanation="ünïcode \0 and {braces}",
    confidence=Confidence.CERTAIN,
    evidence=(Evidence(kind=EvidenceKind.LOG, text="line\nline", task="main-0", offset=17),),
    remedies=("Install it.",),
    task="main-0",
    followers=("main-1",),
    frame=Frame(file="train.py", line=3, function="main", code="import torch"),
    rule="python-module",
)
WHOLE = Insight(
    diagnosis=DIAGNOSIS,
    findings=(Finding(kind=FindingKind.ONE_CORE, text="t", remedy="r", tasks=("main-0",), values={"cores": 1.0}),),
    efficiency=Efficiency(whole=USED, roles={"main": USED}, advice=("less",)),
)


class InsightsContract:
    def test_a_conclusion_is_kept_whole_and_replaced(self, opened: Opened) -> None:
        job = opened.submit("a")
        assert opened.read(insights.find_insight, job.seq) is None
        opened.write(insights.save_insight, job.seq, 0, Insight())
        assert opened.read(insights.find_insight, job.seq) == Insight()
        assert opened.read(insights.load_diagnoses, [job.seq]) == {}
        opened.write(insights.save_insight, job.seq, 1, WHOLE)
        assert opened.read(insights.find_insight, job.seq) == WHOLE
        assert opened.read(insights.load_diagnoses, [job.seq, job.seq + 1]) == {job.seq: DIAGNOSIS}
        assert opened.read(insights.load_diagnoses, []) == {}

    def test_tasks_are_found_in_the_order_of_their_ends_by_their_newest_try(self, opened: Opened) -> None:
        job = opened.submit(job=Job(name="a", roles=(Role(name="w", commands=("false",), instances=4),)))

        def ended(index: int, second: int, state: TaskState = TaskState.FAILED, number: int = 0) -> TaskAttempt:
            at = NOW + timedelta(seconds=second)
            return TaskAttempt(
                role="w", index=index, number=number, state=state, started_at=NOW, finished_at=at, exit=classify_exit(1)
            )

        opened.advance(job.id, JobState.RUNNING, ended(0, 3), ended(1, 1), ended(2, 2, TaskState.STOPPED), ended(3, 0))
        opened.advance(job.id, JobState.RUNNING, ended(3, 9, TaskState.SUCCEEDED, number=1))
        key = (job.id, job.seq, 0)
        failed = opened.read(insights.list_ended_tasks, *key, (TaskState.FAILED,), 10)
        assert [record.task.task for record in failed] == ["w-1", "w-0"]
        both = opened.read(insights.list_ended_tasks, *key, (TaskState.FAILED, TaskState.STOPPED), 2)
        assert [record.task.task for record in both] == ["w-1", "w-2"]
