"""What is said of jobs that wait holds, whatever the place looks like: each sentence is done, then jobs are placed."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.job import GIB, MIB
from holdfast.core.scheduling.explanations import explain_blockers
from holdfast.core.scheduling.placement import Node, Quota
from holdfast.core.scheduling.what_if import CheckBudget, find_smaller_requests, list_blocked_entries_ahead
from tests.longer import examples

from .waiting_cluster import Job, Place, node

Quotas = dict[str, tuple[Quota, Quota]]

thorough = settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
GROUPS, USERS = ("red", "blue"), ("ann", "bob")
bound = st.sampled_from([None, None, *range(8, 15)])
quota = st.builds(
    lambda cpu, memory, gpu: Quota(cpu=cpu, memory=None if memory is None else memory * GIB, gpu=gpu),
    bound,
    bound,
    bound,
)
quotas = st.fixed_dictionaries({group: st.tuples(quota, quota) for group in GROUPS})
sizes = st.tuples(st.integers(4, 8), st.integers(6, 16), st.integers(2, 4), st.integers(4, 6))
machines = st.lists(sizes, min_size=1, max_size=3).map(
    lambda found: [node(f"n{at}", *size) for at, size in enumerate(found)]
)
jobs = st.lists(
    st.builds(
        Job,
        id=st.just(""),
        cpu=st.sampled_from([0.5, 1, 2, 3, 4]),
        memory=st.integers(1, 6),
        gpu=st.sampled_from([0, 0, 1, 2]),
        tasks=st.sampled_from([1, 1, 1, 2]),
        ports=st.sampled_from([0, 0, 1, 2]),
        user=st.sampled_from(USERS),
        group=st.sampled_from(GROUPS),
        priority=st.sampled_from([0, 0, 1]),
        hours=st.sampled_from([1.5, 2, 4, None]),
        held=st.sampled_from([False, False, True]),
    ),
    min_size=4,
    max_size=12,
)


def settled(nodes: list[Node], bounds: Quotas, wanted: list[Job]) -> Place:
    """All but the last have come, and what could start has; the last one has just come."""
    numbered = [replace(job, id=f"j{at}") for at, job in enumerate(wanted)]
    place = Place(nodes, waits=numbered[:-1], quotas=bounds)
    started: list[str] = []
    while found := place.pass_once():
        started += found
    place.runs = [job for job in numbered if job.id in started]
    last = numbered[-1]
    place.waits = [last]
    place.jobs[last.id] = last
    place.queue.add(last.waiting(len(numbered)))
    return place


@thorough
@given(machines, quotas, jobs)
def test_a_job_without_a_blocker_starts_and_one_with_a_blocker_waits(
    nodes: list[Node], bounds: Quotas, wanted: list[Job]
) -> None:
    place = settled(nodes, bounds, wanted)
    wait, id = place.wait(), place.asked.id
    reasons = explain_blockers(place.asked, place.queue, place.ledger)
    started = place.pass_once()
    assert (id in started) == (not wait.blockers)
    assert id in started or reasons


@thorough
@given(machines, quotas, jobs)
def test_whatever_is_said_to_help_does(nodes: list[Node], bounds: Quotas, wanted: list[Job]) -> None:
    for help in settled(nodes, bounds, wanted).wait().helps:
        place = settled(nodes, bounds, wanted)
        assert starts_after(help, place), help


def starts_after(help: str, place: Place) -> bool:
    """Do as it says, and place."""
    id = place.asked.id
    for less in find_smaller_requests(place.asked, place.queue, place.ledger, CheckBudget()):
        if less.text == help:
            return f"{id}-again" in place.pass_once(instead=less.waiting)
    if "raised" in help:
        raise_quotas(place, help)
    else:
        gone = re.findall(r"\((j\d+)\)", help)
        if re.search(r"the \d+ jobs ahead of it", help):
            gone += [other.job_id for other in list_blocked_entries_ahead(place.asked, place.queue, place.ledger)]
        assert gone, help
        for attempt_id in [each for each in place.ledger.assignments if each.split(".")[0] in gone]:
            place.ledger.remove_assignment(attempt_id)
        for job_id in gone:
            place.queue.remove(job_id)
    return id in place.pass_once()


def raise_quotas(place: Place, help: str) -> None:
    """By the command that it shows."""
    command = re.search(r"`holdfast group set (\w+) (.*)`", help)
    assert command is not None
    group, words = command[1], command[2].split()
    of_group, of_user = place.ledger.get_quotas(group)
    for option, value in zip(words[::2], words[1::2], strict=True):
        of_one, kind = option.startswith("--user-"), option.removeprefix("--").removeprefix("user-")
        amount = {kind: _size(value) if kind == "memory" else float(value)}
        of_group, of_user = (of_group, replace(of_user, **amount)) if of_one else (replace(of_group, **amount), of_user)
    place.ledger.quotas = {**place.ledger.quotas, group: (of_group, of_user)}


def _size(text: str) -> int:
    return int(text[:-2]) * (GIB if text.endswith("Gi") else MIB)
