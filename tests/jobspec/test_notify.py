"""Notification settings in job files of every format."""

from __future__ import annotations

import json

import jsonschema
import pytest

from holdfast.core.codec import job_from_json, job_to_json
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.notifications import DEFAULT_EVENTS, Channel, NotificationEvent, NotifySpec
from holdfast.jobspec import build_job_schema, parse_job, render_openpai_yaml, render_yaml
from holdfast.jobspec.notify import add_notify, parse_notify

from .test_holds import V1, V2

E = NotificationEvent
OWN = NotifySpec(events=frozenset({E.FAILED, E.HELD}))


def job_file(notify: str, secrets: str = "") -> str:
    return f"name: a\ncommand: b\n{secrets}notify: {notify}\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("failed", (NotifySpec(events=frozenset({E.FAILED})),)),
        ("[failed, held]", (OWN,)),
        ("[]", ()),
        ("{on: [failed, held]}", (OWN,)),
        ("{mail: me}", (NotifySpec(events=DEFAULT_EVENTS, way=Channel.MAIL),)),
        (
            "[failed, {mail: b@example.org, on: started}, held]",
            (OWN, NotifySpec(events=frozenset({E.STARTED}), way=Channel.MAIL, address="b@example.org")),
        ),
        (
            "{slack: 'https://example.org/a', on: [schedule-skipped]}",
            (NotifySpec(events=frozenset({E.SCHEDULE_SKIPPED}), way=Channel.SLACK, address="https://example.org/a"),),
        ),
    ],
)
def test_what_is_written_is_read_and_written_again(written: str, read: tuple[NotifySpec, ...]) -> None:
    job = parse_job(job_file(written)).job
    assert job.notify == read
    assert parse_job(render_yaml(job)).job == job
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job
    assert parse_job(render_openpai_yaml(job)).job.notify == read


@pytest.mark.parametrize(
    ("written", "field", "said"),
    [
        ("fialed", "notify", "must be one of"),
        ("[failed, {on: nonsense}]", "notify[1].on", "must be one of"),
        ("{webhook: 'ftp://example.org/'}", "notify", "must begin with https://"),
        ("{webhook: 'https://a:b@example.org/'}", "notify", "must not contain a user name or password"),
        ("{mail: nobody}", "notify", "is not a valid email address"),
        ("{mail: me, slack: 'https://example.org/'}", "notify", "has both slack and mail"),
        ("{email: me}", "notify.email", "is not a known field"),
        ("{webhook: <% $secrets.none %>}", "notify", "is not defined in secrets"),
        (f"[{', '.join(['failed'] * 21)}]", "notify", "the limit is 20"),
        ("3", "notify", "must be a mapping"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(written: str, field: str, said: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(job_file(written))
    (problem,) = caught.value.problems
    assert problem.field == field
    assert said in problem.message


def test_an_address_that_everybody_sees_is_warned_of() -> None:
    parsed = parse_job(job_file("{webhook: 'https://example.org/secret'}"))
    assert [warning.field for warning in parsed.warnings] == ["notify"]
    secret = parse_job(job_file("{webhook: <% $secrets.hook %>}", "secrets: {hook: 'https://example.org/secret'}\n"))
    assert secret.warnings == ()
    assert "example.org" not in render_yaml(secret.job)


def test_the_schema_agrees() -> None:
    schema = build_job_schema()
    for good in ("failed", ["failed", {"mail": "me", "on": "held"}], {"on": ["failed"]}):
        jsonschema.validate({"name": "a", "command": "b", "notify": good}, schema)
    for bad in ("nonsense", {"mail": "me", "slack": "https://example.org"}, {"email": "me"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": "a", "command": "b", "notify": bad}, schema)


def test_openpai_asks_for_mails_to_the_user() -> None:
    asked = "{jobStatusChangeNotification: {running: true, retried: true, failed: false}, holdfast: {notify: failed}}"
    notify = parse_job(V2.format(extras=asked)).job.notify
    mails = NotifySpec(events=frozenset({E.STARTED, E.RETRIED}), way=Channel.MAIL)
    assert notify == (NotifySpec(events=frozenset({E.FAILED})), mails)
    v1 = V1.format(more=', "extras": {"jobStatusChangeNotification": {"stopped": true}}')
    job = parse_job(v1).job
    assert job.notify == (NotifySpec(events=frozenset({E.STOPPED}), way=Channel.MAIL),)
    assert parse_job(render_openpai_yaml(job)).job.notify == job.notify
    assert parse_job(V2.format(extras="{jobStatusChangeNotification: {running: 1}}")).job.notify == ()


def test_words_of_options() -> None:
    assert parse_notify("failed, held") == OWN
    assert add_notify((OWN,), parse_notify("started")) == (NotifySpec(events=OWN.events | {E.STARTED}),)
    with pytest.raises(UserError) as caught:
        parse_notify("failed,hold")
    assert caught.value.field == "notify"
    assert "held" in (caught.value.hint or "")
