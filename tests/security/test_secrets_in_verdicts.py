"""A secret that a program prints when it fails stays in its log: it gets into nothing that is kept or sent on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Connection, select

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.codec import MASK
from holdfast.core.records import Dataset, JobSummary
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault, Insight
from holdfast.engines.base import LaunchSpec, LogStream
from holdfast.services.why.diagnoses import HEAD_SIZE, TAIL_SIZE
from holdfast.store.jobs import insights as insight_rows
from holdfast.store.jobs import records as job_rows
from holdfast.store.tables import metadata
from tests.server.openpai.job_files import job as openpai_job
from tests.server.openpai.job_files import role
from tests.server.openpai.pai import Pai, open_pai
from tests.server.rig import open_rig
from tests.services.house import TIMEOUT, House, open_house

pytestmark = pytest.mark.anyio

VALUE = 's3cr3t/+"päss word'
FORMS = {
    "plain": VALUE,
    "json": json.dumps(VALUE),
    "repr": repr(VALUE),
    "url": quote(VALUE, safe=""),
    "base64": base64.b64encode(VALUE.encode()).decode(),
}


def shows_value(text: str) -> bool:
    return "s3cr3t" in text or FORMS["base64"][:12] in text


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home") as opened:
        yield opened


async def fail_with(house: House, log: bytes, *, secrets: str | None = None) -> JobSummary:
    """A job of alice's whose program writes this and fails."""
    alice = await house.user("alice", "red")
    secrets = secrets if secrets is not None else f"secrets: {json.dumps({'TOKEN': VALUE})}\n"
    job = await house.submit(f"name: leaky\ngroup: red\n{secrets}command: sleep 1000\n", alice)
    attempt = f"{job.id}.0.main-0.0"
    async with asyncio.timeout(TIMEOUT):
        while house.engine.open_log(attempt, LogStream.MERGED) is None:
            await house.controller.wait_for_change(job.id, 1.0)
    house.engine.write_log(attempt, log)
    house.engine.finish_task(attempt, 1)
    return await house.until(job.id)


def traceback(message: str) -> bytes:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/work/train.py", line 3, in <module>\n    login("{message}")\n'
        f"ValueError: cannot log in with {message}\n"
    ).encode()


async def everything_kept(house: House) -> str:
    """Every row of every table, as text."""

    def dump(conn: Connection) -> str:
        return "\n".join(str(row) for table in metadata.tables.values() for row in conn.execute(select(table)))

    return await house.store.read(dump)


@pytest.mark.parametrize("form", FORMS)
async def test_a_verdict_does_not_show_it(house: House, form: str) -> None:
    job = await fail_with(house, traceback(FORMS[form]))
    record = await house.store.read(job_rows.load_job_detail, job.id)
    insight = await house.services.insights.load_insight(record)
    assert insight.diagnosis is not None
    assert insight.diagnosis.fault is Fault.PYTHON_EXCEPTION
    assert MASK in insight.diagnosis.title
    kept = await everything_kept(house)
    assert "ValueError: cannot log in with" in kept
    assert not shows_value(str(insight))
    assert not shows_value(kept)


async def test_not_even_a_part_of_it_where_a_title_is_cut_short(house: House) -> None:
    long = "k" + "0123456789abcdef" * 200
    secrets = f"secrets: {{KEY: {long}}}\n"
    job = await fail_with(house, traceback("x" * 60 + long), secrets=secrets)
    insight = await house.services.insights.load_insight(await house.store.read(job_rows.load_job_detail, job.id))
    assert "0123456789abcdef" not in str(insight)


