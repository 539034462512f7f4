"""The usage of tasks in Slurm."""

from __future__ import annotations

import pytest

from holdfast.core.metrics.samples import Reading
from holdfast.engines.slurm.task_end import EndKind, EndRecord, build_end_observation, parse_end_record
from holdfast.engines.slurm.usage import parse_usage

LINE = "1000.25 250 3 4096000 1024000 2048000\n"


def test_the_memory_of_a_cgroup_is_preferred_to_that_of_the_processes() -> None:
    read = parse_usage(LINE)
    assert read == Reading(at=1000.25, cpu=2.5, processes=3, memory=1024000, memory_limit=2048000)
    without = parse_usage("1000.25 250 3 4096000 - -\n")
    assert without == Reading(at=1000.25, cpu=2.5, processes=3, memory=4096000)
    unlimited = parse_usage("1000.25 250 3 4096000 1024000 9223372036854771712\n")
    assert unlimited is not None
    assert unlimited.memory_limit is None


@pytest.mark.parametrize("text", ["", "1000.25 250", "x 250 3 4096000 - -\n", "1000.25 250 -1 4096000 - -\n"])
def test_a_damaged_report_is_no_reading(text: str) -> None:
    assert parse_usage(text) is None


def test_the_last_usage_comes_with_the_end() -> None:
    record = parse_end_record(EndRecord(kind=EndKind.EXITED, code=3, usage=LINE).to_json().encode())
    assert record is not None
    assert build_end_observation("a", record).used == parse_usage(LINE)


def test_the_record_of_an_older_server_has_no_usage() -> None:
    text = EndRecord(kind=EndKind.EXITED).to_json().replace(',"usage":""', "")
    assert "usage" not in text
    record = parse_end_record(text.encode())
    assert record is not None
    assert build_end_observation("a", record).used is None
