"""Holds as options and queries give them, and in files of OpenPAI's dialects."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import Hold, HoldScope
from holdfast.jobspec import parse_job, render_openpai_yaml
from holdfast.jobspec.holds import NO_HOLD, format_hold, parse_hold

WEEK = timedelta(days=7)
V1 = '{{"jobName": "a", "image": "i", "taskRoles": [{{"name": "t", "command": "c"}}]{more}}}'
V2 = """\
protocolVersion: 2
name: a
type: job
prerequisites: [{{name: i, type: dockerimage, uri: i}}]
taskRoles: {{t: {{dockerImage: i, resourcePerInstance: {{cpu: 1, memoryMB: 100, gpu: 0}}, commands: [c]}}}}
extras: {extras}
"""


@pytest.mark.parametrize(
    ("word", "hold"),
    [
        ("true", Hold()),
        ("On", Hold()),
        ("7d", Hold(duration=WEEK)),
        ("604800", Hold(duration=WEEK)),
        ("1h30m", Hold(duration=timedelta(minutes=90))),
        ("all", Hold()),
        ("all:7d", Hold(duration=WEEK)),
        ("files", Hold(keep=HoldScope.FILES)),
        (" files:7d ", Hold(duration=WEEK, keep=HoldScope.FILES)),
        ("false", NO_HOLD),
        ("off", NO_HOLD),
        ("0", NO_HOLD),
        ("files:0s", NO_HOLD),
    ],
)
def test_a_hold_in_a_word(word: str, hold: Hold) -> None:
    assert parse_hold(word) == hold
    assert parse_hold(format_hold(hold)) == hold


@pytest.mark.parametrize(
    "word", ["", "files:", "some", "some:7d", "nothing", "-1", "7d:files", "40000d", "٣", "7d" * 999]
)
def test_what_is_no_hold(word: str) -> None:
    with pytest.raises(UserError, match="is not a valid hold") as caught:
        parse_hold(word)
    assert caught.value.field == "hold"
    assert len(str(caught.value)) < 200


def test_keeping_nothing_is_said_by_false_alone() -> None:
    with pytest.raises(InvalidJob, match="must be all or files"):
        parse_job("name: a\ncommand: b\nhold: {keep: nothing}\n")


@pytest.mark.parametrize(
    ("more", "hold"),
    [
        ("", None),
        (', "jobEnvs": {"isDebug": true}', Hold()),
        (', "jobEnvs": {"isDebug": "true"}', None),
        (', "jobEnvs": {"isDebug": 1}', None),
        (', "jobEnvs": {"isDebug": false}', None),  # what OpenPAI's page sent for every job
        (', "jobEnvs": {"isDebug": true}, "extras": {"holdfast": {"hold": {"for": "1d"}}}', Hold(duration=WEEK / 7)),
        (', "jobEnvs": {"isDebug": true}, "extras": {"holdfast": {"hold": false}}', NO_HOLD),
    ],
)
def test_is_debug_of_the_first_protocol(more: str, hold: Hold | None) -> None:
    assert parse_job(V1.format(more=more)).job.hold == hold


@pytest.mark.parametrize(
    ("extras", "hold"),
    [
        ("{}", None),
        ("{holdfast: {hold: true}}", Hold()),
        ("{holdfast: {hold: false}}", NO_HOLD),
        ("{holdfast: {hold: {for: 7d, keep: files}}}", Hold(duration=WEEK, keep=HoldScope.FILES)),
    ],
)
def test_extras_of_the_second_protocol_there_and_back(extras: str, hold: Hold | None) -> None:
    job = parse_job(V2.format(extras=extras)).job
    assert job.hold == hold
    assert parse_job(render_openpai_yaml(job)).job.hold == hold
