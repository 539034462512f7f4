"""Who has what a task in Slurm waits for, numbers that Slurm gave twice, and tasks that never start. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.job import GIB, MIB
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.engines.queue_waits import QueueHolder
from holdfast.engines.slurm.job_numbers import JobNumbers
from holdfast.engines.slurm.jobs import parse_number
from holdfast.engines.slurm.never_starts import NeverStarts
from holdfast.engines.slurm.running_jobs import (
    RUNNING_FORMAT,
    RunningJob,
    expand_nodes,
    list_holders,
    parse_running_jobs,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
WIDTHS = [int(field.partition(":")[2]) for field in RUNNING_FORMAT.split(",")]


def line(*fields: str) -> str:
    return "".join(field.ljust(width) for field, width in zip(fields, WIDTHS, strict=True)) + "\n"


def job(user: str, cpu: float, node: str = "n1", until: datetime | None = SOON, name: str = "x") -> RunningJob:
    return RunningJob(name=name, user=user, has=ResourceAmount(cpu=cpu), nodes=frozenset({node}), until=until)


def test_running_jobs_are_read() -> None:
    end = str(int(SOON.timestamp()))
    year = str(int((NOW + timedelta(days=365)).timestamp()))
    text = line(
        "ada", "cpu=4,mem=2G,node=2,gres/gpu=3", "gres:gpu:1", "2", end, "n[1-2]", "j.0.w-0.0", "hf-a-1"
    ) + line("bob", "cpu=2,mem=1500M,node=2", "gres:gpu:a100:2,gres:tpu:4", "2", year, "n3,n07", "(null)", "größe")
    first, second = parse_running_jobs(text, NOW)
    assert (first.user, first.comment, first.name) == ("ada", "j.0.w-0.0", "hf-a-1")
    assert first.has == ResourceAmount(cpu=4, memory=2 * GIB, gpu=3)
    assert (first.nodes, first.until) == ({"n1", "n2"}, SOON)
    assert second.has == ResourceAmount(cpu=2, memory=1500 * MIB, gpu=4)
    assert (second.nodes, second.until) == ({"n3", "n07"}, None)  # Slurm shows no limit as a year


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", set()),
        ("n1", {"n1"}),
        ("n1,login", {"n1", "login"}),
        ("gpu[1-3,7],x[08-10]", {"gpu1", "gpu2", "gpu3", "gpu7", "x08", "x09", "x10"}),
        ("n[1-", {"n", "1-"}),  # cut off
    ],
)
def test_lists_of_nodes_are_expanded(text: str, nodes: set[str]) -> None:
    assert expand_nodes(text) == nodes


def test_own_tasks_are_listed_each_and_others_by_user() -> None:
    jobs = [job("root", 1, name="hf-a"), job("ada", 2), job("ada", 3, until=LATER), job("bob", 4, until=None)]
    jobs += [job("bob", 5), job("eve", 6, node="n9")]
    holders = list_holders(jobs, {"n1", "n2"}, {"hf-a": "j.0.w-0.0"})
    assert holders == (
        QueueHolder(attempt_id="j.0.w-0.0", has=ResourceAmount(cpu=1), until=SOON),
        QueueHolder(user="ada", job_count=2, has=ResourceAmount(cpu=5), until=LATER),
        QueueHolder(user="bob", job_count=2, has=ResourceAmount(cpu=9), until=None),
    )


def test_a_number_is_reused_once_a_second_submission_has_it() -> None:
    numbers = JobNumbers()
    numbers.record_submission(3, "a")
    numbers.record_claim(3, "a")
    assert not numbers.is_reused(3)
    numbers.record_submission(3, "b")
    assert numbers.is_reused(3)
    assert not numbers.is_reused(4)


def test_the_same_task_may_get_its_number_again() -> None:
    numbers = JobNumbers()
    for _ in range(2):
        assert not numbers.is_reused(3)
        numbers.record_submission(3, "a")
    assert numbers.is_reused(3)


def test_a_claim_with_the_number_of_another_job_is_proof_too() -> None:
    """The answer to the submission may have been lost."""
    numbers = JobNumbers()
    numbers.record_submission(7, "gang", 3)
    assert not any(map(numbers.is_reused, range(5, 12)))
    numbers.record_claim(8, "a")
    assert [number for number in range(5, 12) if numbers.is_reused(number)] == [8]
    numbers.record_claim(11, "b")
    numbers.record_submission(11, "c")
    assert numbers.is_reused(11)
    numbers.record_claim(12, "d")  # it starts before the answer to its submission is read
    numbers.record_submission(12, "d")
    assert not numbers.is_reused(12)


@pytest.mark.parametrize(("text", "number"), [("12\n", 12), ("12;cluster\n", 12), ("", None), ("odd", None)])
def test_the_number_of_a_submission_is_read(text: str, number: int | None) -> None:
    assert parse_number(text) == number


def test_a_reason_that_forbids_a_start_must_stand_for_some_time() -> None:
    never = NeverStarts(60.0)
    assert not never.has_expired("a", "PartitionConfig", 0.0)
    assert not never.has_expired("a", "PartitionTimeLimit", 59.0)
    assert never.has_expired("a", "PartitionConfig", 60.0)
    assert not never.has_expired("a", "Resources", 61.0)  # nodes were added
    assert not never.has_expired("a", "PartitionConfig", 62.0)
    never.forget_all()  # Slurm did not respond
    assert not never.has_expired("a", "PartitionConfig", 999.0)


def test_without_a_timeout_it_waits() -> None:
    never = NeverStarts(0.0)
    assert not never.has_expired("a", "PartitionConfig", 0.0)
    assert not never.has_expired("a", "PartitionConfig", 1e9)
