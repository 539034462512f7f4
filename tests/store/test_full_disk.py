"""A full disk: said clearly, nothing half-written, and over when there is room again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from holdfast.core.records import JobFilter
from holdfast.store.errors import DiskFull, StoreError
from holdfast.store.jobs import records as jobs

from .open_store import Opened, a_new_job


def test_a_full_database_says_so_and_recovers(tmp_path: Path) -> None:
    opened = Opened(f"sqlite:///{tmp_path / 'holdfast.db'}")
    pages = opened.write(lambda conn: conn.scalar(text("PRAGMA page_count")))
    opened.write(lambda conn: conn.execute(text(f"PRAGMA max_page_count = {pages + 4}")))
    kept = []
    with pytest.raises(StoreError, match="the disk is full"):  # noqa: PT012
        for number in range(100):
            kept.append(opened.submit(f"job {number}", source="x" * 2000).name)
    assert opened.names(JobFilter()) == kept[::-1]
    opened.write(lambda conn: conn.execute(text("PRAGMA max_page_count = 1000000")))
    kept.append(opened.submit("after", source="x" * 2000).name)
    assert opened.names(JobFilter()) == kept[::-1]
    opened.close()


_UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from holdfast.core.records import JobFilter
from holdfast.store.errors import DiskFull, StoreError
from tests.store.open_store import Opened

opened = Opened(sys.argv[1])
log = Path(sys.argv[1].removeprefix("sqlite:///") + "-wal")
none, most = resource.getrlimit(resource.RLIMIT_FSIZE)
kept = [opened.submit("before").name]
resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 30_000, most))
error = ""
for number in range(100):
    try:
        kept.append(opened.submit(f"job {number}").name)
    except StoreError as failure:
        error = str(failure)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (none, most))
kept.append(opened.submit("after").name)
assert error, "the limit was never met"
assert opened.names(JobFilter(), 500) == kept[::-1], (kept, opened.names(JobFilter(), 500))
opened.close()
again = Opened(sys.argv[1])
assert again.names(JobFilter(), 500) == kept[::-1]
again.close()
print(error)
"""


def test_a_commit_that_cannot_be_written_is_undone(tmp_path: Path) -> None:
    """Here the write-ahead log itself cannot grow, so that it is the commit that fails."""
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    Opened(url).close()
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", _UNDER_A_LIMIT, url], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("Database error: ", "Cannot write to the database: "))


def test_everyone_in_a_full_batch_is_told(tmp_path: Path) -> None:
    opened = Opened(f"sqlite:///{tmp_path / 'holdfast.db'}")
    pages = opened.write(lambda conn: conn.scalar(text("PRAGMA page_count")))
    opened.write(lambda conn: conn.execute(text(f"PRAGMA max_page_count = {pages}")))

    async def crowd() -> list[object]:
        new = a_new_job(source="x" * 50_000)
        writes = (opened.store.write(jobs.insert_job, new=new) for _ in range(5))
        return await asyncio.gather(*writes, return_exceptions=True)

    assert {type(result) for result in opened.run(crowd())} == {DiskFull}
    opened.close()
