"""What a group may be, what its admins may change, and where it keeps its experiments."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.codec import MASK
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota
from holdfast.core.states import JobState
from holdfast.services.people.groups import GroupChange
from holdfast.store import people

from .house import House

pytestmark = pytest.mark.anyio

HEAD = Actor(name="head", groups={"default": True})
MEMBER = Actor(name="ann", groups={"default": False})
STRANGER = Actor(name="bob", groups={"other": True}, can_read_all_jobs=True)
TRACKED = Mlflow(tracking_uri="http://m:5000", tracking_envs={"TOKEN": "swordfish"}, artifact_envs={"KEY": "k"})


async def test_all_of_a_group_is_kept(house: House) -> None:
    full = Group(
        name="Red_Team",
        display_name="Rotes Team 資料",
        description="two\nlines",
        quota=Quota(cpu=4, memory=100, gpu=2),
        user_quota=Quota(cpu=4, memory=50, gpu=0),
        shared_volume=True,
        volume_capacity=20,
        launch_only=False,
        home_symlink=False,
    )
    await house.services.groups.create(house.admin, full)
    assert await house.services.groups.get(house.admin, "Red_Team") == full
    change = GroupChange(display_name="", shared_volume=False, volume_capacity=None, launch_only=True)
    changed = await house.services.groups.change(house.admin, "Red_Team", change)
    assert changed == replace(full, display_name="", shared_volume=False, volume_capacity=None, launch_only=True)
    assert await house.services.groups.get(house.admin, "Red_Team") == changed


@pytest.mark.parametrize("name", ["everyone", "Everyone", "EVERYONE"])
async def test_everyone_is_not_a_group(house: House, name: str) -> None:
    with pytest.raises(UserError, match="is reserved for the group of all users"):
        await house.services.groups.create(house.admin, Group(name=name))


@pytest.mark.parametrize("name", ["red_team", "RED-TEAM", "Red-Team"])
async def test_no_two_groups_share_a_path(house: House, name: str) -> None:
    await house.add_group("Red_Team")
    with pytest.raises(Conflict, match="both would be mounted at /project/red-team"):
        await house.add_group(name)
    with pytest.raises(NotFound):
        await house.services.groups.get(house.admin, name)


@pytest.mark.parametrize(
    ("quota", "user_quota", "field"),
    [
        (Quota(cpu=2), Quota(cpu=2.5), "user_quota.cpu"),
        (Quota(memory=10), Quota(memory=11), "user_quota.memory"),
        (Quota(gpu=0), Quota(gpu=1), "user_quota.gpu"),
    ],
)
async def test_no_user_has_more_than_the_group(house: House, quota: Quota, user_quota: Quota, field: str) -> None:
    groups = house.services.groups
    with pytest.raises(UserError, match="must not exceed the group's quota") as caught:
        await groups.create(house.admin, Group(name="red", quota=quota, user_quota=user_quota))
    assert caught.value.field == field
    await groups.create(house.admin, Group(name="red", quota=quota))
    with pytest.raises(UserError, match="must not exceed"):
        await groups.change(house.admin, "red", GroupChange(user_quota=user_quota))
    assert (await groups.get(house.admin, "red")).user_quota == Quota()
    # What was so before there was a rule stays, until a quota was changed.
    await house.store.write(people.update_group, group=Group(name="red", quota=quota, user_quota=user_quota))
    assert (await groups.change(house.admin, "red", GroupChange(description="x"))).user_quota == user_quota


@pytest.mark.parametrize(
    "wrong", [{"volume_capacity": 0}, {"volume_capacity": 10**12}, {"display_name": "a\nb"}, {"description": "\x1b"}]
)
async def test_what_a_group_cannot_be(house: House, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        await house.services.groups.create(house.admin, Group(name="red", **wrong))
    with pytest.raises(UserError):
        await house.services.groups.change(house.admin, "default", GroupChange(**wrong))


async def test_admins_of_a_group_set_its_time_limit_and_no_more(house: House) -> None:
    groups = house.services.groups
    limit = timedelta(hours=2)
    assert (await groups.change(HEAD, "default", GroupChange(time_limit=limit))).time_limit == limit
    for actor, change in (
        (HEAD, GroupChange(time_limit=limit, quota=Quota())),
        (HEAD, GroupChange(display_name="Mine")),
        (HEAD, GroupChange(extension={"a": 1}, replace_extension=True)),
        (MEMBER, GroupChange(time_limit=None)),
        (STRANGER, GroupChange(time_limit=None)),
        (MEMBER, GroupChange()),
    ):
        with pytest.raises(Forbidden):
            await groups.change(actor, "default", change)
    assert (await groups.get(HEAD, "default")).time_limit == limit


async def test_members_see_where_experiments_go_and_admins_of_the_group_the_values(house: House) -> None:
    groups = house.services.groups
    assert await groups.get_mlflow(MEMBER, "default") is None
    await groups.set_mlflow(HEAD, "default", TRACKED)
    assert await groups.get_mlflow(HEAD, "default") == TRACKED
    assert await groups.get_mlflow(house.admin, "default") == TRACKED
    masked = replace(TRACKED, tracking_envs={"TOKEN": MASK}, artifact_envs={"KEY": MASK})
    assert await groups.get_mlflow(MEMBER, "default") == masked
    with pytest.raises(NotFound):
        await groups.get_mlflow(STRANGER, "default")
    with pytest.raises(NotFound):
        await groups.get_mlflow(house.admin, "none")
    for actor in (MEMBER, STRANGER):
        with pytest.raises((Forbidden, NotFound)):
            await groups.set_mlflow(actor, "default", None)
    with pytest.raises(NotFound):
        await groups.set_mlflow(house.admin, "none", TRACKED)
    await groups.set_mlflow(house.admin, "default", None)
    assert await groups.get_mlflow(HEAD, "default") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"tracking_uri": ""},
        {"tracking_uri": "  "},
        {"tracking_uri": "a\nb"},
        {"ui_url": "x" * 3000},
        {"tracking_envs": {"A B": "x"}},
        {"tracking_envs": {"1A": "x"}},
        {"artifact_envs": {"A": "x\0y"}},
        {"artifact_envs": {"A": "\ud800"}},
        {"tracking_envs": {"A": MASK}},
        {"tracking_envs": {f"A{n}": "" for n in range(101)}},
        {"tracking_envs": {"A": "x" * 70_000}},
    ],
)
async def test_what_cannot_be_where_experiments_go(house: House, wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        await house.services.groups.set_mlflow(house.admin, "default", replace(TRACKED, **wrong))
    assert await house.services.groups.get_mlflow(house.admin, "default") is None


async def test_what_each_user_of_a_group_has_in_use(house: House) -> None:
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    text = "name: x\ncommand: sleep 60\ngroup: red\nresources: {cpu: 0.5, memory: 64Mi}\n"
    jobs = [await house.submit(text, actor) for actor in (ann, ann, bob)]
    for job in jobs:
        await house.until(job.id, JobState.RUNNING)
    (red,) = (await house.services.installation.get_capacity(ann)).groups
    assert (red.group, red.used.cpu) == ("red", 1.5)
    assert {user: amount.cpu for user, amount in red.users.items()} == {"ann": 1.0, "bob": 0.5}
    await house.services.jobs.stop(bob, jobs[2].id)
    await house.until(jobs[2].id)
    (red,) = (await house.services.installation.get_capacity(ann)).groups
    assert set(red.users) == {"ann"}


async def test_a_quota_is_neither_negative_nor_beyond_reason(house: House) -> None:
    for quota in (Quota(cpu=-1), Quota(memory=2**61), Quota(gpu=2_000_000)):
        with pytest.raises(UserError, match="A quota must be between 0 and"):
            await house.services.groups.create(house.admin, Group(name="team", quota=quota))


async def test_an_unknown_engine_is_refused_with_the_value_that_resets_it(house: House) -> None:
    with pytest.raises(UserError, match="The engine none is not configured") as caught:
        await house.services.groups.change(house.admin, "default", GroupChange(engine="none"))
    assert "Available engines: fake. To reset it" in (caught.value.hint or "")
    assert "--engine default" in (caught.value.hint or "")
