from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast.services import disk_work
from holdfast.services.disk_work import MAX_LONG_TASKS, MAX_LONG_TASKS_PER_GROUP, DiskExecutor
from holdfast.services.errors import Unavailable
from holdfast.services.files.file_tree import FileTree
from holdfast.services.files.incoming_file import FileUpload
from holdfast.shared_folders import SharedFolders

pytestmark = pytest.mark.anyio

SOON = 0.05  # seconds


async def test_work_is_done_and_its_errors_are_told() -> None:
    work = DiskExecutor()
    assert await work.run_short(lambda: 1) == 1
    assert await work.run_long(lambda stop: stop.is_set()) is False
    with pytest.raises(FileNotFoundError):
        await work.run_short(lambda: Path("/nowhere/at/all").stat())
    with pytest.raises(FileNotFoundError):
        await work.run_long(lambda stop: Path("/nowhere/at/all").stat())


async def test_a_disk_that_does_not_answer_is_told_and_holds_up_nobody_else() -> None:
    answers = threading.Event()
    work = DiskExecutor(SOON)
    try:
        hung = [work.run_short(lambda: answers.wait(60)) for _ in range(100)]
        results = await asyncio.gather(*hung, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
        assert await asyncio.to_thread(lambda: "free") == "free"
    finally:
        answers.set()


async def test_only_so_many_look_through_folders_at_once() -> None:
    answers = threading.Event()
    work = DiskExecutor(SOON)
    looking = [
        asyncio.create_task(work.run_long(lambda stop: answers.wait(60), str(number)))
        for number in range(MAX_LONG_TASKS)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await work.run_long(lambda stop: None)
    answers.set()
    await asyncio.gather(*looking)
    assert await work.run_long(lambda stop: "next") == "next"


async def test_no_group_takes_the_turns_of_the_others() -> None:
    answers = threading.Event()
    work = DiskExecutor(SOON)
    looking = [
        asyncio.create_task(work.run_long(lambda stop: answers.wait(60), "red"))
        for _ in range(MAX_LONG_TASKS_PER_GROUP)
    ]
    try:
        await asyncio.sleep(0)
        crowd = [work.run_long(lambda stop: answers.wait(60), "red") for _ in range(MAX_LONG_TASKS)]
        results = await asyncio.gather(*crowd, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
        assert await work.run_long(lambda stop: "next", "blue") == "next"
    finally:
        answers.set()
        await asyncio.gather(*looking)
    assert await work.run_long(lambda stop: "next", "red") == "next"


async def test_work_that_nobody_waits_for_is_told_to_stop() -> None:
    begun, stopped = threading.Event(), threading.Event()

    def look(stop: threading.Event) -> None:
        begun.set()
        if stop.wait(60):
            stopped.set()

    looking = asyncio.create_task(DiskExecutor().run_long(look))
    await asyncio.to_thread(begun.wait, 60)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert stopped.is_set()


async def test_work_that_does_not_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_work, "STOP_TIMEOUT", SOON)
    begun, answers = threading.Event(), threading.Event()

    def hang(stop: threading.Event) -> None:
        begun.set()
        answers.wait(60)
        raise OSError("too late for anybody")

    looking = asyncio.create_task(DiskExecutor().run_long(hang))
    await asyncio.to_thread(begun.wait, 60)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert not answers.is_set()
    answers.set()


def test_a_file_on_its_way_in_is_not_closed_while_it_is_written_to(tmp_path: Path) -> None:
    """Its number would be another file's by then."""
    tree = FileTree(SharedFolders(tmp_path), "vision")
    incoming = FileUpload(tree, ("a",))
    incoming.create_upload()
    with incoming._lock:  # as a write that hangs has it
        dropping = threading.Thread(target=incoming.discard)
        dropping.start()
        assert len(list(tmp_path.glob("groups/vision/uploads/*"))) == 1
    dropping.join(60)
    assert list(tmp_path.glob("groups/vision/uploads/*")) == []
    incoming.write(b"late")  # comes to nothing
    incoming.create_upload()
    assert list(tmp_path.glob("groups/vision/uploads/*")) == []
