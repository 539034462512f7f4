"""Why a job waits: a table of situations, each with everything that is said of it, word for word."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.job import GIB
from holdfast.core.scheduling.blockers import BlockerKind, ResourceHolder
from holdfast.core.scheduling.estimates import LATEST_START_BASIS, RESOURCES_FREE_BASIS, TOO_MANY_JOBS_BASIS
from holdfast.core.scheduling.placement import Quota, ResourceAmount
from holdfast.core.scheduling.waits import MAX_LISTED_AHEAD, MAX_LISTED_HOLDERS, explain_retry_wait, explain_wait

from .waiting_cluster import NOW, Job, Place, node

BIG = [node(cpu=16, gpus=4)]
TWO = [node(cpu=16, gpus=4), node("two", cpu=16, gpus=4)]
BY_ONE = "2026-03-01 13:00:00 UTC"  # when those are gone at the latest that have run for one of their two hours
A_ENDS = f"It would start when job the-a (a) of user ann has ended, at {BY_ONE} at the latest."
LESS_CPU = "It would start now if it requested 1 core instead of 2."
NO_ROOM = "It requests 2 cores, 1 GiB of memory; free: 1 core, 15 GiB of memory."
OVER_GROUP = "The quota of group red is 4 cores, 3 in use, 2 requested."
OVER_USER = "The quota of user ann in group red is 4 cores, 3 in use, 2 requested."
SET_ASIDE = "Free resources are reserved for jobs ahead of it in the queue."
HIGHER = "Free resources are reserved for jobs of higher priority."
B_STEPS_BACK = (
    "It would start now if job the-b (b) of user bob were not ahead of it: run `holdfast stop b` and submit that "
    "job again."
)
ONE_BEFORE = "1 job is ahead of it in the queue of group red."
B_WAITS = "b, ahead of it in the queue, is waiting for the quota of group red."
TOO_LONG = "It cannot be backfilled: its time limit would delay a job ahead of it."

A = Job(id="a", cpu=3)
X = Job(id="x", cpu=2)
GROUP_4 = {"red": (Quota(cpu=4), Quota())}
USER_4 = {"red": (Quota(), Quota(cpu=4))}

# What is there -> blockers, helps, hours until it starts at the latest (None: cannot be told).
Said = tuple[list[str], list[str], float | None]
SITUATIONS: dict[str, tuple[Place, Said]] = {
    # -- each alone
    "nothing": (Place([node()], waits=[X]), ([], [], 0)),
    "cores": (Place([node()], [A], [X]), ([NO_ROOM], [LESS_CPU, A_ENDS], 1)),
    "memory": (
        Place([node()], [Job(id="a", memory=12)], [Job(id="x", memory=8)]),
        (
            ["It requests 1 core, 8 GiB of memory; free: 3 cores, 4 GiB of memory."],
            ["It would start now if it requested 4 GiB of memory instead of 8 GiB.", A_ENDS],
            1,
        ),
    ),
    "GPUs": (
        Place(BIG, [Job(id="a", gpu=3)], [Job(id="x", gpu=2)]),
        (
            ["It requests 1 core, 1 GiB of memory, 2 GPUs; free: 15 cores, 15 GiB of memory, 1 GPU."],
            ["It would start now if it requested 1 GPU instead of 2.", A_ENDS],
            1,
        ),
    ),
    "ports": (
        Place([node(ports=3)], [Job(id="a", ports=2)], [Job(id="x", ports=2)]),
        (["Not enough ports are free for its tasks."], [A_ENDS], 1),
    ),
    "quota of the group": (
        Place(BIG, [A], [X], GROUP_4),
        (
            [OVER_GROUP],
            [
                LESS_CPU,
                A_ENDS,
                "It would start now if an admin raised the quota of group red to 5 cores: "
                "`holdfast group set red --cpu 5`.",
            ],
            1,
        ),
    ),
    "quota of the user": (
        Place(BIG, [A], [X], USER_4),
        (
            [OVER_USER],
            [
                LESS_CPU,
                A_ENDS,
                "It would start now if an admin raised each user's quota in red to 5 cores: "
                "`holdfast group set red --user-cpu 5`.",
            ],
            1,
        ),
    ),
    "set aside": (
        Place([node()], [A], [Job(id="b", cpu=4, user="bob"), Job(id="x", cpu=1)]),
        ([SET_ASIDE, ONE_BEFORE], [B_STEPS_BACK], 3),
    ),
    "set aside for another group": (
        Place([node()], [A], [Job(id="b", cpu=4, user="bob", group="blue"), Job(id="x", cpu=1)]),
        ([SET_ASIDE], [B_STEPS_BACK], 3),
    ),
    "set aside for one that nobody here sees": (
        Place([node()], [A], [Job(id="b", cpu=4, group="secret"), Job(id="x", cpu=1)]),
        ([SET_ASIDE], ["It would start now if a job of another group were not ahead of it."], 3),
    ),
    "set aside for one that came later": (
        Place([node()], [A], [Job(id="b", cpu=2, user="bob", priority=1), Job(id="x", cpu=1)]),
        ([HIGHER, ONE_BEFORE], [A_ENDS, B_STEPS_BACK], 1),
    ),
    "set aside for two": (
        Place([node()], [A], [Job(id="b", cpu=2), Job(id="c", cpu=2, user="bob"), Job(id="x", cpu=1)]),
        (
            [SET_ASIDE, "2 jobs are ahead of it in the queue of group red."],
            [
                "It would start now if these 2 jobs were not ahead of it: job the-b (b) of user ann, job the-c "
                "(c) of user bob."
            ],
            3,
        ),
    ),
    "set aside for many": (
        Place([node()], [A], [*(Job(id=f"b{i}", cpu=2, user="bob") for i in range(10)), Job(id="x", cpu=1)]),
        (
            [SET_ASIDE, "10 jobs are ahead of it in the queue of group red."],
            ["It would start now if the 10 jobs ahead of it were not in the queue."],
            11,
        ),
    ),
    "the most that starts": (
        Place([node(cpu=4)], [Job(id="a", cpu=3.2)], [Job(id="x", cpu=1.5)]),
        (
            ["It requests 1.5 cores, 1 GiB of memory; free: 0.8 cores, 15 GiB of memory."],
            ["It would start now if it requested 0.8 cores instead of 1.5.", A_ENDS],
            1,
        ),
    ),
    "behind one that waits for the quota": (
        Place(BIG, [A], [Job(id="b", cpu=2, user="bob"), Job(id="x", cpu=1)], GROUP_4),
        ([B_WAITS, ONE_BEFORE], [A_ENDS, B_STEPS_BACK], 1),
    ),
    "too long to pass": (
        Place(BIG, [A], [Job(id="b", cpu=2, user="bob"), Job(id="x", cpu=1, hours=5)], GROUP_4, backfill=True),
        ([B_WAITS, TOO_LONG, ONE_BEFORE], [A_ENDS, B_STEPS_BACK], 1),
    ),
    "never": (
        Place([node()], waits=[Job(id="x", cpu=20)]),
        (["It can never run on this server: a task requests 20 cores, but the largest node has 4."], [], None),
    ),
    # -- fragmented
    "fragmented": (
        Place(
            TWO, [Job(id="a", gpu=2, on="one"), Job(id="b", gpu=1, on="two", user="bob", ran=0)], [Job(id="x", gpu=4)]
        ),
        (
            [
                "It requests 1 core, 1 GiB of memory, 4 GPUs: enough is free in total, but not on nodes "
                "where its tasks fit. Free: node two has 15 cores, 15 GiB of memory, 3 GPUs; node one has 15 "
                "cores, 15 GiB of memory, 2 GPUs."
            ],
            ["It would start now if it requested 3 GPUs instead of 4.", A_ENDS],
            1,
        ),
    ),
    "room for some tasks only": (
        Place(TWO, [Job(id="a", gpu=3, on="one"), Job(id="b", gpu=1, on="two")], [Job(id="x", gpu=2, tasks=2)]),
        (
            [
                "It requests 2 cores, 2 GiB of memory, 4 GPUs: enough is free in total, but only 1 "
                "of its 2 tasks fit. Free: node two has 15 cores, 15 GiB of memory, 3 GPUs; node one has 15 "
                "cores, 15 GiB of memory, 1 GPU."
            ],
            [
                "It would start now if no task requested more than 1 GPU.",
                "It would start now with one task instead of 2.",
                A_ENDS,
            ],
            1,
        ),
    ),
    "on many machines": (
        Place(
            [node(f"n{i}", gpus=2) for i in range(7)],
            [Job(id=f"r{i}", gpu=1, on=f"n{i}") for i in range(7)],
            [Job(id="x", gpu=2)],
        ),
        (
            [
                "It requests 1 core, 1 GiB of memory, 2 GPUs: enough is free in total, but not on nodes where its "
                "tasks fit. Free: "
                + "; ".join(f"node n{i} has 3 cores, 15 GiB of memory, 1 GPU" for i in range(5))
                + "; and 2 more nodes."
            ],
            [
                "It would start now if it requested 1 GPU instead of 2.",
                f"It would start when job the-r0 (r0) of user ann has ended, at {BY_ONE} at the latest.",
            ],
            1,
        ),
    ),
    # -- held
    "a held job": (
        Place([node()], [replace(A, held=True, user="bob")], [X]),
        (
            [NO_ROOM],
            [
                LESS_CPU,
                f"It would start now if job the-a (a) of user bob, which failed and is on hold until {BY_ONE}, "
                "were released: "
                "`holdfast release a`.",
            ],
            1,
        ),
    ),
    "a held job that is not seen": (
        Place([node()], [replace(A, held=True, group="secret")], [X]),
        (
            [NO_ROOM],
            [
                LESS_CPU,
                f"It would start now if a job of another group, which failed and is on hold until {BY_ONE}, "
                "were released.",
            ],
            1,
        ),
    ),
    "several held jobs": (
        Place([node()], [Job(id=id, cpu=2, held=True) for id in "ab"], [Job(id="x", cpu=4)]),
        (
            ["It requests 4 cores, 1 GiB of memory; free: 0 cores, 14 GiB of memory."],
            [
                "It would start now if these 2 jobs on hold were released: job the-a (a) of user ann, job the-b "
                "(b) of user ann."
            ],
            1,
        ),
    ),
    # -- in pairs
    "group and user": (
        Place(BIG, [A], [X], {"red": (Quota(cpu=4), Quota(cpu=4))}),
        (
            [OVER_GROUP, OVER_USER],
            [
                LESS_CPU,
                A_ENDS,
                "It would start now if an admin raised the quota of red to 5 cores and per user to 5 cores: "
                "`holdfast group set red --cpu 5 --user-cpu 5`.",
            ],
            1,
        ),
    ),
    "quota and machine": (Place([node()], [A], [X], GROUP_4), ([OVER_GROUP, NO_ROOM], [LESS_CPU, A_ENDS], 1)),
    "quota of two kinds": (
        Place(
            BIG,
            [Job(id="a", cpu=3, memory=3)],
            [Job(id="x", cpu=2, memory=2)],
            {"red": (Quota(cpu=4, memory=4 * GIB), Quota())},
        ),
        (
            [OVER_GROUP, "The quota of group red is 4 GiB of memory, 3 GiB in use, 2 GiB requested."],
            [
                "It would start now if it requested 1 core instead of 2, 1 GiB of memory instead of 2 GiB.",
                A_ENDS,
                "It would start now if an admin raised the quota of group red to 5 cores, 5 GiB of memory: "
                "`holdfast group set red --cpu 5 --memory 5Gi`.",
            ],
            1,
        ),
    ),
    "cores and memory": (
        Place([node()], [Job(id="a", cpu=3, memory=12)], [Job(id="x", cpu=3, memory=8)]),
        (
            ["It requests 3 cores, 8 GiB of memory; free: 1 core, 4 GiB of memory."],
            ["It would start now if it requested 1 core instead of 3, 4 GiB of memory instead of 8 GiB.", A_ENDS],
            1,
        ),
    ),
    "quota and ports": (
        Place(
            [node(ports=3)],
            [Job(id="a", cpu=3, ports=2)],
            [Job(id="x", cpu=1, ports=2)],
            {"red": (Quota(cpu=3), Quota())},
        ),
        (
            ["The quota of group red is 3 cores, 3 in use, 1 requested.", "Not enough ports are free for its tasks."],
            [A_ENDS],
            1,
        ),
    ),
    "machine and queue": (
        Place([node()], [A], [Job(id="b", cpu=4, user="bob"), X]),
        (
            [NO_ROOM, SET_ASIDE, ONE_BEFORE],
            [
                "It would start when these jobs ahead of it have run: job the-b (b) of user bob; and these have "
                "ended: job the-a (a) of user ann."
            ],
            3,
        ),
    ),
    "quota and queue": (
        Place(BIG, [A], [Job(id="b", cpu=2, user="bob"), X], GROUP_4),
        ([OVER_GROUP, B_WAITS, ONE_BEFORE], [A_ENDS], 1),
    ),
    "held and queue": (
        Place([node()], [replace(A, held=True)], [Job(id="b", cpu=2, user="bob"), X]),
        (
            [NO_ROOM, SET_ASIDE, ONE_BEFORE],
            [
                f"It would start now if job the-a (a) of user ann, which failed and is on hold until {BY_ONE}, "
                "were released: "
                "`holdfast release a`."
            ],
            1,
        ),
    ),
    "fragmented, and the quota": (
        Place(
            TWO,
            [Job(id="a", gpu=2, on="one"), Job(id="b", gpu=2, on="two", user="bob")],
            [Job(id="x", gpu=3)],
            {"red": (Quota(gpu=6), Quota())},
        ),
        (
            [
                "The quota of group red is 6 GPUs, 4 in use, 3 requested.",
                "It requests 1 core, 1 GiB of memory, 3 GPUs: enough is free in total, but not on nodes "
                "where its tasks fit. Free: node one has 15 cores, 15 GiB of memory, 2 GPUs; node two has 15 "
                "cores, 15 GiB of memory, 2 GPUs.",
            ],
            ["It would start now if it requested 2 GPUs instead of 3.", A_ENDS],
            1,
        ),
    ),
    # -- when it starts
    "when two have ended": (
        Place([node()], [Job(id="a", cpu=2, ran=1.5), Job(id="b", cpu=2, ran=0.5)], [Job(id="x", cpu=4)]),
        (
            ["It requests 4 cores, 1 GiB of memory; free: 0 cores, 14 GiB of memory."],
            [
                "It would start when these jobs have ended, at 2026-03-01 13:30:00 UTC at the latest: job the-a "
                "(a) of user ann, job the-b (b) of user ann."
            ],
            1.5,
        ),
    ),
    "behind one without a limit": (
        Place([node()], [replace(A, hours=None)], [X]),
        (
            [NO_ROOM],
            [LESS_CPU, "It would start when job the-a (a) of user ann has ended; that job has no time limit."],
            None,
        ),
    ),
    "past its limit": (
        Place([node()], [replace(A, ran=3)], [X]),
        (
            [NO_ROOM],
            [
                LESS_CPU,
                "It would start when job the-a (a) of user ann has ended, at 2026-03-01 12:00:00 UTC at the latest.",
            ],
            0,
        ),
    ),
    "of a higher priority": (
        Place([node()], [A], [Job(id="b", cpu=4, user="bob"), replace(X, priority=5)]),
        ([NO_ROOM], [LESS_CPU, A_ENDS], 1),
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_everything_is_said_word_for_word(name: str) -> None:
    place, (blockers, helps, hours) = SITUATIONS[name]
    wait = place.wait()
    assert [blocker.text for blocker in wait.blockers] == blockers
    assert list(wait.helps) == helps
    at = wait.estimate.at if wait.estimate else None
    assert at == (None if hours is None else NOW + timedelta(hours=hours))


def test_who_has_what_is_missing_since_when_and_until_when() -> None:
    secret = Job(id="s", cpu=2, user="eve", group="secret", held=True, ran=0.5)
    place = Place([node(cpu=8)], [A, secret, Job(id="b", cpu=2, hours=None)], [Job(id="x", cpu=4)])
    (blocker,) = place.wait().blockers
    assert (blocker.kind, blocker.lacks, blocker.more_holders) == (BlockerKind.CAPACITY, ResourceAmount(cpu=3), 0)
    hour = timedelta(hours=1)
    assert blocker.holders == (
        ResourceHolder(
            job_id="a",
            name="the-a",
            user="ann",
            group="red",
            has=ResourceAmount(cpu=3),
            since=NOW - hour,
            until=NOW + hour,
        ),
        ResourceHolder(
            job_id="",
            name="",
            user="",
            group="",
            has=ResourceAmount(cpu=2),
            since=NOW - hour / 2,
            until=NOW + 1.5 * hour,
            held=True,
        ),
        ResourceHolder(job_id="b", name="the-b", user="ann", group="red", has=ResourceAmount(cpu=2), since=NOW - hour),
    )


def test_of_many_holders_those_are_named_that_have_most() -> None:
    runs = [Job(id=f"r{i}", cpu=i + 1) for i in range(MAX_LISTED_HOLDERS + 2)]
    (blocker,) = Place([node(cpu=28)], runs, [X]).wait().blockers
    assert [holder.job_id for holder in blocker.holders] == [f"r{i}" for i in range(MAX_LISTED_HOLDERS + 1, 1, -1)]
    assert blocker.more_holders == 2


def test_only_jobs_that_count_for_a_quota_are_named_for_it() -> None:
    runs = [A, Job(id="b", cpu=1, user="bob"), Job(id="c", cpu=4, group="blue")]
    blockers = Place(BIG, runs, [X], {"red": (Quota(cpu=5), Quota(cpu=4))}).wait().blockers
    named = {blocker.kind: [holder.job_id for holder in blocker.holders] for blocker in blockers}
    assert named == {BlockerKind.GROUP_QUOTA: ["a", "b"], BlockerKind.USER_QUOTA: ["a"]}


def test_who_goes_first_of_all_groups_in_order() -> None:
    others = [
        Job(id="b", cpu=4, user="bob"),
        Job(id="s", cpu=3, group="secret"),
        *(Job(id=f"c{i}", cpu=4, group="blue") for i in range(MAX_LISTED_AHEAD)),
        Job(id="late", priority=-1),
    ]
    wait = Place([node()], [A], [*others, X]).wait()
    shown = [(ahead.job_id, ahead.user, ahead.asks.cpu) for ahead in wait.ahead]
    assert shown == [("b", "bob", 4), ("", "", 3), ("c0", "ann", 4), ("c1", "ann", 4), ("c2", "ann", 4)]
    assert wait.ahead_count == 2 + MAX_LISTED_AHEAD


def test_what_an_estimate_rests_on() -> None:
    def basis(place: Place) -> str:
        estimate = place.wait().estimate
        assert estimate is not None
        return estimate.basis

    endless = replace(A, hours=None)
    assert basis(Place([node()], waits=[X])) == RESOURCES_FREE_BASIS
    assert basis(Place([node()], [A], [X])) == LATEST_START_BASIS
    assert basis(Place([node()], [endless], [X])) == "No estimate: job the-a (a) of user ann has no time limit."
    hidden = replace(endless, group="secret")
    assert basis(Place([node()], [hidden], [X])) == "No estimate: a job of another group has no time limit."
    ahead = Job(id="b", cpu=4, hours=None)
    assert basis(Place([node()], [A], [ahead, X])) == "No estimate: job the-b (b) of user ann has no time limit."
    many = [Job(id=f"b{i:03}", cpu=4) for i in range(150)]
    assert basis(Place([node()], [A], [*many, X])) == TOO_MANY_JOBS_BASIS


@pytest.mark.parametrize(
    ("runs", "usual", "likely"),
    [
        (A, {}, None),
        (A, {"a": 1.5}, 0.5),
        (A, {"a": 0.5}, None),  # it has taken longer already
        (A, {"a": 9}, None),  # its limit ends it sooner
        (replace(A, hours=None), {"a": 1.5}, 0.5),
        (replace(A, held=True), {"a": 1.5}, None),
        (A, {"x": 1.5}, None),
    ],
)
def test_when_it_starts_going_by_how_long_such_jobs_took(
    runs: Job, usual: dict[str, float], likely: float | None
) -> None:
    without, estimate = (
        Place([node()], [runs], [X]).wait().estimate,
        Place([node()], [runs], [X], usual=usual).wait().estimate,
    )
    assert estimate is not None
    assert without is not None
    assert estimate.at == without.at
    if likely is None:
        assert estimate == without
        return
    assert estimate.likely == NOW + timedelta(hours=likely)
    said = "Based on earlier jobs with the same names, it starts at about 2026-03-01 12:30:00 UTC."
    assert estimate.basis == f"{without.basis} {said}"


def test_of_jobs_that_wait_before_it_too() -> None:
    place = Place([node()], [A], [Job(id="b", cpu=4), X], usual={"a": 1.5, "b": 1})
    estimate = place.wait().estimate
    assert estimate is not None
    assert (estimate.at, estimate.likely) == (NOW + timedelta(hours=3), NOW + timedelta(hours=1.5))


def test_tasks_that_wait_one_by_one_are_explained_once_for_each_size() -> None:
    place = Place([node()], [A], [Job(id=f"x{i}", cpu=2 + i % 2) for i in range(6)])
    entries = [replace(found, job_id="x") for i in range(6) if (found := place.queue.get(f"x{i}"))]
    for entry in entries:
        place.queue.add(entry)
    place.jobs["x"] = place.waits[0]
    texts = [blocker.text for blocker in explain_wait(entries, place.scene()).blockers]
    assert [text for text in texts if text.startswith("It requests")] == [
        NO_ROOM,
        NO_ROOM.replace("2 cores", "3 cores"),
    ]


def test_the_next_try_is_a_blocker_too() -> None:
    at = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
    wait = explain_retry_wait(at, "Exit code 1")
    (blocker,) = wait.blockers
    assert blocker.kind is BlockerKind.RETRY
    assert blocker.text == "The next attempt starts at 2026-03-01 12:05:00 UTC. Previous attempt: Exit code 1"
    assert wait.estimate is not None
    assert (wait.estimate.at, wait.estimate.basis) == (
        at,
        "The next attempt starts then, if enough resources are free.",
    )
