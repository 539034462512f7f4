"""The log view as the server makes it: what is read without scripts."""

from __future__ import annotations

import html
import re

import pytest

from holdfast.core.states import JobState
from holdfast.engines.base import LogStream
from holdfast.server.portal.jobs.log_text import MAX_LINE_LENGTH, MAX_NAMED_CHARACTERS, render_log_text
from holdfast.store.jobs import records as job_rows
from tests.server.rig import Rig

from .page_client import PASSWORD, open_desk, text_of

pytestmark = pytest.mark.anyio

TALKER = "name: talker\ncommand: |\n  echo one\n  echo two >&2\n  echo three\n"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


async def test_each_stream_is_shown(rig: Rig) -> None:
    job = await rig.house.run(TALKER)
    async with open_desk(rig) as desk:
        shown = {stream: (await desk.get(f"/jobs/{job.id}/log?stream={stream.value}")).text for stream in LogStream}
    assert "one\nthree\n</pre>" in shown[LogStream.STDOUT]
    assert "two\n</pre>" in shown[LogStream.STDERR]
    assert "Ended: Succeeded, exit code 0." in text_of(shown[LogStream.STDOUT])
    assert "one\ntwo\nthree\n</pre>" in shown[LogStream.MERGED]


async def test_the_task_that_made_the_completion_rule_true_is_shown_first(rig: Rig) -> None:
    worker = "{instances: 2, command: echo hi, completion: {min_succeeded: 2}}"
    job = await rig.house.run(f"name: pair\nroles:\n  server: {{command: sleep 100}}\n  worker: {worker}\n")
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}")).text
    shown = page.split('id="job-log"')[1]
    assert 'data-task="worker-' in shown
    assert "hi\n</pre>" in page


async def test_the_log_of_another_groups_job_is_not_there(rig: Rig) -> None:
    await rig.house.user("eve", "others", password=PASSWORD)
    job = await rig.house.run(TALKER)
    async with open_desk(rig, "eve") as desk:
        theirs = await desk.get(f"/jobs/{job.id}/log")
        nothing = await desk.get("/jobs/nothing-like-it/log")
    assert theirs.status_code == nothing.status_code == 404
    assert "talker" not in theirs.text


async def test_a_task_that_does_not_exist_is_not_found(rig: Rig) -> None:
    job = await rig.house.run(TALKER)
    async with open_desk(rig) as desk:
        for wrong in ("task=worker-7", "attempt=9", "try=9", "task=" + "x" * 5000):
            assert (await desk.get(f"/jobs/{job.id}/log?{wrong}")).status_code == 404
        for ignored in ("attempt=x", "stream=both", "start=-1", "end=" + "9" * 30, "start=99999"):
            assert (await desk.get(f"/jobs/{job.id}/log?{ignored}")).status_code == 200


async def test_an_expired_log_says_when(rig: Rig) -> None:
    job = await rig.house.run(TALKER)
    await rig.house.store.write(job_rows.mark_logs_removed, [f"{job.id}.0.main-0.0"], rig.house.clock.now())
    async with open_desk(rig) as desk:
        answer = await desk.get(f"/jobs/{job.id}/log")
    assert answer.status_code == 200
    assert "expired on 2026-03-01" in text_of(answer.text)
    assert "download=1" not in answer.text


async def test_a_log_that_has_not_started_says_so(rig: Rig) -> None:
    await rig.house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await rig.house.submit(SLEEPER)
    async with open_desk(rig) as desk:
        answer = await desk.get(f"/jobs/{job.id}/log")
    assert "main-0 has not started yet" in text_of(answer.text)
    assert "data-waiting" in answer.text


async def test_older_lines_are_a_link_away(rig: Rig) -> None:
    job = await rig.house.run("name: long\ncommand: |\n" + "".join(f"  echo line-{n}\n" for n in range(4500)))
    async with open_desk(rig) as desk:
        seen, path, pages = "", f"/jobs/{job.id}/log", 0
        while path:
            page = (await desk.get(path)).text
            pages += 1
            seen = page.split("<pre", 1)[1].split(">\n", 1)[1].split("</pre>", 1)[0] + seen
            older = re.search(r'<a href="([^"]+)" data-older', page)
            path = html.unescape(older[1]) if older else ""
        first = (await desk.get(f"/jobs/{job.id}/log?start=0")).text
    assert seen == "".join(f"line-{n}\n" for n in range(4500))
    assert pages == 3
    assert "line-1999\n</pre>" in first
    assert "data-newer" in first


async def test_what_a_job_prints_is_harmless(rig: Rig) -> None:
    job = await rig.house.submit(SLEEPER)
    await rig.house.until(job.id, JobState.RUNNING)
    evil = "<script>alert(1)</script></pre><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m\x00\u202egnp.exe\n"
    rig.house.engine.write_log(f"{job.id}.0.main-0.0", evil.encode())
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}/log")).text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


# -- text


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"\x1b[1;31mbold\x1b[0m plain", "bold plain"),
        (b"\x1b]0;a title\x07after", "after"),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;never ended\nnext line", "\nnext line"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"abcdef\rXY\n", "XYcdef\n"),
        (b"windows\r\n", "windows\n"),
        (b"abc\b\bX\n", "aXc\n"),
        (b"a\x00b\x07", "a⟨U+0000⟩b⟨U+0007⟩"),
        ("ab\u202ecd\u200b\ufeff".encode(), "ab⟨U+202E⟩cd⟨U+200B⟩⟨U+FEFF⟩"),
        (b"\xff\xfeok\xc3", "��ok�"),
        ("日本\té".encode(), "日本\té"),
        (b"\x1b", ""),
        (b"\x1b[", ""),
    ],
)
def test_text_is_shown_as_a_terminal_leaves_it(printed: bytes, shown: str) -> None:
    assert render_log_text(printed) == shown


def test_a_line_without_end_is_folded() -> None:
    lines = render_log_text(b"x" * (MAX_LINE_LENGTH * 3)).split("\n↪ ")
    assert [len(line) for line in lines] == [MAX_LINE_LENGTH] * 3


# -- choosing


def test_what_is_no_text_becomes_no_longer_than_it_was() -> None:
    printed = b"\x01a" * (2 * MAX_NAMED_CHARACTERS)
    shown = render_log_text(printed).replace("\n↪ ", "")
    assert shown == "\ufffda" * (2 * MAX_NAMED_CHARACTERS)
    assert render_log_text(b"\x01" * 3 + b"\n") == "⟨U+0001⟩" * 3 + "\n"


async def test_tasks_and_tries_can_be_chosen(rig: Rig) -> None:
    several = "name: several\nretry: 1\nroles:\n  worker: {instances: 2, command: exit 1}\n"
    job = await rig.house.run(several)
    async with open_desk(rig) as desk:
        page = (await desk.get(f"/jobs/{job.id}/log?task=worker-1&attempt=0")).text
    assert re.findall(r"<option( selected)?>(worker-\d)</option>", page) == [
        ("", "worker-0"),
        (" selected", "worker-1"),
    ]
    assert re.findall(r'<option value="(\d)"( selected)?>(\d)</option>', page) == [
        ("1", "", "2"),
        ("0", " selected", "1"),
    ]
    assert "View the newest try" in page


async def test_the_job_page_leaves_out_a_log_that_does_not_exist(rig: Rig) -> None:
    job = await rig.house.run(TALKER)
    async with open_desk(rig) as desk:
        page = await desk.get(f"/jobs/{job.id}?task=nobody-7")
    assert page.status_code == 200
    assert "data-log" not in page.text
