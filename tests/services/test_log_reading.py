from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.logs import reading as log_reading
from holdfast.services.logs.reading import find_last_lines_start, follow_source, get_full_span, iter_span_chunks

from .sources import FileSource

pytestmark = pytest.mark.anyio


async def tail(source: FileSource, lines: int) -> bytes:
    span = await get_full_span(source)
    start = await find_last_lines_start(source, span, lines)
    return await source.read(start, span.end - start)


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (b"", 5, b""),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc\n", 1, b"c\n"),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 99, b"a\nb\nc\n"),
        (b"a\nb\nc", 1, b"c"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"one line without an end", 1, b"one line without an end"),
    ],
)
async def test_last_lines(tmp_path: Path, data: bytes, lines: int, expected: bytes) -> None:
    assert await tail(FileSource(tmp_path / "log", data), lines) == expected


@given(st.lists(st.integers(0, 40)), st.booleans(), st.integers(0, 12), st.integers(1, 7))
def test_last_lines_agree_with_splitting(lengths: list[int], ended: bool, wanted: int, chunk: int) -> None:
    import tempfile

    data = b"\n".join(b"x" * length for length in lengths) + (b"\n" if ended and lengths else b"")
    expected = b"".join(data.splitlines(keepends=True)[-wanted:] if wanted else [])

    async def check() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return await tail(FileSource(Path(folder) / "log", data), wanted)

    before = log_reading.TAIL_CHUNK_SIZE
    log_reading.TAIL_CHUNK_SIZE = chunk
    try:
        assert asyncio.run(check()) == expected
    finally:
        log_reading.TAIL_CHUNK_SIZE = before


async def test_the_last_lines_of_a_long_log_cost_what_they_are_long(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"0123456789abcde\n" * 1_000_000)
    assert await tail(source, 3) == b"0123456789abcde\n" * 3
    assert sum(count for _, count in source.reads) < 200_000


async def test_last_lines_stop_at_what_the_cap_has_left(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"gone\nkept\nlast\n", first=5)
    assert await tail(source, 10) == b"kept\nlast\n"


async def test_a_span_is_read_in_chunks(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    source = FileSource(tmp_path / "log", data)
    chunks = [chunk async for chunk in iter_span_chunks(source, await get_full_span(source))]
    assert b"".join(chunks) == data
    assert max(map(len, chunks)) <= log_reading.CHUNK_SIZE


async def test_following_gives_every_byte_once(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"early ", complete=False)
    seen: list[tuple[int, bytes]] = []

    async def read() -> None:
        async for offset, data in follow_source(source, 0):
            if data:
                seen.append((offset, data))

    reader = asyncio.create_task(read())
    for part in (b"one ", b"two ", b"three"):
        while b"".join(data for _, data in seen) != source.path.read_bytes():
            await asyncio.sleep(0)
        source.write(part)
    source.write(b"!")
    source.finish()
    await asyncio.wait_for(reader, 20)
    assert b"".join(data for _, data in seen) == b"early one two three!"
    assert all(source.path.read_bytes()[offset : offset + len(data)] == data for offset, data in seen)


async def test_following_begins_where_it_is_told(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"0123456789")
    assert [piece async for piece in follow_source(source, 7)] == [(7, b"789")]
    assert [piece async for piece in follow_source(source, 99)] == []


async def test_a_follower_overtaken_by_the_cap_goes_on_at_what_is_left(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"0123456789")
    async with aclosing(follow_source(source, 0)) as pieces:
        source.kept_from = 6
        assert [piece async for piece in pieces] == [(6, b"6789")]


async def test_a_quiet_log_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "FOLLOW_INTERVAL", 0.001)
    source = FileSource(tmp_path / "log", b"", complete=False)
    async with aclosing(follow_source(source, 0)) as pieces:
        assert await anext(pieces) == (0, b"")
