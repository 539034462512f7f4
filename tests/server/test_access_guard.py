"""Access that is watched for as long as something lasts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import NotLoggedIn
from holdfast.server.access_guard import AccessGuard
from holdfast.store import tokens as token_rows

from .rig import Rig

pytestmark = pytest.mark.anyio


def allow(actor: Actor) -> None:
    pass


async def test_many_that_watch_one_token_cost_one_look_for_each_change(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = rig.house.services.tokens
    made = await tokens.create(rig.house.admin, name="x")
    looks = 0
    look = token_rows.load_token_with_owner

    def counted(*given: object) -> object:
        nonlocal looks
        looks += 1
        return look(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(token_rows, "load_token_with_owner", counted)
    watching = [
        asyncio.create_task(AccessGuard(tokens, lambda: tokens.resolve_actor(made.text), allow).wait_for_revocation())
        for _ in range(50)
    ]
    await asyncio.sleep(0)
    looks = 0
    await tokens.delete(rig.house.admin, made.token.id)
    done = await asyncio.gather(*watching, return_exceptions=True)
    assert all(isinstance(each, NotLoggedIn) for each in done)
    assert looks <= 3  # that of the deletion, and one for each state of affairs


async def test_work_is_cancelled_when_a_token_expires(rig: Rig) -> None:
    tokens, clock = rig.house.services.tokens, rig.house.clock
    made = await tokens.create(rig.house.admin, name="x", expires_in=timedelta(seconds=0.2))
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            clock.forward(1)
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(NotLoggedIn, match="expired"):
        await asyncio.wait_for(
            AccessGuard(tokens, lambda: tokens.resolve_actor(made.text), allow).run_guarded(work()), 20
        )
    assert cancelled.is_set()


async def test_the_result_of_work_comes_through_and_so_do_its_errors(rig: Rig) -> None:
    tokens = rig.house.services.tokens
    made = await tokens.create(rig.house.admin, name="x")
    guard = AccessGuard(tokens, lambda: tokens.resolve_actor(made.text), allow)

    async def answer() -> int:
        return 42

    async def fail() -> int:
        raise ValueError("no")

    assert await guard.run_guarded(answer()) == 42
    with pytest.raises(ValueError, match="no"):
        await guard.run_guarded(fail())
