"""Small jobs, made by hand or by hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from holdfast.core.attempt import JobSnapshot
from holdfast.core.job import GIB, Completion, Job, JobFormat, Resources, Role

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def role(name: str = "main", **fields: object) -> Role:
    return Role(name=name, commands=("true",), **fields)  # type: ignore[arg-type]


def job(*roles: Role, **fields: object) -> Job:
    return Job(name="sample", roles=roles or (role(),), **fields)  # type: ignore[arg-type]


def snapshot(of: Job | None = None, **fields: object) -> JobSnapshot:
    known = {"id": "job-1", "user": "ann", "submitted_at": NOON} | fields
    return JobSnapshot(job=of or job(), **known)  # type: ignore[arg-type]


counts = st.none() | st.integers(-1, 3)
resources = st.builds(
    Resources,
    cpu=st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0]),
    memory=st.sampled_from([GIB, 2 * GIB, 5 * GIB]),
    gpu=st.integers(0, 2),
)
completions = st.builds(Completion, min_failed=counts, min_succeeded=counts)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    names = draw(st.lists(st.sampled_from(["worker", "ps", "main"]), min_size=1, max_size=2, unique=True))
    roles = [
        role(
            name,
            instances=draw(st.integers(1, 3)),
            resources=draw(resources),
            completion=draw(completions),
            max_task_retries=draw(st.integers(0, 2)),
            ports=draw(st.dictionaries(st.sampled_from(["http", "ssh"]), st.integers(1, 2), max_size=2)),
        )
        for name in names
    ]
    return job(
        *roles,
        gang=draw(st.booleans()),
        max_retries=draw(st.integers(0, 3)),
        priority=draw(st.integers(-1, 1)),
        group=draw(st.sampled_from(["red", "blue"])),
        dialect=draw(st.sampled_from(JobFormat)),
    )
