from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.api.people import CreatedToken
from holdfast.sdk import JobDetail, JobState, JobSummary, Page, UnexpectedReply
from holdfast.sdk.json_conversion import from_json, to_json

from .scripted import a_job, a_task

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # other work goes on beside it


def test_reads_every_field_it_knows() -> None:
    job = from_json(JobSummary, a_job(tags=["a", "b"], exit_code=3))
    assert (job.id, job.tags, job.exit_code, job.state) == ("job-1", ("a", "b"), 3, JobState.RUNNING)
    assert job.resources.memory == 1024
    assert job.submitted_at.isoformat() == "2026-01-31T12:00:00.500000+00:00"


def test_ignores_fields_it_does_not_know() -> None:
    assert from_json(JobSummary, a_job(colour="blue", resources={"cpu": 1, "tpu": 4})).resources.cpu == 1


def test_fills_in_what_an_older_server_leaves_out() -> None:
    minimal = {"id": "j", "name": "n", "state": "Pending", "submitted_at": "2026-01-31T12:00:00Z"}
    job = from_json(JobDetail, minimal)
    assert (job.tasks, job.retries.user, job.waiting) == ((), 0, None)


def test_a_state_of_a_newer_server_is_unknown() -> None:
    assert from_json(JobSummary, a_job(state="Dreaming")).state is JobState.UNKNOWN


def test_says_which_field_is_wrong() -> None:
    with pytest.raises(UnexpectedReply, match=r"tasks: exit: code: expected a number, found 'three'"):
        from_json(JobDetail, a_job(tasks=[a_task(exit={"kind": "user-error", "code": "three"})]))
    with pytest.raises(UnexpectedReply, match="id: expected text, found None"):
        from_json(JobSummary, a_job(id=None))


def test_reads_pages_of_something() -> None:
    page = from_json(Page[JobSummary], {"items": [a_job()], "next": "c"})
    assert (page.items[0].name, page.next) == ("train", "c")


def test_what_is_dumped_reads_the_same() -> None:
    job = from_json(
        JobDetail, a_job(tasks=[a_task(ports={"http": [8000]})], stop={"actor": "a", "at": "2026-01-01T00:00:00Z"})
    )
    assert from_json(JobDetail, to_json(job)) == job


def test_secrets_are_not_in_the_representation() -> None:
    assert "hush" not in repr(
        from_json(CreatedToken, {"id": "1", "created_at": "2026-01-31T12:00:00Z", "token": "hush"})
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@unhurried
@given(st.dictionaries(st.sampled_from([*sorted(a_job()), "tasks", "job", "stop", "waiting"]), _JSON))
def test_any_json_is_read_or_refused_in_our_words(changes: dict[str, object]) -> None:
    with suppress(UnexpectedReply):  # anything else fails the test
        assert "id" in to_json(from_json(JobDetail, a_job(**changes)))
