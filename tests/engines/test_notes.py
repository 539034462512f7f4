"""What tasks tell by their notes, and what they cannot do by them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.embedded.lifecycle.notes import create_notes_folder, read_notes
from holdfast.engines.embedded.task_folder import TaskFolder

WAITS = {
    "version": 1, "pid": 7, "file": "/home/jovyan/train.py", "line": 42, "function": "step", "why": "breakpoint",
    "port": 15001, "token": "abc", "since": 1e9, "until": None, "attached": False, "waits": True,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> TaskFolder:
    made = TaskFolder(str(tmp_path))
    create_notes_folder(made)
    return made


def put(folder: TaskFolder, name: str, text: str) -> None:
    Path(folder["notes"], name).write_text(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [("held 3\n", 3), ("held 255\n", 255), ("held 3", None), ("held 0\n", None), ("held 256\n", None),
     ("held -1\n", None), ("held 3\nheld 4\n", None), ("", None), ("held ٣\n", None)],
)  # fmt: skip
def test_the_code_it_failed_with(folder: TaskFolder, text: str, code: int | None) -> None:
    put(folder, "held", text)
    assert read_notes(folder).code == code


def test_a_debugger_that_waits(folder: TaskFolder) -> None:
    put(folder, "debugger-7-1.json", json.dumps(WAITS))
    (found,) = read_notes(folder).debuggers
    assert (found.file, found.line, found.port, found.token) == ("/home/jovyan/train.py", 42, 15001, "abc")
    assert (found.until, found.waits, found.attached, found.local) == (None, True, False, False)
    put(folder, "debugger-7-1.json", json.dumps(WAITS | {"local": True}))
    assert read_notes(folder).debuggers[0].local


@pytest.mark.parametrize(
    "wrong",
    [{"pid": -1}, {"pid": "7"}, {"line": 1.5}, {"file": "a\nb"}, {"file": "x" * 2000}, {"port": 70000},
     {"until": 1e300}, {"since": None}, {"token": "\x1b[2J"}, {"file": ["a"]}, {"since": float("nan")}],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_not_there(folder: TaskFolder, wrong: dict[str, Any]) -> None:
    put(folder, "debugger-7-1.json", json.dumps(WAITS | wrong))
    assert read_notes(folder).debuggers == ()


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.write_text(" " * 5000 + json.dumps(WAITS))


def _nested(path: Path) -> None:
    path.write_text("[" * 4000)


@pytest.mark.parametrize("make", [_link, _fifo, _huge, _nested, Path.mkdir])
@pytest.mark.parametrize("name", ["held", "debugger-1.json"])
def test_hostile_notes_are_none(folder: TaskFolder, make: Callable[[Path], None], name: str) -> None:
    make(Path(folder["notes"], name))
    notes = read_notes(folder)
    assert (notes.code, notes.debuggers) == (None, ())


def test_only_so_many_are_read(folder: TaskFolder) -> None:
    for number in range(1000):
        put(folder, f"debugger-{number}.json", json.dumps(WAITS))
    assert len(read_notes(folder).debuggers) <= 16


def test_a_folder_that_became_a_link_tells_nothing(folder: TaskFolder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "held").write_text("held 3\n")
    Path(folder["notes"]).rmdir()
    Path(folder["notes"]).symlink_to(other)
    assert read_notes(folder).code is None
