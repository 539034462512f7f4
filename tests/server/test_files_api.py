from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import httpx
import pytest

from holdfast.services.files import uploads
from tests.services.folder_trees import around, place
from tests.services.house import open_house

from .rig import Rig, begin, error_of, open_rig
from .test_http import TIMEOUT, client, serving

pytestmark = pytest.mark.anyio

FILES = "/groups/default/files"


async def test_a_file_is_put_listed_read_and_removed(rig: Rig) -> None:
    put = await rig.ask("PUT", f"{FILES}/a/b.bin", content=b"\0\1\2")
    assert put.status_code == 200, put.text
    assert put.json()["size"] == 3
    listed = (await rig.get(FILES)).json()
    assert listed["items"][0]["name"] == "a/"
    assert [item["name"] for item in (await rig.get(f"{FILES}?recursive=true")).json()["items"]] == ["a/b.bin"]
    assert [item["name"] for item in (await rig.get(f"{FILES}?path=a")).json()["items"]] == ["b.bin"]
    read = await rig.get(f"{FILES}/a/b.bin")
    assert (read.status_code, read.content) == (200, b"\0\1\2")
    assert read.headers["content-length"] == "3"
    assert read.headers["content-disposition"].startswith('attachment; filename="b.bin"')
    assert read.headers["x-content-type-options"] == "nosniff"
    head = await rig.ask("HEAD", f"{FILES}/a/b.bin")
    assert (head.content, head.headers["content-length"]) == (b"", "3")
    assert (await rig.ask("DELETE", f"{FILES}/a")).status_code == 409
    assert (await rig.ask("DELETE", f"{FILES}/a?recursive=true")).json() == {"removed": 1}
    error_of(await rig.get(f"{FILES}/a/b.bin"), 404)
    error_of(await rig.get(f"{FILES}?path=a"), 404)


async def test_pages_go_on(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        await rig.ask("PUT", f"{FILES}/{name}", content=b"x")
    first = (await rig.get(f"{FILES}?limit=2")).json()
    assert (len(first["items"]), first["complete"], first["next"]) == (2, False, "b")
    second = (await rig.get(f"{FILES}?limit=2&after={first['next']}")).json()
    assert ([item["name"] for item in second["items"]], second["complete"], second["next"]) == (["c"], True, None)
    assert (await rig.ask("DELETE", f"{FILES}?recursive=true")).json() == {"removed": 3}
    assert (await rig.ask("DELETE", FILES)).status_code == 409


async def test_ranges_are_parts(rig: Rig) -> None:
    await rig.ask("PUT", f"{FILES}/a", content=b"0123456789")
    for asked, expected in (("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-2", b"89"), ("bytes=8-99", b"89")):
        part = await rig.get(f"{FILES}/a", headers={"Range": asked})
        assert (part.status_code, part.content) == (206, expected)
        assert part.headers["content-range"].endswith("/10")
    assert (await rig.get(f"{FILES}/a", headers={"Range": "bytes=10-"})).status_code == 416
    for odd in ("bytes=-", "lines=1-2", "bytes=1-2,3-4"):
        whole = await rig.get(f"{FILES}/a", headers={"Range": odd})
        assert (whole.status_code, whole.content) == (200, b"0123456789")


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("a.html", "application/octet-stream", False),
        ("a.svg", "application/octet-stream", False),
        ("a.xhtml", "application/octet-stream", False),
        ("a.js", "application/octet-stream", False),
        ("a.png", "image/png", True),
        ("a.txt", "text/plain; charset=utf-8", True),
        ("a.json", "text/plain; charset=utf-8", True),
        ("a.pdf", "application/pdf", False),
        ("a", "application/octet-stream", False),
    ],
)
async def test_no_file_becomes_a_page_of_ours(rig: Rig, name: str, kind: str, shown: bool) -> None:
    await rig.ask("PUT", f"{FILES}/{name}", content=b"<script>alert(1)</script>")
    plain = await rig.get(f"{FILES}/{name}")
    assert plain.headers["content-type"] == kind
    assert plain.headers["content-disposition"].startswith("attachment;")
    looked_at = await rig.get(f"{FILES}/{name}?inline=true")
    assert looked_at.headers["content-disposition"].startswith("inline;" if shown else "attachment;")
    assert "default-src 'none'" in looked_at.headers["content-security-policy"]


async def test_odd_names_make_no_odd_headers(rig: Rig) -> None:
    for name in ('quo"te', "line\nbreak", "a\r\nSet-Cookie: x", "ü", "%2e%2e"):
        path = "".join(f"%{byte:02x}" for byte in name.encode())
        assert (await rig.ask("PUT", f"{FILES}/{path}", content=b"x")).status_code == 200
        read = await rig.get(f"{FILES}/{path}")
        assert read.content == b"x"
        shown = read.headers["content-disposition"]
        assert "\n" not in shown
        assert shown.count('"') == 2
        assert "set-cookie" not in read.headers


@pytest.mark.parametrize("path", ["..%2fx", "a/../b", "%2e%2e/x", "a//b", "%00", "x" * 300])
async def test_paths_that_lead_elsewhere_are_refused(rig: Rig, path: str) -> None:
    exchange = begin(
        rig, f"{FILES}/{path.replace('%2f', '/').replace('%2e', '.').replace('%00', chr(0))}", method="PUT"
    )
    await exchange.finish()
    assert exchange.status == 400


