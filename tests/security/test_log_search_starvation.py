"""Slow searches of one user delay nobody else's search in a log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.services.errors import TooManyRequests
from holdfast.services.logs import search as log_search
from holdfast.services.logs.search import MAX_WAITING_SEARCHES, LogSearcher, SearchQuery, SearchResult
from tests.services.sources import FileSource, StuckSource

pytestmark = pytest.mark.anyio

SLOW = SearchQuery(query="a+", regex=True)
BUDGET = 600.0  # seconds; the slow searches are ended by hand


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_thirty_slow_patterns_of_one_user_hold_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "WAIT_TIMEOUT", BUDGET)
    searches = LogSearcher(BUDGET)
    bait = StuckSource(tmp_path / "bait", b"a\n")
    source = FileSource(tmp_path / "log", b"one\ntwo needle\n")

    async def search(user: str, **more: bool) -> SearchResult:
        return await searches.search_log(source, SearchQuery(query="needle", **more), user=user)  # type: ignore[arg-type]

    slow = [asyncio.create_task(searches.search_log(bait, SLOW, user="mallory")) for _ in range(30)]
    try:
        refused = 30 - 1 - MAX_WAITING_SEARCHES
        while sum(task.done() for task in slow) < refused:
            await asyncio.sleep(0)
        assert len((await search("bob")).hits) == 1
        assert len((await search("bob", regex=True)).hits) == 1
        assert len((await search("mallory")).hits) == 1  # her own plain text needs no turn among patterns either
        assert sum(task.done() for task in slow) == refused  # all the others still run, or wait
        for task in slow:
            if task.done():
                assert isinstance(task.exception(), TooManyRequests)
    finally:
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)


async def test_a_search_that_waits_for_too_long_is_told_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "WAIT_TIMEOUT", 0.01)
    searches = LogSearcher(BUDGET)
    bait = StuckSource(tmp_path / "bait", b"a\n")
    slow = asyncio.create_task(searches.search_log(bait, SLOW, user="mallory"))
    try:
        while not searches._pattern_limiter._used_slots:
            await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="Too many log searches") as caught:
            await searches.search_log(bait, SLOW, user="mallory")
        assert caught.value.retry_after
    finally:
        slow.cancel()
        await asyncio.wait([slow])
