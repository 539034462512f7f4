"""PrimeHub's job form: whatever its clients send, and back again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import Job, JobFormat
from holdfast.jobspec import parse_job, render_primehub_yaml, render_yaml
from tests.longer import examples

from .samples import SITE

FORM = {"displayName": "a job", "instanceType": "cpu-1", "image": "base", "command": "echo hi"}


def parse(**more: Any) -> Job:
    return parse_job(json.dumps({**FORM, **more}), dialect=JobFormat.PRIMEHUB, defaults=SITE).job


def problem(**more: Any) -> Problem:
    with pytest.raises(InvalidJob) as caught:
        parse(**more)
    (found,) = caught.value.problems
    return found


@pytest.mark.parametrize(
    "name", ["x", "Ärger & Co: 50% <b>", "日本語 🚀", "  spaced  ", "a/b\\c'\"`$(x)", "x" * 255, "~", "-"]
)
def test_a_name_is_free_text(name: str) -> None:
    assert parse(displayName=name).name == name


@pytest.mark.parametrize("name", ["", "   ", "two\nlines", "\x07", "x" * 256])
def test_what_is_no_name(name: str) -> None:
    assert problem(displayName=name).field == "displayName"


@pytest.mark.parametrize(
    ("seconds", "limit"), [(0, timedelta()), (1, timedelta(seconds=1)), (86400, timedelta(days=1))]
)
def test_the_deadline(seconds: int, limit: timedelta) -> None:
    assert parse(activeDeadlineSeconds=seconds).time_limit == limit


def test_no_deadline_leaves_it_to_the_group() -> None:
    assert parse().time_limit is None
    assert parse(activeDeadlineSeconds=None).time_limit is None


@pytest.mark.parametrize("seconds", [-1, 1.5, "3600", True, 10**18, [], {}])
def test_what_is_no_deadline(seconds: Any) -> None:
    assert problem(activeDeadlineSeconds=seconds).field == "activeDeadlineSeconds"


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({}, "default"),
        ({"groupId": "vision"}, "vision"),
        ({"groupName": "vision"}, "vision"),
        ({"groupId": "2f1c-77", "groupName": "vision"}, "vision"),
        ({"groupId": "vision", "groupName": None}, "vision"),
        ({"groupId": None, "groupName": None}, "default"),
    ],
)
def test_the_group_by_id_or_name(given: dict[str, Any], group: str) -> None:
    assert parse(**given).group == group


def test_a_job_as_the_client_shows_it_can_be_submitted_again() -> None:
    shown = {
        "id": "job-202601020304-abc123", "cancel": None, "groupId": "vision", "groupName": "vision", "schedule": None,
        "instanceType": {"id": "cpu-1", "name": "cpu-1", "displayName": "CPU 1", "cpuLimit": 1, "tolerations": []},
        "userId": "ann", "userName": "ann", "phase": "Failed", "reason": "PodFailed", "message": "Job failed",
        "createTime": "2026-01-02T03:04:05Z", "startTime": None, "finishTime": None, "logEndpoint": "http://x",
        "artifact": {"prefix": "p", "items": []}, "monitoring": None, "recurrence": "recurrence-abc123",
        "activeDeadlineSeconds": 60,
    }  # fmt: skip
    job = parse(**shown)
    assert (job.group, job.roles[0].instance_type, job.time_limit) == ("vision", "cpu-1", timedelta(minutes=1))


def test_what_the_client_shows_of_a_schedule_beside_its_times_is_harmless() -> None:
    shown = {"id": "recurrence-abc123", "invalid": False, "message": None, "nextRunTime": None, "updateTime": "x"}
    assert parse(**shown, groupId="vision").group == "vision"


def test_a_schedule_is_not_taken_for_a_job() -> None:
    found = problem(recurrence={"type": "daily", "cron": ""})
    assert (found.field, found.message) == ("recurrence", "is only supported for schedules, not for jobs")


# -- as PrimeHub kept it in its cluster

RESOURCE = """\
apiVersion: primehub.io/v1alpha1
kind: PhJob
metadata: {name: job-202601020304-abc123, namespace: hub, creationTimestamp: 2026-01-02T03:04:05Z}
spec:
  displayName: a job
  command: echo hi
  image: base
  instanceType: cpu-1
  groupId: 2f1c-77
  groupName: vision
  userId: 11-22
  userName: ann
  cancel: false
  requeueLimit: 3
  ttlSecondsAfterFinished: 604800
  activeDeadlineSeconds: 60
