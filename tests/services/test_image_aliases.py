"""Image aliases: who looks after them, who may use them, and what their names mean to jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias, ImageKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.job import Role
from holdfast.services.catalogue import image_aliases
from holdfast.services.catalogue.image_aliases import ImageAliasChange
from holdfast.services.errors import ImageAliasNotFound
from holdfast.store.jobs import records as job_rows

from .house import House

pytestmark = pytest.mark.anyio

TORCH = ImageAlias(name="torch", url="registry.example/torch:2", gpu_url="registry.example/torch:2-cuda", everyone=True)
HEAD = Actor(name="head", groups={"default": True})
MEMBER = Actor(name="ann", groups={"default": False})


def names(aliases: list[ImageAlias]) -> list[str]:
    return [alias.name for alias in aliases]


async def role_of(house: House, job_id: str) -> Role:
    (role,) = (await house.store.read(job_rows.load_job_detail, job_id)).job.roles
    return role


async def test_the_machine_itself_has_a_name_at_first(house: House) -> None:
    aliases = house.services.image_aliases
    (host,) = await aliases.list_usable_aliases(MEMBER, "default")
    assert (host.name, host.url, host.everyone) == ("host", "host", True)
    await aliases.delete(house.admin, "host")
    await house.services.seed_catalogue()
    assert await aliases.list(house.admin) == []


@pytest.mark.parametrize("name", ["", "A", "torch:2", "a/b", "-a", "é", "a" * 64, "a\n"])
async def test_names_are_those_of_machines(house: House, name: str) -> None:
    with pytest.raises(UserError, match="is not a valid name for an image alias"):
        await house.services.image_aliases.create(house.admin, replace(TORCH, name=name))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"url": ""}, "requires an image"),
        ({"url": "a b"}, "without spaces"),
        ({"url": "a\nb"}, "control characters"),
        ({"url": "x" * 513}, "at most 512"),
        ({"gpu_url": "a\u00a0b"}, "control characters|without spaces"),
        ({"pull_secret": "none"}, "Secret none of kind registry not found"),
        ({"groups": ("none",)}, "Group none not found"),
    ],
)
async def test_what_an_alias_cannot_be(house: House, wrong: dict[str, Any], why: str) -> None:
    aliases = house.services.image_aliases
    with pytest.raises(UserError, match=why):
        await aliases.create(house.admin, replace(TORCH, **wrong))
    await aliases.create(house.admin, TORCH)
    with pytest.raises(UserError, match=why):
        await aliases.change(house.admin, "torch", ImageAliasChange(**wrong))
    assert await aliases.get(house.admin, "torch") == TORCH
    with pytest.raises(Conflict):
        await aliases.create(house.admin, TORCH)


async def test_only_one_that_is_good_for_both_has_two_images(house: House) -> None:
    aliases = house.services.image_aliases
    made = await aliases.create(house.admin, replace(TORCH, kind=ImageKind.CPU))
    assert made.gpu_url == ""
    assert (await aliases.change(house.admin, "torch", ImageAliasChange(gpu_url="x"))).gpu_url == ""
    both = await aliases.change(house.admin, "torch", ImageAliasChange(kind=ImageKind.BOTH, gpu_url="x"))
    assert (both.choose_image(0), both.choose_image(1)) == (TORCH.url, "x")


async def test_admins_of_a_group_look_after_its_own(house: House) -> None:
    aliases = house.services.image_aliases
    own = ImageAlias(name="ours", url="a:1", owner="default")
    made = await aliases.create(HEAD, own)
    assert made == replace(own, groups=("default",))
    assert (await aliases.change(HEAD, "ours", ImageAliasChange(url="a:2"))).url == "a:2"
    for change in (ImageAliasChange(everyone=True), ImageAliasChange(groups=("default", "red"))):
        with pytest.raises(Forbidden, match="Only admins can share"):
            await aliases.change(HEAD, "ours", change)
    with pytest.raises(Forbidden, match="Only admins can share"):
        await aliases.create(HEAD, replace(own, name="more", everyone=True))
    for actor in (MEMBER, Actor(name="bob")):
        with pytest.raises((Forbidden, ImageAliasNotFound)):
            await aliases.change(actor, "ours", ImageAliasChange(url="evil"))
        with pytest.raises((Forbidden, ImageAliasNotFound)):
            await aliases.delete(actor, "ours")
    await aliases.delete(HEAD, "ours")


async def test_a_group_has_so_many_and_no_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_aliases, "MAX_ALIASES_PER_GROUP", 2)
    aliases = house.services.image_aliases
    for name in ("one", "two"):
        await aliases.create(HEAD, ImageAlias(name=name, url="a", owner="default"))
    with pytest.raises(UserError, match="already has the maximum of 2 image aliases"):
        await aliases.create(HEAD, ImageAlias(name="three", url="a", owner="default"))
    await aliases.create(house.admin, TORCH)


async def test_what_admins_of_a_group_may_not(house: House) -> None:
    aliases = house.services.image_aliases
    await house.add_group("red")
    await aliases.create(house.admin, TORCH)
    for doing in (
        aliases.create(HEAD, replace(TORCH, name="mine")),
        aliases.create(HEAD, ImageAlias(name="mine", url="a", owner="red")),
        aliases.change(HEAD, "torch", ImageAliasChange(url="evil")),
        aliases.delete(HEAD, "torch"),
        aliases.grant(HEAD, "torch", "default"),
        aliases.revoke(HEAD, "torch", "default"),
    ):
        with pytest.raises(Forbidden):
            await doing
    shared = await aliases.create(house.admin, ImageAlias(name="ours", url="a", owner="default", groups=("red",)))
    assert shared.groups == ("default", "red")
    # What an admin shared stays shared when the group's own admin changes the image.
    assert (await aliases.change(HEAD, "ours", ImageAliasChange(url="b"))).groups == ("default", "red")
    with pytest.raises(UserError, match="belongs to default"):
        await aliases.revoke(house.admin, "ours", "default")


async def test_members_see_what_is_for_their_groups(house: House) -> None:
    aliases = house.services.image_aliases
    ann, bob = await house.user("ann", "red"), await house.user("bob", "blue")
    await aliases.create(house.admin, ImageAlias(name="zebra", url="a", groups=("red",)))
    assert names(await aliases.list_usable_aliases(ann, "red")) == ["zebra", "host"]  # its own first
    assert names(await aliases.list(bob)) == ["host"]
    assert await aliases.list_usable_aliases(bob, "red") == []
    with pytest.raises(ImageAliasNotFound):
        await aliases.get(bob, "zebra")
    await aliases.grant(house.admin, "zebra", "blue")
    assert names(await aliases.list(bob)) == ["host", "zebra"]
    await aliases.revoke(house.admin, "zebra", "blue")
    with pytest.raises(NotFound, match="not granted to blue"):
        await aliases.revoke(house.admin, "zebra", "blue")
    with pytest.raises(ImageAliasNotFound):
        await aliases.delete(house.admin, "none")


# -- what their names mean to jobs


def ours(image: str, gpu: int = 0, group: str = "default") -> str:
    job = {"name": "x", "command": "y", "image": image, "group": group, "resources": {"cpu": 0.1, "gpu": gpu}}
    return json.dumps(job)


def form(image: str, size: str) -> str:
    return json.dumps({"displayName": "x", "instanceType": size, "image": image, "command": "y"})


def openpai(image: str, gpu: int) -> str:
    role = {"dockerImage": "img", "commands": ["y"], "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": gpu}}
    prerequisites = [{"name": "img", "type": "dockerimage", "uri": image}]
    return json.dumps(
        {"protocolVersion": 2, "name": "x", "type": "job", "prerequisites": prerequisites, "taskRoles": {"a": role}}
    )


@pytest.mark.parametrize(
    ("plain", "with_gpu"),
    [
        (ours("torch"), ours("torch", gpu=1)),
        (form("torch", "cpu-1"), form("torch", "gpu-1")),
        (openpai("torch", 0), openpai("torch", 1)),
    ],
)
async def test_every_dialect_may_name_one(house: House, plain: str, with_gpu: str) -> None:
    await house.services.image_aliases.create(house.admin, TORCH)
    for text, url in ((plain, TORCH.url), (with_gpu, TORCH.gpu_url)):
        role = await role_of(house, (await house.submit(text)).id)
        assert (role.image, role.image_url, role.engine_image) == ("torch", url, url)


async def test_the_engine_gets_the_image_and_warnings_name_it(house: House) -> None:
    aliases = house.services.image_aliases
    await aliases.create(house.admin, replace(TORCH, url="gone:1"))
    submitted = await house.services.jobs.submit(house.admin, ours("torch"))
    assert any("image gone:1 is not on this server" in warning for warning in submitted.warnings)
    planned = await house.services.jobs.plan(house.admin, ours("torch"))
    assert (planned.verdict.answer, planned.verdict.reasons) == ("never", ("there is no image gone:1 on this server",))
    assert planned.warnings == ()
    assert "image: torch\n" in planned.yaml
    await aliases.change(house.admin, "torch", ImageAliasChange(url="host"))
    assert (await house.services.jobs.submit(house.admin, ours("torch"))).warnings == ()
    assert (await house.services.jobs.plan(house.admin, ours("torch"))).verdict.answer == "now"


async def test_a_rerun_gets_what_the_name_stands_for_now(house: House) -> None:
    aliases = house.services.image_aliases
    await aliases.create(house.admin, TORCH)
    job = await house.submit(ours("torch"))
    await aliases.change(house.admin, "torch", ImageAliasChange(url="new:1"))
    again = (await house.services.jobs.rerun(house.admin, job.id)).summary
    assert (await role_of(house, again.id)).engine_image == "new:1"
    await aliases.delete(house.admin, "torch")
    last = (await house.services.jobs.rerun(house.admin, again.id)).summary
    assert (await role_of(house, last.id)).engine_image == "torch"
    assert (await role_of(house, job.id)).engine_image == TORCH.url


async def test_a_name_that_is_not_for_the_group_is_no_alias(house: House) -> None:
    ann = await house.user("ann", "red", "blue")
    await house.services.image_aliases.create(house.admin, replace(TORCH, everyone=False, groups=("red",)))
    theirs = await house.submit(ours("torch", group="red"), ann)
    other = await house.submit(ours("torch", group="blue"), ann)
    assert (await role_of(house, theirs.id)).engine_image == TORCH.url
    assert (await role_of(house, other.id)).engine_image == "torch"


async def test_one_alias_does_not_lead_to_another(house: House) -> None:
    aliases = house.services.image_aliases
    await aliases.create(house.admin, ImageAlias(name="a", url="b", everyone=True))
    await aliases.create(house.admin, ImageAlias(name="b", url="a", everyone=True))
    assert (await role_of(house, (await house.submit(ours("a"))).id)).engine_image == "b"
