"""What the API tells of why a job waits, failed or is slow."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.verdicts import Confidence, EvidenceKind, Fault, Slowness

from .models import Given, ResourcesView, StateName


class HolderView(Given):
    job: str = Field(description="Its id; empty where one may not see it, as are name, user and group.")
    name: str
    user: str
    group: str
    has: ResourcesView = Field(description="Of that which is missing.")
    since: str | None = Field(description="It has had its place.")
    until: str | None = Field(description="It has its place at the longest, by its time limit; null: no limit.")
    held: bool = Field(description="It failed and is kept for debugging; until then, unless it is let go.")


class BlockerView(Given):
    kind: BlockerKind
    text: str
    lacks: ResourcesView | None = Field(description="How much more would have to be free.")
    holders: list[HolderView] = Field(description="Jobs that have what is missing, those with the most first.")
    more_holders: int = Field(description="How many more there are.")


class AheadView(Given):
    job: str = Field(description="Its id; empty where one may not see it, as are name, user and group.")
    name: str
    user: str
    group: str
    asks: ResourcesView


class EstimateView(Given):
    at: str | None = Field(description="When it starts at the latest; null: cannot be told.")
    basis: str = Field(description="What that rests on.")
    likely: str | None = Field(description="When it starts, going by how long such jobs took before; null: unknown.")


class WaitView(Given):
    blockers: list[BlockerView] = Field(description="Every one; none: it is about to start.")
    ahead: list[AheadView] = Field(description="The first of those that go before it in the queue.")
    ahead_count: int = Field(description="How many there are.")
    helps: list[str] = Field(description="What would let it start; each was tried against what is in use now.")
    estimate: EstimateView | None


class EvidenceView(Given):
    kind: EvidenceKind
    text: str = Field(description="Lines of a log as they stand there, or a sentence.")
    task: str | None
    offset: int | None = Field(description="Of lines of a log: bytes into the task's log.")


class FrameInCodeView(Given):
    file: str
    line: int
    function: str
    code: str = Field(description="The line itself, where it is known.")


class FailureView(Given):
    fault: Fault
    title: str
    explanation: str
    confidence: Confidence
    evidence: list[EvidenceView]
    remedies: list[str]
    task: str | None = Field(description="The one whose failure was the cause.")
    attempt: int = Field(description="Of the job, from 0.")
    followers: list[str] = Field(description="Tasks that failed because of it.")
    frame: FrameInCodeView | None = Field(description="Where in the user's own code.")
    rule: str = Field(description="What found it.")


class FindingView(Given):
    kind: Slowness
    text: str
    remedy: str
    tasks: list[str]
    figures: dict[str, float]


class UsedView(Given):
    tasks: int
    seconds: float = Field(description="That tasks ran, all together.")
    cpu_asked: float = Field(description="Cores, all together.")
    cpu_used: float | None = Field(
        description="Cores, on the average; null: was not measured, as below, or it ran for less than 10 seconds."
    )
    memory_asked: int
    memory_peak: int | None = Field(description="Bytes: each task's highest, all together.")
    gpu_asked: int
    gpu_used: float | None = Field(description="GPUs' worth of work: 2 GPUs at 50 % are 1; null as for cores.")
    gpu_memory_peak: int | None


class EfficiencyView(Given):
    whole: UsedView
    roles: dict[str, UsedView]
    advice: list[str]


class WhyView(Given):
    job: str = Field(description="Its id.")
    name: str
    state: StateName
    message: str
    verdict: Literal["waiting", "failed", "debugger", "slow", "fine"] = Field(
        description="Which of the parts below is to be read first; fine: nothing stands out."
    )
    waiting: WaitView | None = Field(description="Null when nothing of it waits.")
    failure: FailureView | None = Field(description="Null when it did not fail; with the fault unknown: nobody knows.")
    slow: list[FindingView] = Field(description="What slows it down, or that it asks for and does not use.")
    efficiency: EfficiencyView | None = Field(description="Null as long as nothing was measured.")
    debugger: str | None = Field(description="Where one waits for somebody: train.py:42 in worker-3.")
