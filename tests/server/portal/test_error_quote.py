"""The line of a log that a failed job's page quotes: the right one, short, and harmless."""

from __future__ import annotations

import pytest

from holdfast.core.states import JobState
from holdfast.server.portal.jobs.error_quote import MAX_QUOTE_LENGTH, find_first_error
from holdfast.server.portal.pages.job.log_quote import TAIL_SIZE
from tests.server.rig import Rig

from .page_client import open_desk, text_of

anyio = pytest.mark.anyio

TRACEBACK = """step 1
Traceback (most recent call last):
  File "/home/jovyan/train.py", line 3, in <module>
    open("data.csv")
    ^^^^^^^^^^^^^^^^
FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'
bye
"""


def quoted(log: str) -> str | None:
    found = find_first_error(log.encode(), 0)
    return found.text if found else None


def test_of_a_traceback_the_exception_is_quoted_and_its_beginning_is_the_place() -> None:
    found = find_first_error(TRACEBACK.encode(), 1000)
    assert found is not None
    assert found.text == "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"
    assert found.start == 1000 + len("step 1\n")


def test_what_a_launcher_puts_before_each_line_does_not_hide_the_exception() -> None:
    log = "".join(f"[rank0]: {line}\n" for line in TRACEBACK.splitlines()[1:])
    assert quoted(log) == "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"


def test_a_traceback_that_was_cut_short_is_not_quoted_by_its_title() -> None:
    assert quoted('Traceback (most recent call last):\n  File "x.py", line 1\n') is None


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("0 errors\nloss 1\nbash: line 1: trian: command not found\nmore\n", "bash: line 1: trian: command not found"),
        ("\x1b[31mERROR\x1b[0m: no data\n", "ERROR: no data"),
        ("10%\r50%\rValueError: x\r\n", "ValueError: x"),
        ("error: \u202egnp.exe\x07\n", "error: ⟨U+202E⟩gnp.exe⟨U+0007⟩"),
        ("all is well\n", None),
        ("", None),
        ("\n\n", None),
    ],
)
def test_the_first_line_that_looks_like_an_error_is_quoted(log: str, line: str | None) -> None:
    assert quoted(log) == line


def test_a_long_line_is_cut() -> None:
    text = quoted("ValueError: " + "x" * 60_000)
    assert text is not None
    assert len(text) == MAX_QUOTE_LENGTH
    assert text.endswith("…")


def test_bytes_that_are_no_text_do_no_harm() -> None:
    found = find_first_error(b"\xff\xfe\x00Error: \xff broken\n", 0)
    assert found is not None
    assert "\x00" not in found.text


# -- on the page


async def failed(rig: Rig, log: bytes) -> str:
    job = await rig.house.submit("name: fails\ncommand: sleep 100\n")
    task = f"{job.id}.0.main-0.0"
    await rig.house.until(job.id, JobState.RUNNING)
    rig.house.engine.write_log(task, log)
    rig.house.engine.finish_task(task, 1)
    await rig.house.until(job.id)
    return job.id


@anyio
async def test_a_failed_jobs_page_quotes_its_log_and_leads_there(rig: Rig) -> None:
    job = await failed(rig, TRACEBACK.replace("data.csv", "<img src=x>").encode())
    async with open_desk(rig) as desk:
        raw = (await desk.get(f"/jobs/{job}")).text
        assert "From its log: FileNotFoundError" in text_of(raw)
        assert "<img src=x>" not in raw
        assert f"/jobs/{job}/log?task=main-0&amp;attempt=0&amp;start=" in raw
        assert "no rule matches" not in raw


@anyio
async def test_only_the_end_of_a_log_is_looked_at_in_whole_lines(rig: Rig) -> None:
    job = await failed(rig, b"ValueError: early\n" + b"Error: x" * TAIL_SIZE + b"\nall is well\n")
    async with open_desk(rig) as desk:
        page = text_of((await desk.get(f"/jobs/{job}")).text)
        assert "ValueError: early" not in page
        assert "all is well" in page  # nothing is known, so its last words are shown


def test_tracebacks_without_an_end_are_not_walked_for_ever() -> None:
    endless = (b"Traceback (most recent call last):\n" + b"  a frame\n" * 600) * 12
    assert find_first_error(endless + b"ValueError: too late\n", 0) is None
