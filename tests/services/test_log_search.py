from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import UserError
from holdfast.services.logs import search as log_search
from holdfast.services.logs.first_error import FIRST_ERROR_PATTERN
from holdfast.services.logs.patterns import LogPattern
from holdfast.services.logs.search import LogSearcher, SearchQuery, SearchResult

from .sources import FileSource, StuckSource

pytestmark = pytest.mark.anyio

SLOW = "(?:a?){999}(?:b?){999}c"  # among the slowest patterns that fit into the memory they are allowed
LOG = b"first line\nsecond \xc3\xa9t\xc3\xa9 line\nTHIRD line\nno newline at the end: line"


async def search(source: FileSource, query: str, *, budget: float = 20.0, **more: object) -> SearchResult:
    return await LogSearcher(budget).search_log(source, SearchQuery(query=query, **more), user="alice")  # type: ignore[arg-type]


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
    monkeypatch.setattr(log_search, "PIECE_SIZE", 128)
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


@pytest.mark.parametrize("query", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*=.*"])
async def test_patterns_that_backtrack_elsewhere_take_linear_time(tmp_path: Path, query: str) -> None:
    source = FileSource(tmp_path / "log", b"a" * 200_000 + b"!\nthe end: b=aaa\n")
    found = await search(source, query, regex=True)
    assert [hit.text for hit in found.hits] == ["the end: b=aaa"]
    assert found.next is None


async def test_a_pattern_that_is_too_slow_is_refused(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"ab" * 20_000 + b"\n")
    with pytest.raises(UserError, match="too long") as caught:
        await search(source, SLOW, regex=True, budget=0.001)
    assert caught.value.field == "q"


async def test_a_search_whose_time_is_over_gives_its_hits_and_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "PIECE_SIZE", 128)
    source = StuckSource(tmp_path / "log", b"needle\n" * 100)
    source.stuck_at = 300
    found = await search(source, "ne+dle", regex=True, budget=1)
    assert found.hits
    assert found.next == found.hits[-1].next_offset >= source.stuck_at


async def test_a_slow_pattern_leaves_the_event_loop_free(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"ab" * 20_000 + b"\n")
    running = asyncio.create_task(search(source, SLOW, regex=True, limit=1))
    turns = 0
    while not running.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await running).hits == ()
    assert turns > 50  # one search of a piece takes about a second


@pytest.mark.parametrize("query", ["(", "*", "[z-a]", "(?P<n", "\\", "a**"])
async def test_what_is_no_pattern_is_refused(source: FileSource, query: str) -> None:
    with pytest.raises(UserError, match="pattern is not valid") as caught:
        await search(source, query, regex=True)
    assert "(?m)" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "syntax"),
    [
        ("a(?=b)", "(?="),
        ("(?!a)b", "(?!"),
        ("(?<=a)b", "(?<="),
        ("(?<!a)b", "(?<!"),
        (r"(a)\1", r"\1"),
        ("(?>a)", "(?>"),
        (r"a\Z", r"\Z"),
        (r"\Aa", r"\A"),
        (r"a\z", r"\z"),
        (r"\C", r"\C"),
        ("(?-m)^a", "(?-m"),
        ("(?i-sm:^a)", "(?i-sm"),
    ],
)
async def test_syntax_that_is_not_supported_is_named(source: FileSource, query: str, syntax: str) -> None:
    with pytest.raises(UserError, match="do not support " + re.escape(syntax)) as caught:
        await search(source, query, regex=True)
    assert "look-around" in (caught.value.hint or "")


async def test_an_escaped_backslash_is_not_an_escape(tmp_path: Path) -> None:
    source = FileSource(tmp_path / "log", b"C:\\Apps\n")
    assert len((await search(source, r"C:\\Apps", regex=True)).hits) == 1


async def test_a_pattern_that_is_too_large_is_refused(source: FileSource) -> None:
    with pytest.raises(UserError, match="too much memory"):
        await search(source, ".{1000}" * 10, regex=True)


async def test_without_re2_plain_text_is_searched_and_patterns_are_refused(
    source: FileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert len((await search(source, "line", ignore_case=True)).hits) == 4
    assert (await search(source, FIRST_ERROR_PATTERN, regex=True)).hits == ()
    with pytest.raises(UserError, match="not supported on this server"):
        await search(source, "l.ne", regex=True)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("^", ["one", "", "two words", "", "three"]),
        ("$", ["one", "", "two words", "", "three"]),
        ("^$", ["", ""]),
        ("e$", ["one", "three"]),
        ("^t", ["two words", "three"]),
        (r"\r", []),
        (r"\s", ["two words"]),
        (r"e\n", []),
        ("(?s)e.t", []),
        ("[^x]+", ["one", "two words", "three"]),
        ("x*", ["one", "", "two words", "", "three"]),
        (r"one|\bw", ["one", "two words"]),
    ],
)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r\r\n"])
@pytest.mark.parametrize("piece_size", [1000, 16])
async def test_a_pattern_sees_one_line_at_a_time(
    tmp_path: Path, query: str, lines: list[str], line_end: bytes, piece_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "PIECE_SIZE", piece_size)
    data = line_end.join([b"one", b"", b"two words", b"", b"three"])
    for end in (b"", line_end):
        found = await search(FileSource(tmp_path / "log", data + end), query, regex=True)
        assert [hit.text for hit in found.hits] == lines
        assert all((data + end)[hit.line_offset :].startswith(hit.text.encode()) for hit in found.hits)


@given(
    parts=st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", "é".encode(), b"\xc3", b"\xff", b"\x1a"]), max_size=40),
    query=st.sampled_from([".", "^.$", "..$", "a.*b", r"\W$", "[^a]b", "é", r"\x1a", "^a?$", "b*$"]),
)
def test_a_pattern_finds_the_same_as_python(parts: list[bytes], query: str) -> None:
    """In any bytes: each that is not text counts as one character."""
    data = b"".join(parts)
    expected = re.compile(query, re.ASCII)
    lines = data.split(b"\n")
    found = list(LogPattern(query, ignore_case=False).iter_hits(data, 1000))
    texts = [line.rstrip(b"\r").decode("utf-8", "surrogateescape") for line in (lines if lines[-1] else lines[:-1])]
    texts = [re.sub("[\udc80-\udcff]", "\x1a", text) for text in texts]
    matches = [(text, match) for text in texts if (match := expected.search(text))]
    assert len(found) == len(matches)
    for hit, (text, match) in zip(found, matches, strict=True):
        assert hit.offset - hit.line_offset == len(text[: match.start()].encode())


@pytest.mark.parametrize("query", ["", "x" * 1001, "two\nlines"])
async def test_what_cannot_be_asked_is_refused(source: FileSource, query: str) -> None:
    with pytest.raises(UserError):
        await search(source, query)


async def test_the_first_error_is_found_behind_much_that_is_none(tmp_path: Path) -> None:
    before = b"step 17 loss=0.5 all is well\n" * 50_000
    source = FileSource(tmp_path / "long", before + b"ValueError: no\nRuntimeError: neither\n")
    found = await search(source, FIRST_ERROR_PATTERN, regex=True, limit=1)
    assert [hit.text for hit in found.hits] == ["ValueError: no"]
    assert found.hits[0].line_offset == len(before)
