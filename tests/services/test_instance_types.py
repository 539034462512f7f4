"""Instance types: what they may be, who sees and uses them, and what their names mean to jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from holdfast.core.access import Actor
from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import Conflict, Forbidden, InvalidJob, NotFound, UserError
from holdfast.core.job import GIB, MIB, Resources
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.services.catalogue.instance_types import InstanceTypeChange
from holdfast.services.errors import InstanceTypeNotFound, OverQuota
from holdfast.services.people.groups import GroupChange
from holdfast.store.jobs import records as job_rows
from holdfast.store.tables import job_specs

from .house import House, open_house

pytestmark = pytest.mark.anyio

BIG = InstanceType(name="big", cpu=4, memory=8 * GIB, cpu_request=1, memory_request=GIB)


def names(types: list[InstanceType]) -> list[str]:
    return [type.name for type in types]


def form(**more: Any) -> str:
    plain = {"displayName": "train", "instanceType": "cpu-1", "image": "host", "command": "true", "groupId": "default"}
    return json.dumps({**plain, **more})


async def stored(house: House, job_id: str) -> Resources:
    (role,) = (await house.store.read(job_rows.load_job_detail, job_id)).job.roles
    return role.resources


# -- what there is at first


async def test_the_sizes_we_bring_are_there_at_the_first_start_and_never_again(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home") as house:
        types = house.services.instance_types
        assert names(await types.list(house.admin)) == ["cpu-1", "cpu-2", "gpu-1", "gpu-2"]
        assert all(type.everyone and type.brought for type in await types.list(house.admin))
        await types.delete(house.admin, "cpu-2")
        await types.change(house.admin, "cpu-1", InstanceTypeChange(cpu=3.0))
        await house.services.seed_catalogue()
        assert names(await types.list(house.admin)) == ["cpu-1", "gpu-1", "gpu-2"]
        changed = await types.get(house.admin, "cpu-1")
        assert (changed.cpu, changed.brought) == (3.0, False)


async def test_the_settings_name_the_first_ones_whatever_they_are_called(tmp_path: Path) -> None:
    settings = {"jobs": {"instance_types": {"Größe 1": {"cpu": 2}}}}
    async with open_house(tmp_path / "home", settings=settings) as house:
        types = house.services.instance_types
        assert await types.list(house.admin) == [InstanceType(name="Größe 1", cpu=2, memory=GIB)]
        changed = await types.change(house.admin, "Größe 1", InstanceTypeChange(gpu=1))
        assert changed == InstanceType(name="Größe 1", cpu=2, memory=GIB, gpu=1)


# -- what they may be


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "é", "a\n", "a b", "a" * 64, "../x"])
async def test_names_are_those_of_machines(house: House, name: str) -> None:
    with pytest.raises(UserError, match="is not a valid name for an instance type"):
        await house.services.instance_types.create(house.admin, replace(BIG, name=name))


@pytest.mark.parametrize(
    ("wrong", "field", "why"),
    [
        ({"cpu": 0.0}, "cpu", "cpu must be between 0.01"),
        ({"cpu": float("nan")}, "cpu", "cpu must be between 0.01"),
        ({"cpu": float("inf")}, "cpu", "cpu must be between 0.01"),
        ({"memory": 0}, "memory", "memory must be between"),
        ({"memory": 2**63}, "memory", "memory must be between"),
        ({"gpu": -1}, "gpu", "gpu must be an integer"),
        ({"cpu_request": 4.5}, "cpu_request", r"\(4.5 cores\) exceeds the limit of 4 cores"),
        ({"cpu_request": 0.0}, "cpu_request", "must be greater than 0"),
        ({"memory_request": 9 * GIB}, "memory_request", r"\(9 GiB\) exceeds the limit of 8 GiB"),
        ({"memory_request": -1}, "memory_request", "must be greater than 0"),
        ({"gpu_resource": "cheese"}, "gpu_resource", "nvidia.com/gpu or amd.com/gpu"),
        ({"tolerations": ({"operator": "Equal", "key": "a"},)}, "tolerations[0]", "requires a key and a value"),
        ({"tolerations": ({"operator": "Exists", "value": "a"},)}, "tolerations[0]", "cannot have a value"),
        ({"tolerations": ({"key": "a"},)}, "tolerations[0]", "operator Equal or Exists"),
        ({"tolerations": ({"operator": "Exists", "effect": "Now"},)}, "tolerations[0]", "NoSchedule"),
        ({"tolerations": ({"operator": "Exists", "seconds": "3"},)}, "tolerations[0]", "'seconds'"),
        ({"tolerations": ({"operator": "Exists", "key": 3},)}, "tolerations[0]", "must be one line"),
        ({"tolerations": ({"operator": "Exists"},) * 101}, "tolerations", "at most 100"),
        ({"node_selector": {"ab": "value"}}, "node_selector", "3 to 63 characters"),
        ({"node_selector": {"key": "a b c"}}, "node_selector", "without spaces"),
        ({"node_selector": {"key": "x" * 64}}, "node_selector", "3 to 63 characters"),
        ({"slurm": {"partition": "-gpu"}}, "slurm.partition", "without - at the start"),
        ({"slurm": {"nodes": "4"}}, "slurm.nodes", "'nodes' is not an option"),
        ({"slurm": {"gres": "gpu:a100:1"}}, "slurm.gres", "gres has 1 GPUs, but gpu is 0"),
        ({"slurm": {"gres": "gpu:"}}, "slurm.gres", "must be a list"),
        ({"display_name": "a\x1b[2J"}, "display_name", "control characters"),
        ({"description": "x" * 5000}, "description", "at most 4096"),
    ],
)
async def test_what_a_size_cannot_be(house: House, wrong: dict[str, Any], field: str, why: str) -> None:
    types = house.services.instance_types
    with pytest.raises(UserError, match=why) as caught:
        await types.create(house.admin, replace(BIG, **wrong))
    assert caught.value.field == field
    await types.create(house.admin, BIG)
    with pytest.raises(UserError, match=why):
        await types.change(house.admin, "big", InstanceTypeChange(**wrong))
    assert await types.get(house.admin, "big") == BIG


async def test_every_problem_is_told(house: House) -> None:
    with pytest.raises(UserError) as caught:
        await house.services.instance_types.create(house.admin, replace(BIG, memory=0, gpu=-1, memory_request=None))
    assert "memory must" in caught.value.message.lower()
    assert "gpu must" in caught.value.message


async def test_what_means_the_same_is_kept_the_same(house: House) -> None:
    tolerations = ({"operator": "Exists", "key": "gpu", "value": "", "effect": "None"},)
    made = await house.services.instance_types.create(
        house.admin, replace(BIG, tolerations=tolerations, everyone=False, groups=("default", "default"))
    )
    assert made.tolerations == ({"operator": "Exists", "key": "gpu"},)
    assert made.groups == ("default",)
    assert await house.services.instance_types.get(house.admin, "big") == made


# -- who may


async def test_members_see_what_is_for_their_groups(house: House) -> None:
    types = house.services.instance_types
    ann, bob = await house.user("ann", "red"), await house.user("bob", "blue")
    await types.create(house.admin, replace(BIG, everyone=False, groups=("red",)))
    assert "big" in names(await types.list(ann))
    assert "big" not in names(await types.list(bob))
    assert "big" in names(await types.list_usable_types(ann, "red"))
    assert await types.list_usable_types(bob, "red") == []
    assert "big" not in names(await types.list_usable_types(house.admin, "blue"))
    assert (await types.get(ann, "big")).name == "big"
    with pytest.raises(InstanceTypeNotFound):
        await types.get(bob, "big")
    with pytest.raises(NotFound, match="not granted to blue"):
        await types.revoke(house.admin, "big", "blue")
    await types.grant(house.admin, "big", "blue")
    assert "big" in names(await types.list(bob))
    await types.revoke(house.admin, "big", "blue")
    assert "big" not in names(await types.list(bob))


async def test_only_admins_manage_sizes(house: House) -> None:
    types = house.services.instance_types
    head = Actor(name="head", groups={"default": True})
    for doing in (
        types.create(head, BIG),
        types.change(head, "cpu-1", InstanceTypeChange(cpu=9.0)),
        types.delete(head, "cpu-1"),
        types.grant(head, "cpu-1", "default"),
        types.revoke(head, "cpu-1", "default"),
    ):
        with pytest.raises(Forbidden):
            await doing
    for doing in (
        types.change(house.admin, "none", InstanceTypeChange()),
        types.delete(house.admin, "none"),
        types.grant(house.admin, "none", "default"),
    ):
        with pytest.raises(InstanceTypeNotFound):
            await doing
    with pytest.raises(NotFound, match="Group none not found"):
        await types.grant(house.admin, "cpu-1", "none")
    with pytest.raises(Conflict):
        await types.create(house.admin, replace(BIG, name="cpu-1"))


async def test_a_group_that_is_made_anew_has_none_of_the_old_ones_sizes(house: House) -> None:
    types = house.services.instance_types
    await house.add_group("red")
    await types.create(house.admin, replace(BIG, everyone=False, groups=("red",)))
    assert names(await types.list_usable_types(house.admin, "red"))[0] == "big"
    await house.services.groups.delete(house.admin, "red")
    await house.add_group("red")
    assert "big" not in names(await types.list_usable_types(house.admin, "red"))


# -- what their names mean to jobs


async def test_a_form_gets_the_size_that_it_names_with_its_requests(house: House) -> None:
    await house.services.instance_types.create(house.admin, BIG)
    job = await house.submit(form(instanceType="big"))
    expected = Resources(cpu=4, memory=8 * GIB, cpu_request=1, memory_request=GIB)
    assert await stored(house, job.id) == expected
    assert (job.cpu, job.memory) == (4, 8 * GIB)


async def test_our_own_file_names_a_size_too_and_its_clone_does(house: House) -> None:
    await house.services.instance_types.create(house.admin, BIG)
    text = "name: x\ncommand: y\ninstance_type: big\nresources: {cpu: 2}\n"
    job = await house.submit(text)
    assert await stored(house, job.id) == Resources(cpu=2, memory=8 * GIB, memory_request=GIB)
    clone = await house.services.jobs.export_yaml(house.admin, job.id)
    assert clone == "name: x\ncommand: y\ninstance_type: big\nresources:\n  cpu: 2\n"
    await house.services.instance_types.delete(house.admin, "big")
    assert "instance_type" not in await house.services.jobs.export_yaml(house.admin, job.id)


async def test_a_rerun_gets_the_size_as_it_is_now(house: House) -> None:
    types = house.services.instance_types
    await types.create(house.admin, BIG)
    jobs = [
        await house.submit(form(instanceType="big")),
        await house.submit("name: x\ncommand: y\ninstance_type: big\nresources: {cpu: 2}\n"),
    ]
    await types.change(house.admin, "big", InstanceTypeChange(cpu=8.0, memory=16 * GIB, memory_request=None))
    again = [(await house.services.jobs.rerun(house.admin, job.id)).summary for job in jobs]
    assert await stored(house, jobs[0].id) == BIG.resources
    assert await stored(house, again[0].id) == Resources(cpu=8, memory=16 * GIB, cpu_request=1)
    assert await stored(house, again[1].id) == Resources(cpu=2, memory=16 * GIB)
    await types.delete(house.admin, "big")
    for job in jobs:
        with pytest.raises(InstanceTypeNotFound) as caught:
            await house.services.jobs.rerun(house.admin, job.id)
        assert caught.value.name == "big"


def forget_sizes(conn: Connection) -> None:
    """As jobs were stored before roles kept the name of their size."""
    for row in conn.execute(select(job_specs)).all():
        spec = json.loads(row.spec_json)
        assert [role.pop("instance_type") for role in spec["roles"]] == ["cpu-1"]
        conn.execute(update(job_specs).values(spec_json=json.dumps(spec)))


async def test_a_rerun_of_an_older_form_still_knows_its_size(house: House) -> None:
    job = await house.submit(form())
    await house.until(job.id)
    await house.store.write(forget_sizes)
    await house.services.instance_types.change(house.admin, "cpu-1", InstanceTypeChange(cpu=0.5))
    again = (await house.services.jobs.rerun(house.admin, job.id)).summary
    assert (await stored(house, again.id)).cpu == 0.5


@pytest.mark.parametrize("text", [form(instanceType="big"), "name: x\ncommand: y\ninstance_type: big\n"])
async def test_a_size_must_be_for_the_jobs_group(house: House, text: str) -> None:
    ann = await house.user("ann", "red", "default")
    await house.services.instance_types.create(house.admin, replace(BIG, everyone=False, groups=("red",)))
    await house.submit(text, ann, group="red")
    with pytest.raises(InstanceTypeNotFound, match="Instance type big is not available to the group default") as caught:
        await house.submit(text, ann, group="default")
    assert caught.value.hint is not None
    assert "cpu-1, cpu-2, gpu-1, gpu-2" in caught.value.hint


async def test_a_size_nobody_knows(house: House) -> None:
    with pytest.raises(InstanceTypeNotFound) as caught:
        await house.submit(form(instanceType="cpu1"))
    assert (caught.value.name, caught.value.field) == ("cpu1", "instanceType")
    assert "cpu-1" in str(caught.value.hint)
    with pytest.raises(InvalidJob, match="'cpu1' is not an instance type"):
        await house.submit("name: x\ncommand: y\ninstance_type: cpu1\n")
    with pytest.raises(InvalidJob) as both:  # with more that is wrong, all of it is told
        await house.submit(form(instanceType="cpu1", image=""))
    assert len(both.value.problems) == 2


async def test_names_of_other_groups_sizes_are_not_told(house: House) -> None:
    ann = await house.user("ann", "red")
    await house.services.instance_types.create(house.admin, replace(BIG, name="secret-1", everyone=False))
    with pytest.raises(InstanceTypeNotFound) as caught:
        await house.submit(form(instanceType="secret-2", groupId="red"), ann)
    assert "secret-1" not in str(caught.value.hint)


@pytest.mark.parametrize(
    ("quota", "user_quota", "said"),
    [
        (Quota(gpu=0), Quota(gpu=0), "User Gpu Quota exceeded"),
        (Quota(gpu=0, cpu=0), Quota(cpu=0), "Group Gpu Quota exceeded"),
        (Quota(), Quota(cpu=3.5), "User Cpu Quota exceeded"),
        (Quota(cpu=3.5), Quota(memory=1), "Group Cpu Quota exceeded"),
        (Quota(memory=8 * GIB - MIB), Quota(memory=MIB), "User Memory exceeded"),
        (Quota(memory=8 * GIB - MIB), Quota(), "Group Memory exceeded"),
        (Quota(cpu=4, memory=8 * GIB, gpu=1), Quota(cpu=4, memory=8 * GIB, gpu=1), None),
    ],
)
async def test_a_form_that_no_quota_has_room_for(
    house: House, quota: Quota, user_quota: Quota, said: str | None
) -> None:
    await house.services.instance_types.create(house.admin, replace(BIG, gpu=1))
    await house.services.groups.create(house.admin, Group(name="red", quota=quota, user_quota=user_quota))
    submitting = house.submit(form(instanceType="big", groupId="red"))
    if said is None:
        assert (await submitting).group == "red"
        return
    with pytest.raises(OverQuota) as caught:
        await submitting
    assert caught.value.primehub == said
    ours = "name: x\ncommand: y\ninstance_type: big\ngroup: red\n"  # is warned, as ever
    submitted = await house.services.jobs.submit(house.admin, ours)
    assert any("can never run on this server" in warning for warning in submitted.warnings)


async def test_a_rerun_is_not_held_to_quotas(house: House) -> None:
    await house.services.groups.create(house.admin, Group(name="red"))
    job = await house.submit(form(groupId="red"))
    await house.services.groups.change(house.admin, "red", GroupChange(quota=Quota(cpu=0.5)))
    assert (await house.services.jobs.rerun(house.admin, job.id)).created
    with pytest.raises(OverQuota):
        await house.submit(form(groupId="red"))


async def test_quotas_of_other_groups_are_not_told(house: House) -> None:
    ann = await house.user("ann", "red")
    await house.services.groups.create(house.admin, Group(name="blue", quota=Quota(cpu=0.5)))
    with pytest.raises(Forbidden, match="not a member of the group blue"):
        await house.submit(form(groupId="blue"), ann)
