from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.services.metrics.server_metrics import ServerMetrics

pytestmark = pytest.mark.anyio


def values(vitals: ServerMetrics) -> dict[str, float]:
    return {sample.name: sample.value for family in vitals.collect() for sample in family.samples}


async def test_a_loop_that_stood_still_is_seen() -> None:
    vitals = ServerMetrics()
    watching = asyncio.create_task(vitals.watch_event_loop(0.01))
    await asyncio.sleep(0)
    time.sleep(0.3)
    async with asyncio.timeout(20):
        while not values(vitals)["holdfast_event_loop_lag_seconds_count"]:
            await asyncio.sleep(0.01)
    watching.cancel()
    assert values(vitals)["holdfast_event_loop_lag_seconds_sum"] >= 0.2


def test_each_server_counts_for_itself() -> None:
    one, other = ServerMetrics(), ServerMetrics()
    one.record_write(3, 0.2)
    one.record_sampling(0.1)
    one.record_request("rest", "GET", 200, 0.01)
    assert values(one)["holdfast_db_write_batch_size_sum"] == 3
    assert values(one)["holdfast_sampling_duration_seconds_count"] == 1
    assert values(one)["holdfast_http_requests_total"] == 1
    assert values(other)["holdfast_db_write_batch_size_sum"] == 0
    assert "holdfast_http_requests_total" not in values(other)


def test_the_version_and_the_process_are_told() -> None:
    told = values(ServerMetrics())
    assert told["holdfast_build_info"] == 1
    assert told["process_resident_memory_bytes"] > 0
    assert not [name for name in told if name.endswith("_created")]
