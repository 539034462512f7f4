from __future__ import annotations

import asyncio
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.services.fair_limiter import FairLimiter, LimitReached
from tests.longer import examples

pytestmark = pytest.mark.anyio


class Work:
    """Requests for slots, each of which keeps its slot until it is ended by hand."""

    def __init__(self, limiter: FairLimiter) -> None:
        self.limiter = limiter
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
        async with self.limiter.use_slot(name[0], client):
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
    work = Work(FairLimiter(2))
    await work.begin("a1", "a2", "a3", "b1")
    assert work.started == ["a1", "b1"]
    await work.end("b1")
    assert work.started == ["a1", "b1"]
    await work.end("a1")
    assert work.started == ["a1", "b1", "a2"]
    await work.end("a2")
    await work.end("a3")


async def test_keys_take_turns() -> None:
    work = Work(FairLimiter(1))
    await work.begin("a1", "a2", "a3", "b1", "c1", "b2")
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert work.started[-1] == name
        await work.end(name)


async def test_clients_of_one_key_take_turns_and_have_one_turn_together() -> None:
    work = Work(FairLimiter(1))
    await work.begin("ax-1", "ax-2", "ax-3", "ay-1", "az-1", "b1", "b2")
    for name in ("ax-1", "ax-2", "b1", "ay-1", "b2", "az-1", "ax-3"):
        assert work.started[-1] == name
        await work.end(name)


async def test_only_so_many_of_one_client_wait() -> None:
    limiter = FairLimiter(1, max_waiting=1)
    work = Work(limiter)
    await work.begin("ax-1", "ax-2", "ax-3", "ay-1")
    with pytest.raises(LimitReached):
        await work.tasks["ax-3"]
    await work.cancel("ax-2")
    await work.end("ax-1")
    assert work.started == ["ax-1", "ay-1"]
    await work.end("ay-1")
    assert (limiter._free_slots, limiter._queues, limiter._used_slots) == (1, {}, {})


async def test_only_so_many_of_one_key_wait() -> None:
    work = Work(FairLimiter(1, max_waiting=2))
    await work.begin("a1", "a2", "a3", "a4", "b1")
    with pytest.raises(LimitReached):
        await work.tasks["a4"]
    for name in ("a1", "a2", "b1", "a3"):
        await work.end(name)
    assert work.started == ["a1", "a2", "b1", "a3"]


async def test_waiting_has_an_end() -> None:
    limiter = FairLimiter(1, timeout=0.01)
    async with limiter.use_slot("a"):
        with pytest.raises(LimitReached):
            async with limiter.use_slot("b"):
                pass
    async with limiter.use_slot("b"):
        pass
    assert not limiter._queues
    assert not limiter._used_slots


async def test_a_request_that_leaves_gives_its_place_to_the_next() -> None:
    limiter = FairLimiter(1)
    work = Work(limiter)
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
    assert (limiter._free_slots, limiter._queues, limiter._used_slots) == (1, {}, {})


async def test_a_key_uses_as_many_slots_as_it_may() -> None:
    work = Work(FairLimiter(3, per_key=2))
    await work.begin("a1", "a2", "a3", "b1", "b2")
    assert work.started == ["a1", "a2", "b1"]
    await work.end("b1")
    assert work.started[3:] == ["b2"]
    await work.end("a1")
    assert work.started[4:] == ["a3"]
    for name in ("a2", "a3", "b2"):
        await work.end(name)


async def test_without_a_total_only_keys_are_limited() -> None:
    work = Work(FairLimiter(per_key=1))
    names = [f"{letter}1" for letter in "abcdefgh"]
    await work.begin(*names, "a2")
    assert work.started == names
    for name in (*names, "a2"):
        await work.end(name)


async def test_a_slot_is_had_at_once_or_not_at_all() -> None:
    limiter = FairLimiter(3, per_key=2)
    release, *_ = [limiter.acquire_nowait(key) for key in "aab"]
    for key, by_key in (("a", True), ("b", False), ("c", False)):
        with pytest.raises(LimitReached) as refused:
            limiter.acquire_nowait(key)
        assert refused.value.by_key is by_key
    release()
    release()  # gives back nothing more
    limiter.acquire_nowait("c")
    with pytest.raises(LimitReached):
        limiter.acquire_nowait("d")
    assert not limiter._queues


async def test_a_slot_that_is_given_back_at_once_goes_to_those_who_wait() -> None:
    limiter = FairLimiter(1)
    release, work = limiter.acquire_nowait("a"), Work(limiter)
    await work.begin("b1")
    release()
    with pytest.raises(LimitReached):  # granted already
        limiter.acquire_nowait("c")
    await work.settle()
    assert work.started == ["b1"]
    await work.end("b1")


async def test_a_refusal_is_the_error_of_the_callers_choice() -> None:
    limiter = FairLimiter(1, max_waiting=0, refuse=lambda by_key: ValueError("own" if by_key else "all"))
    async with limiter.use_slot("a"):
        for key, reason in (("a", "own"), ("b", "all")):
            with pytest.raises(ValueError, match=reason):
                await limiter.acquire(key)


async def test_an_error_within_gives_the_slot_back() -> None:
    limiter = FairLimiter(1, timeout=10)
    with pytest.raises(TimeoutError):
        async with limiter.use_slot("a"):
            raise TimeoutError
    limiter.acquire_nowait("b")


steps = st.lists(st.tuples(st.sampled_from("bbec"), st.sampled_from("abcd"), st.sampled_from("xy"), st.integers(0, 99)))


@settings(max_examples=examples(300), deadline=None)
@given(steps=steps, total=st.sampled_from([1, 2, 3, inf]), per_key=st.sampled_from([1, 2, inf]))
def test_limits_hold_and_no_slot_is_lost_or_left_idle(
    steps: list[tuple[str, str, str, int]], total: float, per_key: float
) -> None:
    """Requests begin, end and are cancelled in any order, also several in the same moment."""

    async def run() -> None:
        limiter, running = FairLimiter(total, per_key=per_key, max_waiting=3), []
        ends: dict[asyncio.Task[None], asyncio.Event] = {}

        async def hold(key: str, client: str, end: asyncio.Event) -> None:
            async with limiter.use_slot(key, client):
                running.append(key)
                assert len(running) <= total
                assert running.count(key) <= per_key
                try:
                    await end.wait()
                finally:
                    running.remove(key)

        for act, key, client, number in steps:
            if act == "b":
                end = asyncio.Event()
                ends[asyncio.create_task(hold(key, client, end))] = end
            elif ends:
                task = list(ends)[number % len(ends)]
                ends[task].set() if act == "e" else task.cancel()
            if number % 3:  # otherwise the next step comes in the same moment
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not any(limiter._has_free_slot(key) for key in limiter._queues)
        for end in ends.values():
            end.set()
        results = await asyncio.gather(*ends, return_exceptions=True)
        expected = (asyncio.CancelledError, LimitReached)
        assert all(result is None or isinstance(result, expected) for result in results)
        assert (limiter._free_slots, limiter._queues, limiter._used_slots, running) == (total, {}, {}, [])

    asyncio.run(run())


async def test_a_request_that_leaves_right_after_it_was_granted_a_slot_gives_it_back() -> None:
    limiter = FairLimiter(1)
    release, work = limiter.acquire_nowait("a"), Work(limiter)
    await work.begin("b1", "c1")
    release()  # grants b1 the slot, which it does not know yet
    await work.cancel("b1")
    assert work.started == ["c1"]
    await work.end("c1")
    assert (limiter._free_slots, limiter._queues, limiter._used_slots) == (1, {}, {})
