"""Parts of one log that is complete. Nothing here changes anything, so all share one server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.services.house import open_house

from .rig import Rig, error_of, open_rig

pytestmark = pytest.mark.anyio

TALKER = "name: talker\ncommand: |\n  echo one\n  echo two >&2\n  echo three\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with open_house(tmp_path_factory.mktemp("parts") / "home") as house, open_rig(house) as opened:
        yield opened


@pytest.fixture(scope="module")
async def talker(rig: Rig) -> str:
    return (await rig.house.run(TALKER)).id


async def test_whole_logs(rig: Rig, talker: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log")
    assert response.text == "one\ntwo\nthree\n"
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-length"] == "14"
    shown = {name: response.headers[f"x-log-{name}"] for name in ("start", "end", "size", "complete")}
    assert shown == {"start": "0", "end": "14", "size": "14", "complete": "true"}
    assert (await rig.get(f"/jobs/{talker}/log?stream=stdout")).text == "one\nthree\n"
    assert (await rig.get(f"/jobs/{talker}/log?stream=stderr")).text == "two\n"


@pytest.mark.parametrize(
    ("query", "text", "start"),
    [
        ("start=4", "two\nthree\n", 4),
        ("start=4&count=3", "two", 4),
        ("count=3", "one", 0),
        ("start=99", "", 14),
        ("start=99&count=5", "", 14),
        ("count=0", "", 0),
        ("lines=1", "three\n", 8),
        ("lines=2", "two\nthree\n", 4),
        ("lines=0", "", 14),
        ("bytes=6", "three\n", 8),
        ("bytes=0", "", 14),
        ("bytes=999", "one\ntwo\nthree\n", 0),
        ("since=3600", "one\ntwo\nthree\n", 0),
        ("since=2999-01-01T00:00:00Z", "", 14),
        ("task=main-0&attempt=0&try=0&lines=1", "three\n", 8),
    ],
)
async def test_parts(rig: Rig, talker: str, query: str, text: str, start: int) -> None:
    response = await rig.get(f"/jobs/{talker}/log?{query}")
    assert (response.status_code, response.text) == (200, text)
    assert response.headers["x-log-start"] == str(start)
    assert int(response.headers["x-log-end"]) - start == len(text)


@pytest.mark.parametrize(
    ("header", "text", "shown"),
    [
        ("bytes=0-2", "one", "bytes 0-2/14"),
        ("bytes=4-", "two\nthree\n", "bytes 4-13/14"),
        ("bytes=-6", "three\n", "bytes 8-13/14"),
        ("bytes=8-999", "three\n", "bytes 8-13/14"),
        ("bytes=0-0", "o", "bytes 0-0/14"),
    ],
)
async def test_ranges(rig: Rig, talker: str, header: str, text: str, shown: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log", headers={"Range": header})
    assert (response.status_code, response.text) == (206, text)
    assert response.headers["content-range"] == shown


@pytest.mark.parametrize("header", ["bytes=14-", "bytes=99-100", "bytes=5-2", "bytes=-0"])
async def test_ranges_that_hold_nothing(rig: Rig, talker: str, header: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log", headers={"Range": header})
    error_of(response, 416)
    assert response.headers["content-range"] == "bytes */14"


@pytest.mark.parametrize("header", ["bytes=-", "bytes=a-b", "lines=1-2", "bytes=--5", "bytes=0-1,3-4", "x" * 5000])
async def test_ranges_that_are_none_are_passed_over(rig: Rig, talker: str, header: str) -> None:
    response = await rig.get(f"/jobs/{talker}/log", headers={"Range": header})
    assert (response.status_code, response.text) == (200, "one\ntwo\nthree\n")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("start=-1", "start"),
        ("start=99999999999999999999", "start"),
        ("count=-1", "count"),
        ("lines=-5", "lines"),
        ("lines=1e3", "lines"),
        ("bytes=-5", "bytes"),
        ("since=tomorrow", "since"),
        ("since=-1", "since"),
        ("since=nan", "since"),
        ("since=inf", "since"),
        ("stream=stdin", "stream"),
        ("attempt=-1", "attempt"),
        ("try=x", "try"),
        ("lines=1&bytes=1", "bytes"),
        ("follow=maybe", "follow"),
    ],
)
async def test_bad_parameters_are_named(rig: Rig, talker: str, query: str, field: str) -> None:
    assert error_of(await rig.get(f"/jobs/{talker}/log?{query}"), 400)["field"] == field


@pytest.mark.parametrize("task", ["../../../etc/passwd", "main-1", "main-0%00", "main-0/../main-0", "%2e%2e"])
async def test_odd_tasks_are_not_there(rig: Rig, talker: str, task: str) -> None:
    for path in ("log", "log/follow", "log/search"):
        error_of(await rig.get(f"/jobs/{talker}/{path}?q=x&task={task}"), 404)