async def test_nor_where_the_part_of_a_log_that_is_read_begins_within_it(house: House) -> None:
    key = "abcdefghijklmnopqrstuvwxyz" * 4
    end = traceback("nothing")
    filler = b"." * (HEAD_SIZE + TAIL_SIZE)
    log = filler + key.encode() + b"." * (TAIL_SIZE - len(end) - len(key) // 2) + end
    job = await fail_with(house, log, secrets=f"secrets: {{KEY: {key}}}\n")
    insight = await house.services.insights.load_insight(await house.store.read(job_rows.load_job_detail, job.id))
    assert "mnopqrst" not in str(insight)


async def test_a_token_of_the_platform_is_hidden_whoever_it_belongs_to(house: House) -> None:
    made = await house.services.tokens.create(house.admin, name="x")
    job = await fail_with(house, traceback(made.text), secrets="")
    insight = await house.services.insights.load_insight(await house.store.read(job_rows.load_job_detail, job.id))
    assert insight.diagnosis is not None
    assert made.text not in str(insight)
    assert made.text.split("_", 2)[2][:12] not in str(insight)


async def test_variables_that_admins_give_are_hidden(house: House) -> None:
    dataset = Dataset(name="cloud", kind="env", path="", everyone=True)
    variables = {"password": "correct-horse", "region": "eu-1"}
    await house.services.datasets.create(house.admin, dataset, variables=variables)
    job = await fail_with(house, traceback("correct-horse in eu-1"), secrets="datasets: [cloud]\n")
    insight = await house.services.insights.load_insight(await house.store.read(job_rows.load_job_detail, job.id))
    assert insight.diagnosis is not None
    assert insight.diagnosis.title.endswith(f"{MASK} in eu-1")


async def test_short_values_are_left_alone(house: House) -> None:
    job = await fail_with(house, traceback("abc"), secrets="secrets: {A: abc}\n")
    insight = await house.services.insights.load_insight(await house.store.read(job_rows.load_job_detail, job.id))
    assert insight.diagnosis is not None
    assert "cannot log in with abc" in insight.diagnosis.title


async def test_a_notification_does_not_carry_it(house: House) -> None:
    await house.services.notifications.creator.initialize()
    job = await fail_with(house, traceback(VALUE), secrets=_asking_to_be_told())
    assert await house.services.notifications.creator.create_notifications() == 1
    kept = await everything_kept(house)
    assert "leaky failed" in kept
    assert not shows_value(kept)
    assert job.id in kept


def _asking_to_be_told() -> str:
    secrets = json.dumps({"TOKEN": VALUE})
    return f"secrets: {secrets}\nnotify: {{on: [failed], webhook: 'https://example.com/hook'}}\n"


async def test_a_verdict_of_an_earlier_version_is_hidden_when_it_is_shown(house: House) -> None:
    job = await fail_with(house, b"nothing\n")
    old = Diagnosis(
        fault=Fault.PYTHON_EXCEPTION,
        title=f"ValueError: {VALUE}",
        explanation="",
        confidence=Confidence.CERTAIN,
        evidence=(Evidence(kind=EvidenceKind.LOG, text=f"ValueError: {VALUE}"),),
    )
    await house.store.write(insight_rows.save_insight, job.seq, 0, Insight(diagnosis=old))
    async with open_rig(house) as rig:
        for path in (f"/jobs/{job.id}", f"/jobs/{job.id}/why"):
            shown = await rig.get(path)
            assert shown.status_code == 200
            assert MASK in shown.text
            assert not shows_value(shown.text)


async def test_events_and_exit_messages_do_not_carry_it(house: House) -> None:
    """What an engine quotes of a task, such as the first line that it wrote as an error."""
    alice = await house.user("alice", "red")
    secrets = json.dumps({"TOKEN": VALUE})

    def refuse(launch: LaunchSpec) -> Observation:
        return Observation(
            attempt_id=launch.attempt_id, seen=ObservedState.REFUSED, message=f"failed to start: {VALUE}"
        )

    house.engine.refuse = refuse
    job = await house.submit(f"name: leaky\ngroup: red\nsecrets: {secrets}\ncommand: sleep 1000\n", alice)
    await house.until(job.id)
    kept = await everything_kept(house)
    assert f"failed to start: {MASK}" in kept
    assert not shows_value(kept)


@pytest.fixture
async def pai(tmp_path: Path) -> AsyncIterator[Pai]:
    async with open_pai(tmp_path / "home") as opened:
        yield opened


async def test_openpais_error_logs_do_not_show_it(pai: Pai) -> None:
    file = openpai_job("leaky", {"worker": role("sleep 1000")}, secrets={"key": VALUE})
    sent = await pai.user.post("/v2/jobs", content=file, headers={"Content-Type": "text/yaml"})
    assert sent.status_code == 202, sent.text
    job = await pai.house.services.jobs.find_by_name(pai.alice, "alice", "leaky")
    attempt = f"{job.id}.0.worker-0.0"
    async with asyncio.timeout(TIMEOUT):
        while pai.house.engine.open_log(attempt, LogStream.MERGED) is None:
            await pai.house.controller.wait_for_change(job.id, 1.0)
    pai.house.engine.write_log(attempt, traceback(VALUE))
    pai.house.engine.finish_task(attempt, 1)
    await pai.house.until(job.id)
    for path in ("/v2/jobs/alice~leaky", "/v1/jobs/alice~leaky"):
        shown = await pai.user.get(path)
        assert "cannot log in with ******" in shown.text
        assert not shows_value(shown.text)