status: {phase: Succeeded}
"""


def test_a_resource_is_read_by_its_spec() -> None:
    job = parse_job(RESOURCE, defaults=SITE).job
    assert job == parse(groupId="2f1c-77", groupName="vision", activeDeadlineSeconds=60)
    assert parse_job(json.dumps({"kind": "PhJob", "spec": FORM}), defaults=SITE).job == parse()
    template = {"recurrence": None, "jobTemplate": {"metadata": {}, "spec": FORM}}
    for spec in (FORM, template):
        assert parse_job(json.dumps({"kind": "PhSchedule", "spec": spec}), defaults=SITE).job == parse()


def test_what_is_wrong_in_a_resource_is_found_there() -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(RESOURCE.replace("  image: base\n", "").replace("Seconds: 60", "Seconds: soon"), defaults=SITE)
    assert [(each.field, each.line) for each in caught.value.problems] == [
        ("spec.image", 4),
        ("spec.activeDeadlineSeconds", 15),
    ]


@pytest.mark.parametrize("form", [FORM, {"jobTemplate": {"spec": FORM}}])
def test_a_schedules_resource_is_not_taken_for_a_job(form: dict[str, Any]) -> None:
    whole = {"kind": "PhSchedule", "spec": {**form, "recurrence": {"type": "daily", "cron": ""}}}
    with pytest.raises(InvalidJob) as caught:
        parse_job(json.dumps(whole), defaults=SITE)
    (found,) = caught.value.problems
    assert (found.field, found.message) == ("spec.recurrence", "is only supported for schedules, not for jobs")


@pytest.mark.parametrize("whole", [{"kind": "PhJob"}, {"kind": "PhJob", "spec": []}, {"kind": {"a": 1}, "spec": FORM}])
def test_what_is_no_resource(whole: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        parse_job(json.dumps(whole), defaults=SITE)


@pytest.mark.parametrize("given", [{}, {"name": ""}, {"id": None}, []])
def test_an_instance_type_without_a_name(given: Any) -> None:
    assert problem(instanceType=given).field.startswith("instanceType")


def test_lines_from_browsers_end_as_shells_know_it() -> None:
    assert parse(command="a\r\nb\r\n").roles[0].commands == ("a\nb\n",)


# -- back again


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40)
forms = st.fixed_dictionaries(
    {
        "displayName": texts.filter(str.strip),
        "instanceType": st.sampled_from(["cpu-1", "gpu-1"]),
        "image": st.sampled_from(["base", "registry/x:1"]),
        "groupName": st.sampled_from(["default", "Team_A"]),
        "command": st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip),
    },
    optional={"activeDeadlineSeconds": st.integers(0, 10**6)},
)


@settings(max_examples=examples(80), deadline=None)
@given(forms)
def test_a_clone_is_the_same_job_again(form: dict[str, Any]) -> None:
    job = parse_job(json.dumps(form), dialect=JobFormat.PRIMEHUB, defaults=SITE).job
    again = parse_job(render_primehub_yaml(job), defaults=SITE).job
    assert again == job


@settings(max_examples=examples(40), deadline=None)
@given(forms)
def test_our_own_yaml_keeps_image_size_and_timeout(form: dict[str, Any]) -> None:
    job = parse_job(json.dumps(form), dialect=JobFormat.PRIMEHUB, defaults=SITE).job
    again = parse_job(render_yaml(job, defaults=SITE), defaults=SITE).job
    assert again == replace(job, dialect=JobFormat.HOLDFAST)


def test_a_job_stored_before_roles_kept_their_size_is_cloned_by_it() -> None:
    job = parse()
    older = replace(job, roles=(replace(job.roles[0], instance_type=""),))
    assert "instanceType: cpu-1\n" in render_primehub_yaml(older)