async def test_too_large_a_file_is_refused_by_its_length_or_while_it_comes(tmp_path: Path) -> None:
    settings = {"files": {"max_upload_bytes": 2_000_000}}
    async with open_house(tmp_path / "home", settings=settings) as house, open_rig(house) as rig:
        assert (await rig.ask("PUT", f"{FILES}/a", content=b"x" * 2_000_000)).status_code == 200
        error_of(await rig.ask("PUT", f"{FILES}/b", content=b"x" * 2_000_001), 413)
        exchange = begin(rig, f"{FILES}/c", method="PUT", body=[b"x" * 1_500_000, b"x" * 1_500_000, b""])
        await exchange.finish()
        assert exchange.status == 413
        listed = (await rig.get(FILES)).json()["items"]
        assert [item["name"] for item in listed] == ["a"]
        assert around(house) == []


async def test_a_client_that_leaves_while_sending_leaves_nothing(rig: Rig) -> None:
    async with serving(rig) as port:
        head = f"PUT /api/v1{FILES}/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
        head += f"Authorization: {rig.client.headers['authorization']}\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + b"x" * 3_000_000)
        await writer.drain()
        async with asyncio.timeout(TIMEOUT):
            while not around(rig.house):  # it has begun
                await asyncio.sleep(0)
            writer.close()
            while around(rig.house):
                await asyncio.sleep(0)
    assert (await rig.get(FILES)).json()["items"] == []


async def test_a_client_that_falls_silent_while_sending_is_told_and_leaves_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "CHUNK_TIMEOUT", 0.05)
    head = f"PUT /api/v1{FILES}/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
    head += f"Authorization: {rig.client.headers['authorization']}\r\n\r\n"
    async with serving(rig) as port, asyncio.timeout(TIMEOUT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + b"x" * 1000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        writer.close()
    assert around(rig.house) == []
    assert (await rig.get(FILES)).json()["items"] == []


SIZE = 60_000_000  # far more than sockets hold


async def test_a_file_that_shrinks_while_it_is_sent_ends_the_connection(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Short of its length: no client takes it for whole. The log says so in one line, whoever does it how often."""
    place(rig.house).joinpath("a").write_bytes(b"x" * SIZE)
    async with serving(rig) as port, client(rig, port) as http, http.stream("GET", f"{FILES}/a") as answer:
        assert answer.headers["content-length"] == str(SIZE)
        os.truncate(place(rig.house) / "a", 10)
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.message for record in told] == ["a file was truncated while it was sent"]
    assert not told[0].exc_info


async def test_a_file_that_grows_while_it_is_sent_is_as_long_as_was_said(rig: Rig) -> None:
    place(rig.house).joinpath("a").write_bytes(b"x" * SIZE)
    async with serving(rig) as port, client(rig, port) as http:
        async with http.stream("GET", f"{FILES}/a") as answer:
            with place(rig.house).joinpath("a").open("ab") as more:
                more.write(b"y" * 1000)
            assert len(await answer.aread()) == SIZE
        assert (await http.get(FILES)).json()["items"][0]["size"] == SIZE + 1000


async def test_files_are_for_members(rig: Rig) -> None:
    ann = await rig.token_of("ann", "vision")
    await rig.ask("PUT", f"{FILES}/a", content=b"x")
    for method, path in (("GET", ""), ("GET", "/a"), ("PUT", "/b"), ("DELETE", "/a"), ("DELETE", "?recursive=true")):
        error_of(await rig.ask(method, f"{FILES}{path}", headers=ann), 403)
    assert (await rig.ask("PUT", "/groups/vision/files/a", content=b"x", headers=ann)).status_code == 200
    error_of(await rig.ask("GET", FILES, headers={"Authorization": ""}), 401)


async def test_artifacts_are_served(rig: Rig) -> None:
    job = await rig.house.submit("name: one\nroles:\n  main:\n    commands: [echo]\n")
    folder = rig.house.services.shared.get_artifacts_folder("default", job.id)
    folder.mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"text")
    shown = (await rig.get(f"/jobs/{job.id}/artifacts")).json()
    assert shown["items"][0]["name"] == "a.txt"
    read = await rig.get("/jobs/one/artifacts/a.txt")
    assert read.content == b"text"
    error_of(await rig.get("/jobs/one/artifacts/none"), 404)
    ann = await rig.token_of("ann", "vision")
    error_of(await rig.get(f"/jobs/{job.id}/artifacts", headers=ann), 404)
    error_of(await rig.get(f"/jobs/{job.id}/artifacts/a.txt", headers=ann), 404)


async def test_usage_is_served_to_admins(rig: Rig) -> None:
    assert (await rig.get("/usage")).json() == {"items": []}
    summary = await rig.get("/usage/2026/3")
    assert summary.headers["content-type"] == "text/csv; charset=utf-8"
    assert summary.text.startswith("group,user,component,")
    assert (await rig.get("/usage/2026/3/details")).text.startswith("group,user,component,job,")
    error_of(await rig.get("/usage/2026/13"), 400)
    ann = await rig.token_of("ann", "vision")
    for path in ("", "/2026/3", "/2026/3/details"):
        error_of(await rig.get(f"/usage{path}", headers=ann), 403)
