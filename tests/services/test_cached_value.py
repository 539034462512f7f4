from __future__ import annotations

import asyncio

import pytest

from holdfast.services.cached_value import CachedValue

pytestmark = pytest.mark.anyio


class Source:
    """Something that is read and written as slowly as a test likes."""

    def __init__(self) -> None:
        self.value = 1
        self.reads = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def read(self) -> int:
        self.reads += 1
        value = self.value
        await self.go_on.wait()
        return value

    async def write(self, value: int) -> int:
        await self.go_on.wait()
        self.value = value
        return value


async def test_it_is_read_once_until_it_changes() -> None:
    source = Source()
    remembered = CachedValue(source.read)
    assert [await remembered.get() for _ in range(3)] == [1, 1, 1]
    assert source.reads == 1
    assert await remembered.invalidate_after(source.write(2)) == 2
    assert await remembered.get() == 2


async def test_what_was_read_before_a_change_is_not_kept() -> None:
    source = Source()
    remembered = CachedValue(source.read)
    source.go_on.clear()
    reading = asyncio.create_task(remembered.get())
    await asyncio.sleep(0)
    source.value = 2
    remembered.invalidate()
    source.go_on.set()
    assert await reading == 1
    assert await remembered.get() == 2


async def test_a_write_whose_caller_is_gone_is_still_a_change() -> None:
    source = Source()
    remembered = CachedValue(source.read)
    source.go_on.clear()
    writing = asyncio.create_task(remembered.invalidate_after(source.write(2)))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    source.go_on.set()
    assert await remembered.get() == 1  # the write has not come to pass yet
    async with asyncio.timeout(20):
        while await remembered.get() == 1:
            await asyncio.sleep(0)


async def test_a_write_that_fails_is_taken_for_a_change() -> None:
    source = Source()
    remembered = CachedValue(source.read)
    await remembered.get()

    async def fail() -> None:
        source.value = 3
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        await remembered.invalidate_after(fail())
    assert await remembered.get() == 3
