from __future__ import annotations

import asyncio

import pytest

from holdfast.services.fair_slots import FairSlots, SlotsBusy

pytestmark = pytest.mark.anyio


class Work:
    """Requests for slots, each of which keeps its slot until it is ended by hand."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, *names: str) -> None:
        """The key of a request is the first letter of its name, its client what follows up to a hyphen."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
        await self.settle()

    async def _hold(self, name: str) -> None:
        client = name[1:].rpartition("-")[0]
        async with self.slots.slot(name[0], client):
            self.started.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await self.settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_one_key_leaves_a_slot_for_others() -> None:
    work = Work(FairSlots(2))
    await work.begin("a1", "a2", "a3", "b1")
    assert work.started == ["a1", "b1"]
    await work.end("b1")
    assert work.started == ["a1", "b1"]
    await work.end("a1")
    assert work.started == ["a1", "b1", "a2"]
    await work.end("a2")
    await work.end("a3")


async def test_keys_take_turns() -> None:
    work = Work(FairSlots(1))
    await work.begin("a1", "a2", "a3", "b1", "c1", "b2")
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert work.started[-1] == name
        await work.end(name)


async def test_clients_of_one_key_take_turns_and_have_one_turn_together() -> None:
    work = Work(FairSlots(1))
    await work.begin("ax-1", "ax-2", "ax-3", "ay-1", "az-1", "b1", "b2")
    for name in ("ax-1", "ax-2", "b1", "ay-1", "b2", "az-1", "ax-3"):
        assert work.started[-1] == name
        await work.end(name)


async def test_only_so_many_of_one_client_wait() -> None:
    slots = FairSlots(1, max_waiting=1)
    work = Work(slots)
    await work.begin("ax-1", "ax-2", "ax-3", "ay-1")
    with pytest.raises(SlotsBusy):
        await work.tasks["ax-3"]
    await work.cancel("ax-2")
    await work.end("ax-1")
    assert work.started == ["ax-1", "ay-1"]
    await work.end("ay-1")
    assert (slots._free, slots._waiting, slots._used) == (1, {}, {})


async def test_only_so_many_of_one_key_wait() -> None:
    work = Work(FairSlots(1, max_waiting=2))
    await work.begin("a1", "a2", "a3", "a4", "b1")
    with pytest.raises(SlotsBusy):
        await work.tasks["a4"]
    for name in ("a1", "a2", "b1", "a3"):
        await work.end(name)
    assert work.started == ["a1", "a2", "b1", "a3"]


async def test_waiting_has_an_end() -> None:
    slots = FairSlots(1, timeout=0.01)
    async with slots.slot("a"):
        with pytest.raises(SlotsBusy):
            async with slots.slot("b"):
                pass
    async with slots.slot("b"):
        pass
    assert not slots._waiting
    assert not slots._used


async def test_a_request_that_leaves_gives_its_place_to_the_next() -> None:
    slots = FairSlots(1)
    work = Work(slots)
    await work.begin("a1", "b1", "c1")
    await work.cancel("b1")
    await work.end("a1")
    assert work.started == ["a1", "c1"]
    await work.begin("d1", "e1")
    work._ends["c1"].set()
    work.tasks["d1"].cancel()  # in the same moment as it is granted the slot
    await asyncio.wait([work.tasks["c1"], work.tasks["d1"]])
    await work.settle()
    assert work.started[-1] == "e1"
    await work.end("e1")
    assert (slots._free, slots._waiting, slots._used) == (1, {}, {})
