"""What is said of names that nothing has: the nearest one, and never one that whoever asks may not know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias, InstanceType, Secret, SecretKind
from holdfast.core.errors import NotFound, UserError
from holdfast.core.job import GIB
from holdfast.core.records import Dataset
from holdfast.services.name_suggestions import suggest_name
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

Ask = Callable[[House, Actor], Awaitable[object]]

ASKED: dict[str, tuple[Ask, str]] = {
    "group": (lambda house, actor: house.services.groups.get(actor, "reserch"), "research"),
    "user": (lambda house, actor: house.services.users.get(actor, "an"), "ana"),
    "instance type": (lambda house, actor: house.services.instance_types.get(actor, "huge-8"), "huge-9"),
    "image alias": (lambda house, actor: house.services.image_aliases.get(actor, "pytroch"), "pytorch"),
    "dataset": (lambda house, actor: house.services.datasets.get(actor, "imagnet"), "imagenet"),
    "secret": (lambda house, actor: house.services.secrets.get(actor, "gitlap"), "gitlab"),
}


@pytest.fixture
async def furnished(house: House) -> House:
    services, admin = house.services, house.admin
    await house.user("ana", "research")
    folder = house.home.parent / "pictures"
    folder.mkdir()
    await services.datasets.create(admin, Dataset(name="imagenet", path=str(folder), groups=("research",)))
    await services.datasets.grant(admin, "imagenet", "research")
    await services.instance_types.create(
        admin, InstanceType(name="huge-9", cpu=9, memory=GIB, everyone=False, groups=("research",))
    )
    await services.image_aliases.create(
        admin, ImageAlias(name="pytorch", url="host", everyone=False, groups=("research",))
    )
    await services.secrets.create(admin, Secret(name="gitlab", kind=SecretKind.OPAQUE), "hunter2")
    return house


async def hint_of(asked: Awaitable[object]) -> str:
    with pytest.raises(UserError) as caught:
        await asked
    return caught.value.hint or ""


@pytest.mark.parametrize("what", ASKED)
async def test_the_nearest_name_is_told_to_whoever_may_know_it(furnished: House, what: str) -> None:
    ask, near = ASKED[what]
    assert await hint_of(ask(furnished, furnished.admin)) == f"Did you mean {near!r}?"


@pytest.mark.parametrize("what", ASKED)
async def test_others_are_told_how_to_list_theirs(furnished: House, what: str) -> None:
    ask, near = ASKED[what]
    stranger = await furnished.user("zoe", "default")
    told = await hint_of(ask(furnished, stranger))
    assert near not in told
    assert told.startswith("`holdfast ")


async def test_an_image_without_its_tag(tmp_path: Path) -> None:
    text = "name: train\nimage: mini\ncommand: true\n"
    async with open_house(tmp_path / "home", engine=FakeEngine(images=("host", "mini:1"))) as house:
        planned = await house.services.jobs.plan(house.admin, text)
        assert planned.verdict.reasons == ("there is no image mini on this server. Did you mean 'mini:1'?",)
        assert planned.warnings == ()
        (warning,) = (await house.services.jobs.submit(house.admin, text)).warnings
        assert warning.endswith(
            "the job fails when it starts, unless the image is imported first. Did you mean 'mini:1'?"
        )


async def test_a_member_added_by_an_admin_of_the_group_alone(furnished: House) -> None:
    boss = Actor(name="boss", groups={"research": True})
    with pytest.raises(NotFound, match="User an not found") as caught:
        await furnished.services.groups.set_member(boss, "research", "an", admin=False)
    assert "ana" not in (caught.value.hint or "")


async def test_a_job_for_a_misspelt_group(furnished: House) -> None:
    ana = Actor(name="ana", groups={"research": False})
    hint = await hint_of(furnished.services.jobs.submit(ana, "name: a\ngroup: reserch\ncommand: true\n"))
    assert hint.startswith("Did you mean 'research'?")


def test_nothing_near_and_nothing_to_list() -> None:
    assert suggest_name("a", ["zebra"]) == ""
