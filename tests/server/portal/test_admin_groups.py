"""Groups and their quotas, as admins keep them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.job import GIB
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from tests.server.rig import Rig

from .form_parser import fill, problem_at, send, values_in
from .page_client import open_desk, text_of

pytestmark = pytest.mark.anyio


async def test_a_group_is_made_with_quotas(rig: Rig) -> None:
    async with open_desk(rig) as desk:
        answer = await fill(
            desk,
            "/admin/groups/new",
            name="team",
            display_name="The <b>team</b>",
            quota__cpu="8.5",
            quota__gpu="2",
            quota__memory="64 GiB",
            user_quota__memory="1.5 GB",
            time_limit="2d12h",
            shared_volume="on",
            volume_capacity="100",
        )
        assert (answer.status_code, answer.headers["location"]) == (303, "/groups/team/settings")
        listed = (await desk.get("/admin/groups")).text
        assert "The &lt;b&gt;team" in listed
        assert "<b>team" not in listed
        assert "64 GiB" in listed
        assert "1.4 GiB" in listed
        again = await desk.get("/admin/groups/team/edit")
    made = await rig.house.services.groups.get(rig.house.admin, "team")
    assert made.quota == Quota(cpu=8.5, gpu=2, memory=64 * GIB)
    assert made.user_quota == Quota(memory=1_500_000_000)
    assert (made.time_limit, made.shared_volume, made.volume_capacity) == (timedelta(days=2, hours=12), True, 100)
    values = values_in(again.text)
    assert values["quota.memory"] == ["64 GiB"]
    assert values["user_quota.memory"] == ["1500 MB"]
    assert values["time_limit"] == ["2d12h"]
    assert values["quota.cpu"] == ["8.5"]


@pytest.mark.parametrize(
    ("typed", "field", "says"),
    [
        ({"name": "a b"}, "name", "is not a valid name for a group"),
        ({"name": "default"}, "name", "Group default already exists"),
        ({"name": "everyone"}, "name", "is reserved"),
        ({"quota__cpu": "2", "user_quota__cpu": "3"}, "user_quota.cpu", "must not exceed the group's quota"),
        ({"quota__memory": "1 GiB", "user_quota__memory": "2 GiB"}, "user_quota.memory", "(2 GiB) must not exceed"),
        ({"quota__memory": "4"}, "quota.memory", "Did you mean 4 GiB?"),
        ({"quota__memory": "lots"}, "quota.memory", "lots is not a valid size"),
        ({"quota__cpu": "-1"}, "quota.cpu", "A quota must be between 0 and"),
        ({"quota__cpu": "nan"}, "quota.cpu", "is not a number"),
        ({"quota__gpu": "1.5"}, "quota.gpu", "is not a whole number"),
        ({"quota__gpu": "1e300"}, "quota.gpu", "A quota must be between 0 and"),
        ({"time_limit": "soon"}, "time_limit", "soon is not a valid duration"),
        ({"time_limit": "9999999d"}, "time_limit", "at most 36500 days"),
        ({"volume_capacity": "0"}, "volume_capacity", "volume_capacity must be between 1"),
        ({"display_name": "x" * 300}, "display_name", "at most 255 characters"),
    ],
)
async def test_what_is_wrong_is_told_at_its_field(rig: Rig, typed: dict[str, str], field: str, says: str) -> None:
    async with open_desk(rig) as desk:
        answer = await fill(desk, "/admin/groups/new", **{"name": "team", "description": "kept", **typed})
        assert answer.status_code == 400
        assert says in text_of(problem_at(answer.text, field) + " ")
        assert values_in(answer.text)["description"] == ["kept"]
    assert [group.name for group in await rig.house.services.groups.list(rig.house.admin)] == ["default"]


async def test_an_empty_bound_is_none_and_no_time_limit_is_0(rig: Rig) -> None:
    bounds = Quota(cpu=1, gpu=1, memory=GIB)
    await rig.house.services.groups.create(rig.house.admin, Group(name="team", quota=bounds, user_quota=bounds))
    async with open_desk(rig) as desk:
        answer = await fill(
            desk, "/admin/groups/team/edit", quota__cpu="", quota__memory="0", user_quota__memory="", time_limit="0"
        )
        assert answer.status_code == 303
        assert values_in((await desk.get("/admin/groups/team/edit")).text)["time_limit"] == ["0"]
    group = await rig.house.services.groups.get(rig.house.admin, "team")
    assert group.quota == Quota(gpu=1, memory=0)
    assert group.time_limit == timedelta(0)


async def test_two_admins_do_not_overwrite_each_other_unseen(rig: Rig) -> None:
    async with open_desk(rig) as one, open_desk(rig) as other:
        opened = (await one.get("/admin/groups/default/edit")).text
        assert (await fill(other, "/admin/groups/default/edit", quota__gpu="4")).status_code == 303
        answer = await send(one, "/admin/groups/default/edit", opened, quota__cpu="3")
        assert answer.status_code == 409
        assert "Current value: 4" in problem_at(answer.text, "quota.gpu")
        assert (await rig.house.services.groups.get(rig.house.admin, "default")).quota == Quota(gpu=4)


async def test_a_group_that_is_gone_meanwhile_is_not_found(rig: Rig) -> None:
    await rig.house.add_group("team")
    async with open_desk(rig) as desk:
        opened = (await desk.get("/admin/groups/team/edit")).text
        await rig.house.services.groups.delete(rig.house.admin, "team")
        assert (await send(desk, "/admin/groups/team/edit", opened, description="x")).status_code == 404


async def test_before_a_group_goes_it_is_listed_what_goes_with_it(rig: Rig) -> None:
    await rig.house.user("grace", "red")
    await rig.house.services.instance_types.grant(rig.house.admin, "cpu-1", "red")
    async with open_desk(rig) as desk:
        asked = text_of((await desk.get("/admin/groups/red/delete")).text)
        assert "1 member is removed from it." in asked
        assert "It loses access to: cpu-1" in asked
        assert (await fill(desk, "/admin/groups/red/delete")).headers["location"] == "/admin/groups"
        refused = await fill(desk, "/admin/groups/default/delete")
        assert refused.status_code == 409
        assert "cannot be deleted" in text_of(refused.text)
    assert [group.name for group in await rig.house.services.groups.list(rig.house.admin)] == ["default"]
