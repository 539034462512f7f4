"""What clients keep with users and groups."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden, NotFound, UserError
from holdfast.launching.keys import make_job_key_pair
from holdfast.services.people.extensions import (
    MAX_EXTENSION_DEPTH,
    MAX_EXTENSION_SIZE,
    check_extension,
    merge_extension,
)
from holdfast.services.people.groups import GroupChange
from holdfast.services.people.users import UserChange

from .house import House

pytestmark = pytest.mark.anyio

PUBLIC = make_job_key_pair(bytes(32)).public
KEY = {"title": "laptop", "value": PUBLIC, "time": 1625472000000}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_merged_by_key_or_replaced() -> None:
    before = {"a": 1, "b": {"c": 2}}
    assert merge_extension(before, {"b": 3, "d": 4}, replace=False) == {"a": 1, "b": 3, "d": 4}
    assert merge_extension(before, {"a": None}, replace=False) == {"b": {"c": 2}}
    assert merge_extension(before, {"d": 4, "e": None}, replace=True) == {"d": 4}


@pytest.mark.parametrize(
    "extension",
    [
        {},
        {"sshKeys": []},
        {"sshKeys": [KEY, {"title": "", "value": PUBLIC}]},
        {"any": nested(MAX_EXTENSION_DEPTH - 1)},
        {"any": "x" * (MAX_EXTENSION_SIZE - 20)},
    ],
)
def test_what_is_kept(extension: dict[str, Any]) -> None:
    check_extension(extension)


@pytest.mark.parametrize(
    "extension",
    [
        {"any": nested(MAX_EXTENSION_DEPTH)},
        {"any": "x" * MAX_EXTENSION_SIZE},
        {"sshKeys": KEY},
        {"sshKeys": ["ssh-rsa A"]},
        {"sshKeys": [{"title": "t"}]},
        {"sshKeys": [{"title": "t", "value": " "}]},
        {"sshKeys": [{"value": "ssh-rsa A"}]},
        {"sshKeys": [{**KEY, "value": "ssh-rsa A\nssh-rsa B"}]},
        {"sshKeys": [{**KEY, "value": "ssh-rsa A\u2028ssh-rsa B"}]},
        {"sshKeys": [{**KEY, "value": f"{PUBLIC}\n{PUBLIC}"}]},
        {"sshKeys": [{**KEY, "value": "ssh-ed25519 AAAA alice@laptop"}]},
        {"sshKeys": [{**KEY, "value": f"nonsense {PUBLIC}"}]},
        {"sshKeys": [{**KEY, "time": []}]},
        {"sshKeys": [KEY] * 101},
    ],
)
def test_what_is_refused(extension: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        check_extension(extension)


async def test_users_extend_themselves_and_admins_anyone(house: House) -> None:
    alice = await house.user("alice", "default")
    users = house.services.users
    await users.update_extension(alice, "alice", {"sshKeys": [KEY], "a": 1})
    await users.update_extension(house.admin, "alice", {"a": None, "b": 2})
    assert (await users.get(alice, "alice")).extension == {"sshKeys": [KEY], "b": 2}
    await users.update_extension(alice, "alice", {"c": 3}, replace=True)
    assert (await users.get(alice, "alice")).extension == {"c": 3}
    for name in ("admin", "nobody"):
        with pytest.raises(Forbidden):
            await users.update_extension(alice, name, {"a": 1})
    with pytest.raises(NotFound):
        await users.update_extension(house.admin, "nobody", {"a": 1})


async def test_many_small_changes_do_not_grow_beyond_the_limit(house: House) -> None:
    users = house.services.users
    await users.update_extension(house.admin, "admin", {"a": "x" * (MAX_EXTENSION_SIZE // 2)})
    with pytest.raises(UserError):
        await users.update_extension(house.admin, "admin", {"b": "x" * (MAX_EXTENSION_SIZE // 2)})
    assert set((await users.get(house.admin, "admin")).extension) == {"a"}


async def test_only_admins_extend_groups(house: House) -> None:
    alice = await house.user("alice", "default")
    groups = house.services.groups
    await groups.update_extension(house.admin, "default", {"a": 1, "b": 1})
    await groups.update_extension(house.admin, "default", {"b": 2})
    assert (await groups.get(alice, "default")).extension == {"a": 1, "b": 2}
    await groups.change(house.admin, "default", GroupChange(description="two\nlines"))
    changed = await groups.get(alice, "default")
    assert (changed.extension, changed.description) == ({"a": 1, "b": 2}, "two\nlines")
    with pytest.raises(Forbidden):
        await groups.update_extension(alice, "default", {"a": 1})
    with pytest.raises(NotFound):
        await groups.update_extension(house.admin, "nowhere", {"a": 1})
    with pytest.raises(UserError):
        await groups.change(house.admin, "default", GroupChange(description="a\0b"))


async def test_one_change_of_a_user_is_whole(house: House) -> None:
    await house.user("alice", "default", password="a password of alice")
    await house.add_group("research")
    change = UserChange(email="new@example.com", groups=frozenset({"research", "nowhere"}))
    with pytest.raises(NotFound):
        await house.services.users.apply_change(house.admin, "alice", change)
    found = await house.services.users.get(house.admin, "alice")
    assert (found.email, dict(found.groups)) == ("", {"default": False})


@pytest.mark.parametrize(
    "change",
    [
        UserChange(admin=True),
        UserChange(disabled=False),
        UserChange(password="a password of alice"),
        UserChange(groups=frozenset()),
    ],
)
async def test_what_nobody_changes_of_themselves(house: House, change: UserChange) -> None:
    alice = await house.user("alice", "default")
    with pytest.raises(Forbidden):
        await house.services.users.apply_change(alice, "alice", change)


async def test_who_reads_everything_sees_everybody(house: House) -> None:
    await house.add_group("research")
    reader = Actor(name="bob", can_read_all_jobs=True)
    assert [user.name for user in await house.services.users.list(reader)] == ["admin"]
    assert [group.name for group in await house.services.groups.list(reader)] == ["default", "research"]
    assert {use.group for use in (await house.services.installation.get_capacity(reader)).groups} == {
        "default",
        "research",
    }
    with pytest.raises(Forbidden):
        await house.services.groups.update_extension(reader, "research", {"a": 1})


async def test_guests_only_where_anyone_reads(house: House) -> None:
    assert house.services.tokens.get_guest() is None
