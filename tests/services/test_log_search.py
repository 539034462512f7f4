from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import UserError
from holdfast.services.logs import search as log_search
from holdfast.services.logs.first_error import FIRST_ERROR
from holdfast.services.logs.search import Found, Question, Searches

from .sources import FileSource

pytestmark = pytest.mark.anyio

LOG = b"first line\nsecond \xc3\xa9t\xc3\xa9 line\nTHIRD line\nno newline at the end: line"


async def search(source: FileSource, query: str, *, budget: float = 20.0, **more: object) -> Found:
    return await Searches(budget).search(source, Question(query=query, **more), user="alice")  # type: ignore[arg-type]


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    return FileSource(tmp_path / "log", LOG)


@pytest.mark.parametrize("regex", [False, True])
async def test_hits_tell_where_they_are(source: FileSource, regex: bool) -> None:
    found = await search(source, "été", regex=regex)
    (hit,) = found.hits
    assert LOG[hit.offset :].startswith("été".encode())
    assert LOG[hit.line_offset :].startswith(b"second")
    assert hit.text == "second été line"
    assert found.next is None


async def test_letter_case_can_be_ignored(source: FileSource) -> None:
    assert (await search(source, "third")).hits == ()
    assert len((await search(source, "third", ignore_case=True)).hits) == 1
    assert len((await search(source, "^thi.d", ignore_case=True, regex=True)).hits) == 1


async def test_letters_beyond_ascii_have_cases_too(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "other", "Ärger\n\u212a is a K\nplain\n".encode())
    assert [hit.text for hit in (await search(source, "äRGER", ignore_case=True)).hits] == ["Ärger"]
    assert [hit.text for hit in (await search(source, "k is", ignore_case=True)).hits] == ["\u212a is a K"]
    assert (await search(source, "ärger")).hits == ()


async def test_plain_text_is_plain(source: FileSource) -> None:
    assert (await search(source, ".*")).hits == ()
    assert len((await search(source, "l.ne", regex=True)).hits) == 4


async def test_a_limited_search_goes_on_where_it_stopped(source: FileSource) -> None:
    seen, start = [], 0
    while True:
        found = await search(source, "line", start=start, limit=1)
        seen += [hit.text for hit in found.hits]
        if found.next is None:
            break
        start = found.next
    assert seen == LOG.decode().split("\n")


async def test_lines_across_pieces_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "PIECE", 128)
    lines = [f"line {n} needle {'x' * (n % 50)}" for n in range(200)]
    source = FileSource(tmp_path / "log", "\n".join(lines).encode())
    found = await search(source, "needle", limit=1000)
    assert [hit.text for hit in found.hits] == lines


async def test_a_line_longer_than_a_piece_is_searched_in_pieces(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"x" * 1_000_000 + b"needle" + b"y" * 1_000_000)
    found = await search(source, "needle")
    assert [hit.offset for hit in found.hits] == [1_000_000]
    assert len(found.hits[0].text) <= 1000
    assert "needle" in found.hits[0].text


async def test_bytes_that_are_no_text_do_not_shift_offsets(tmp_path: Path) -> None:
    data = b"\xff\xfe\x80 needle\n"
    source = FileSource(tmp_path / "log", data)
    for regex in (False, True):
        (hit,) = (await search(source, "needle", regex=regex)).hits
        assert hit.offset == data.index(b"needle")


async def test_dropped_bytes_are_passed(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"needle 1\nneedle 2\n", first=9)
    assert [hit.text for hit in (await search(source, "needle")).hits] == ["needle 2"]


async def test_a_bomb_is_put_out(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"a" * 5000 + b"!\n")
    with pytest.raises(UserError, match="too long") as caught:
        await search(source, "(a+)+$", regex=True, budget=0.5)
    assert caught.value.field == "q"


@pytest.mark.release
async def test_a_bomb_behind_hits_gives_those_and_where_it_stuck(tmp_path: Path) -> None:
    good = b"needle\n" * 50_000
    source = FileSource(tmp_path / "log", good + b"a" * 200_000 + b"!\n")
    found = await search(source, "needle|(a+)+$", regex=True, budget=3, limit=1_000_000)
    assert found.hits
    assert found.next is not None
    assert 0 < found.next <= len(good)


@pytest.mark.parametrize("query", ["(", "*", "[z-a]", "(?P<n", "\\"])
async def test_what_is_no_pattern_is_refused(source: FileSource, query: str) -> None:
    with pytest.raises(UserError, match="not a pattern"):
        await search(source, query, regex=True)


@pytest.mark.parametrize("query", ["", "x" * 1001, "two\nlines"])
async def test_what_cannot_be_asked_is_refused(source: FileSource, query: str) -> None:
    with pytest.raises(UserError):
        await search(source, query)


async def test_the_first_error_is_found_behind_much_that_is_none(tmp_path: Path) -> None:
    before = b"step 17 loss=0.5 all is well\n" * 50_000
    source = FileSource(tmp_path / "long", before + b"ValueError: no\nRuntimeError: neither\n")
    found = await search(source, FIRST_ERROR, regex=True, limit=1)
    assert [hit.text for hit in found.hits] == ["ValueError: no"]
    assert found.hits[0].line_offset == len(before)
