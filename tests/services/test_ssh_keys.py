"""One's own SSH keys: each is one user's alone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import Conflict
from holdfast.launching.keys import make_job_key_pair
from holdfast.services.people.users import UserChange

from .house import House

pytestmark = pytest.mark.anyio

HERS = make_job_key_pair(bytes(32)).public.rpartition(" ")[0]
OTHER = make_job_key_pair(b"\1" * 32).public.rpartition(" ")[0]


def extension(*keys: str) -> dict[str, Any]:
    return {"sshKeys": [{"title": "laptop", "value": key} for key in keys]}


async def test_a_key_is_one_users_alone(house: House) -> None:
    """Public keys are no secret: whoever claims another's would lead them into jobs of their own."""
    ann, eve = await house.user("ann", "red"), await house.user("eve", "blue")
    keys = house.services.keys
    [hers] = [await keys.add(ann, f"{HERS} ann@laptop")]
    with pytest.raises(Conflict, match="This SSH key belongs to another user") as caught:
        await keys.add(eve, f"{HERS} eve@laptop")
    assert "ann" not in f"{caught.value.message}{caught.value.hint}"
    assert await keys.list(eve) == []
    await keys.remove(ann, hers.id)
    await keys.add(eve, HERS)


async def test_nor_does_it_come_by_an_extension(house: House) -> None:
    ann, eve = await house.user("ann", "red"), await house.user("eve", "blue")
    users = house.services.users
    await users.update_extension(ann, "ann", extension(HERS))
    for replace in (False, True):
        with pytest.raises(Conflict, match="This SSH key belongs to another user"):
            await users.update_extension(eve, "eve", extension(OTHER, HERS), replace=replace)
    with pytest.raises(Conflict, match="This SSH key belongs to another user"):
        await users.create(house.admin, name="new", extension=extension(HERS))
    assert "new" not in [user.name for user in await users.list(house.admin)]
    await users.apply_change(ann, "ann", UserChange(extension=extension(HERS, OTHER)))  # what one has stays
    assert len(await house.services.keys.list(ann)) == 2


async def test_nor_for_some_minutes(house: House) -> None:
    ann = await house.user("ann", "red")
    await house.user("eve", "blue")
    logins, tokens = house.services.ssh_logins, house.services.tokens
    login = {name: (await tokens.create(house.admin, name="t", user=name)).text for name in ("ann", "eve")}
    await house.services.keys.add(ann, HERS)
    await logins.register_key(login["ann"], HERS)
    await logins.register_key(login["ann"], OTHER)
    for key in (HERS, OTHER):
        with pytest.raises(Conflict, match="This SSH key belongs to another user"):
            await logins.register_key(login["eve"], key)
    house.clock.forward(601)
    await logins.register_key(login["eve"], OTHER)
