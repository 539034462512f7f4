"""The tasks of a job, few or thousands: paged, filtered, as a file; attempts and tries; artifacts."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import classify_exit
from holdfast.core.job import Job, Role
from holdfast.core.records import NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.store.jobs import records as job_rows
from tests.server.rig import Rig

from .page_client import open_desk, text_of

pytestmark = pytest.mark.anyio

MANY = 2000
AWKWARD = "=cmd|' /C calc'!A0"


async def add_ended(rig: Rig, tasks: tuple[TaskAttempt, ...], job: Job) -> str:
    """A job that is over, as the store has it; the controller knows nothing of it."""
    at = rig.house.clock.now()
    event = NewEvent(kind="submitted", message="Submitted", at=at, actor="admin", state=JobState.PENDING)
    new = job_rows.NewJob(job=job, user="admin", source="name: x\n", submitted_at=at, event=event)
    id = (await rig.house.store.write(job_rows.insert_job, new=new)).summary.id
    snapshot = await rig.house.store.read(job_rows.load_snapshot, id)
    after = replace(snapshot, state=JobState.FAILED, message="Ended", finished_at=at, exit=classify_exit(1), version=1)
    await rig.house.store.write(
        job_rows.save_job_changes, [job_rows.JobChange(before_version=0, after=after, tasks=tasks)]
    )
    return id


def ended(role: str, index: int, code: int, node: str = "n1", **more: object) -> TaskAttempt:
    state = TaskState.SUCCEEDED if code == 0 else TaskState.FAILED
    return TaskAttempt(role=role, index=index, state=state, node=node, exit=classify_exit(code), **more)  # type: ignore[arg-type]


async def test_thousands_of_tasks_come_page_by_page(rig: Rig) -> None:
    job = Job(name="wide", roles=(Role(name="worker", commands=("true",), instances=MANY),))
    id = await add_ended(rig, tuple(ended("worker", n, 1 if n == 1234 else 0) for n in range(MANY)), job)
    async with open_desk(rig) as desk:
        overview = (await desk.get(f"/jobs/{id}")).text
        assert overview.count('<tr id="task-') == 10
        assert "All 2000 tasks" in overview
        assert "1999 Succeeded" in text_of(overview)
        page = (await desk.get(f"/jobs/{id}?section=tasks")).text
        assert page.count('<tr id="task-') == 100
        assert "1 to 100 of 2000" in page
        last = (await desk.get(f"/jobs/{id}?section=tasks&page=20")).text
        assert "worker-1999" in last
        assert 'rel="next"' not in last
        beyond = await desk.get(f"/jobs/{id}?section=tasks&page=9999999")
        assert beyond.status_code == 200
        failed = text_of((await desk.get(f"/jobs/{id}?section=tasks&state=Failed&code=1&text=1234")).text)
        assert "worker-1234" in failed
        assert "worker-1233" not in failed
        assert "No task matches" in (await desk.get(f"/jobs/{id}?section=tasks&code=7")).text
        for wrong in ("state=Nothing", "kind=x", "code=-1", "code=x", "page=0", "page=-3", "attempt=9", "text=%00"):
            assert (await desk.get(f"/jobs/{id}?section=tasks&{wrong}")).status_code == 200, wrong
        rows = list(csv.DictReader(io.StringIO((await desk.get(f"/jobs/{id}/tasks.csv")).text)))
    assert [row["task"] for row in rows] == [f"worker-{n}" for n in range(MANY)]
    assert rows[1234]["exit_code"] == "1"


async def test_the_machine_of_a_task_is_shown_instead_of_its_cluster(rig: Rig) -> None:
    job = Job(name="far", roles=(Role(name="worker", commands=("true",), instances=2),))
    tasks = (ended("worker", 0, 0, "cluster", host="rack-7"), ended("worker", 1, 0, "cluster"))
    id = await add_ended(rig, tasks, job)
    async with open_desk(rig) as desk:
        page = text_of((await desk.get(f"/jobs/{id}?section=tasks")).text)
        found = text_of((await desk.get(f"/jobs/{id}?section=tasks&text=rack")).text)
        rows = list(csv.DictReader(io.StringIO((await desk.get(f"/jobs/{id}/tasks.csv")).text)))
    assert page.count("rack-7") == page.count("cluster") == 1
    assert "worker-0" in found
    assert "worker-1" not in found
    assert [row["node"] for row in rows] == ["rack-7", "cluster"]
    shown = (await rig.get(f"/jobs/{id}")).json()["tasks"]
    assert [(task["node"], task["host"]) for task in shown] == [("cluster", "rack-7"), ("cluster", "")]


async def test_tasks_that_have_not_begun_are_shown_and_filtered(rig: Rig) -> None:
    big = await rig.house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    await rig.house.until(big.id, JobState.RUNNING)
    text = "name: wide\ninstances: 300\nresources: {cpu: 0.01, memory: 1Mi}\ncommand: sleep 9\n"
    job = await rig.house.submit(text)
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}?section=tasks&page=3")).text
        assert page.count('<tr id="task-') == 100
        assert "main-299" in page
        found = (await desk.get(f"/jobs/{job.id}?section=tasks&text=main-29&state=Waiting")).text
        assert found.count('<tr id="task-') == 11
        assert "300 Waiting" in text_of(found)


async def test_a_spreadsheet_computes_nothing(rig: Rig) -> None:
    bad = replace(classify_exit(1), message=AWKWARD)
    tasks = (
        replace(ended("=1+1", 0, 1), exit=bad, node="@sum"),
        replace(ended("ok", 0, 1, node="-1"), exit=replace(bad, message='\tx,"y"\n=2')),
    )
    job = Job(name="sly", roles=tuple(Role(name=name, commands=("true",)) for name in ("=1+1", "ok")))
    id = await add_ended(rig, tasks, job)
    async with open_desk(rig) as desk:
        answer = await desk.get(f"/jobs/{id}/tasks.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert f'filename="{id}-tasks.csv"' in answer.headers["content-disposition"]
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert len(rows) == 3
    for row in rows:
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


async def test_an_attempt_can_be_chosen(rig: Rig) -> None:
    job = await rig.house.run("name: again\nretry: {max: 2}\ncommand: |\n  echo trying\n  exit 4\n")
    assert job.attempt == 2
    async with open_desk(rig) as desk:
        newest = (await desk.get(f"/jobs/{job.id}?section=tasks")).text
        assert newest.count('<tr id="attempt-') == 3
        assert f'id="task-{job.id}.2.main-0.0"' in newest
        assert "Tasks of attempt 3" in newest
        first = (await desk.get(f"/jobs/{job.id}?section=tasks&attempt=0")).text
        assert f'id="task-{job.id}.0.main-0.0"' in first
        assert f"/jobs/{job.id}/log?task=main-0&amp;attempt=0&amp;try=0&amp;stream=stderr" in first
        tries = (await desk.get(f"/jobs/{job.id}?section=tasks&task=main-0")).text
        assert tries.count('<tr id="try-') == 3
        assert "No tries yet." in (await desk.get(f"/jobs/{job.id}?section=tasks&task=main-7")).text
        assert "2 of at most 2 after job failures, 0 after platform failures" in text_of(
            (await desk.get(f"/jobs/{job.id}")).text
        )


async def test_ports_can_be_copied(rig: Rig) -> None:
    job = await rig.house.submit("name: web\nports: {http: 1}\ncommand: sleep 9\n")
    await rig.house.until(job.id, JobState.RUNNING)
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}")).text
    assert 'data-copy="127.0.0.1:' in page


# -- artifacts


async def test_artifacts_are_listed_looked_at_and_downloaded(rig: Rig) -> None:
    job = await rig.house.run("name: kept\ncommand: echo hi\n")
    place = rig.house.services.shared.get_artifacts_folder("default", job.id)
    place.mkdir(parents=True)
    (place / "notes & more.txt").write_text("<script>alert(1)</script>\n")
    (place / "page.html").write_text("<h1>hi</h1>")
    (place / "curve.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (place / "model.bin").write_bytes(b"\0\1" * 100)
    (place / "long.log").write_text("x" * 70_000)
    (place / "empty").write_text("")
    here = f"/jobs/{job.id}?section=artifacts"
    async with open_desk(rig) as desk:
        page = (await desk.get(here)).text
        assert "6 files" in page
        assert f'href="/api/v1/jobs/{job.id}/artifacts/notes%20%26%20more.txt"' in page
        assert "&lt;script&gt;alert" in (await desk.get(f"{here}&file=notes%20%26%20more.txt")).text
        assert "&lt;h1&gt;hi" in (await desk.get(f"{here}&file=page.html")).text
        picture = (await desk.get(f"{here}&file=curve.png")).text
        assert f'src="/api/v1/jobs/{job.id}/artifacts/curve.png?inline=true"' in picture
        assert "cannot be previewed" in (await desk.get(f"{here}&file=model.bin")).text
        long = (await desk.get(f"{here}&file=long.log")).text
        assert "Only the beginning is shown" in long
        assert "x" * 65537 not in long
        assert "The file is empty" in (await desk.get(f"{here}&file=empty")).text
        for wrong in ("nothing", "../../secret", "/etc/passwd", "x" * 5000, "%00", ".."):
            answer = await desk.get(f"{here}&file={wrong}")
            assert answer.status_code in (200, 400, 404)
            assert 'id="preview"' not in answer.text
        shown = await desk.get(f"/api/v1/jobs/{job.id}/artifacts/page.html?inline=true")
        assert "attachment" in shown.headers["content-disposition"]


async def test_without_artifacts_it_says_how_to_keep_some(rig: Rig) -> None:
    done = await rig.house.run("name: bare\ncommand: echo hi\n")
    live = await rig.house.submit("name: live\ncommand: sleep 9\n")
    async with open_desk(rig) as desk:
        assert "This job wrote no artifacts." in (await desk.get(f"/jobs/{done.id}?section=artifacts")).text
        assert "No artifacts yet" in (await desk.get(f"/jobs/{live.id}?section=artifacts")).text


async def test_what_was_not_kept_is_told(rig: Rig) -> None:
    job = await rig.house.run("name: kept\ncommand: echo hi\n")
    text = "2 files (1 KiB) saved as artifacts; 1 file was left out: too large (<b>big</b>)."
    event = NewEvent(kind="artifacts-incomplete", message=text, at=rig.house.clock.now(), task="main-0")
    await rig.house.store.write(job_rows.add_tag, job.id, "x", event=event)
    async with open_desk(rig) as desk:
        assert f"main-0: {text}" in text_of((await desk.get(f"/jobs/{job.id}?section=artifacts")).text)
