"""All that is wrong with a job file of ours is told at once, with where it stands."""

from __future__ import annotations

import pytest

from holdfast.core.access import Actor
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import GIB
from holdfast.services.errors import DatasetNotFound, NotInGroup

from .house import House

pytestmark = pytest.mark.anyio

HEAD = "name: train\ncommand: true\n"


async def refused(house: House, actor: Actor, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        await house.services.jobs.submit(actor, text)
    return caught.value


def told(error: UserError) -> list[tuple[str, int | None]]:
    assert isinstance(error, InvalidJob)
    return [(problem.field, problem.line) for problem in error.problems]


async def test_a_wrong_group_mount_and_datasets_are_told_together(house: House) -> None:
    ann = await house.user("ann", "lab")
    text = f"{HEAD}group: lap\nmounts:\n  - /etc:/mnt\ndatasets:\n  - one\n  - two\n"
    fields = [("group", 3), ("mounts[0].source", 5), ("datasets[0]", 7), ("datasets[1]", 8)]
    assert told(await refused(house, ann, text)) == fields


async def test_a_plan_reports_missing_mounts_and_requests_that_are_too_large(house: House) -> None:
    text = f"{HEAD}mounts:\n  - /none/a:/a\n  - source: /none/b\n    target: /b\nresources: {{cpu: 4800}}\n"
    with pytest.raises(InvalidJob) as caught:
        await house.services.jobs.plan(house.admin, text)
    assert told(caught.value) == [("mounts[0].source", 4), ("mounts[1].source", 5), ("", None)]
    assert "4800 cores" in caught.value.problems[2].message
    in_role = "name: j\nroles:\n  main:\n    command: a\n    mounts: [/none/a:/a]\n"
    assert told(await refused(house, house.admin, in_role)) == [("roles.main.mounts[0].source", 5)]


async def test_a_size_of_another_group_is_told_with_the_rest(house: House) -> None:
    ann = await house.user("ann", "lab", "red")
    size = InstanceType(name="big", cpu=1, memory=GIB, everyone=False, groups=("red",))
    await house.services.instance_types.create(house.admin, size)
    text = f"{HEAD}group: lab\ninstance_type: big\ndatasets: [one]\n"
    assert told(await refused(house, ann, text)) == [("instance_type", 4), ("datasets[0]", 5)]


async def test_the_sizes_of_a_group_are_not_told_to_others(house: House) -> None:
    await house.add_group("red")
    ann = await house.user("ann", "lab")
    error = await refused(house, ann, f"{HEAD}group: red\ninstance_type: cpu-1\ndatasets: [one]\n")
    assert told(error) == [("group", 3), ("datasets[0]", 5)]


async def test_a_single_refusal_stays_what_it_is(house: House) -> None:
    ann = await house.user("ann", "lab")
    assert isinstance(await refused(house, ann, f"{HEAD}group: lap\n"), NotInGroup)
    assert isinstance(await refused(house, ann, f"{HEAD}datasets: [one]\n"), DatasetNotFound)
    assert told(await refused(house, ann, f"{HEAD}mounts: [/etc:/mnt]\n")) == [("mounts[0].source", 3)]
