from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.sdk import ApiError, CannotConnect, File

from .conftest import Ask
from .scripted import Answer, Asked, Say, ScriptedServer, error_say, json_say

FILES = "/groups/vision/files"


def listing(*names: str, next: str | None = None) -> Say:
    items = [{"name": name, "size": 1, "modified_at": None} for name in names]
    return json_say({"items": items, "complete": next is None, "next": next, "left_out": 0})


def test_lists_every_page(server: ScriptedServer, ask: Ask) -> None:
    def page(asked: Asked) -> Answer:
        return listing("c") if asked.params.get("after") == "b" else listing("a", "b", next="b")

    server.on("GET", FILES, page)
    assert ask("list_files", "vision", "x y", recursive=True, limit=2).next == "b"
    assert ask("iter_files", "vision") == [File(name=name, size=1) for name in "abc"]


def test_sends_a_file_and_tells_of_its_progress(server: ScriptedServer, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 300_000)
    server.on("PUT", f"{FILES}/a/b%20c", json_say({"name": "a/b c", "size": 300_000}))
    told: list[int] = []
    assert ask("upload_file", "vision", "a/b c", tmp_path / "f", progress=told.append).size == 300_000
    assert sum(told) == 300_000
    assert server.asked[0].body == b"x" * 300_000


def test_reads_files_artifacts_and_reports(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", f"{FILES}/a", Say(b"file"))
    server.on("GET", "/jobs/job-1/artifacts/b", Say(b"artifact"))
    server.on("GET", "/jobs/job-1/artifacts", json_say({"job": "job-1", "group": "g", "items": [], "complete": True}))
    server.on("GET", "/usage", json_say({"items": [{"year": 2026, "month": 11}]}))
    server.on("GET", "/usage/2026/11", Say(b"a,b\n"))
    server.on("GET", "/usage/2026/11/details", Say(b"c,d\n"))
    assert b"".join(ask("stream_file", "vision", "a")) == b"file"
    assert b"".join(ask("stream_artifact", "job-1", "b")) == b"artifact"
    assert ask("list_artifacts", "job-1").items == ()
    assert [(one.year, one.month) for one in ask("list_usage_months")] == [(2026, 11)]
    assert ask("get_usage_csv", 2026, 11) == "a,b\n"
    assert b"".join(ask("stream_usage_details", 2026, 11)) == b"c,d\n"


def test_a_file_that_breaks_off_is_no_file(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", f"{FILES}/a", Say(b"half", cut=True))
    with pytest.raises(CannotConnect):
        ask("stream_file", "vision", "a")


def test_removes(server: ScriptedServer, ask: Ask) -> None:
    server.on("DELETE", FILES, json_say({"removed": 3}))
    assert ask("remove_files", "vision", "a", recursive=True).removed == 3
    server.on("DELETE", FILES, error_say("conflict", 409))
    with pytest.raises(ApiError):
        ask("remove_files", "vision")


@pytest.mark.parametrize("path", ["", "..", "a/../b", "a//b"])
def test_paths_that_are_none_are_not_sent(server: ScriptedServer, ask: Ask, path: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(ApiError):
        ask("upload_file", "vision", path, tmp_path / "f")
    assert server.asked == []
