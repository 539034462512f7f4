from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, Forbidden, NotFound, TooLarge, UserError
from holdfast.core.records import Dataset
from holdfast.services.errors import TooManyRequests, Unavailable
from holdfast.services.files import file_tree, uploads
from holdfast.services.files import folder_scan as file_walk
from holdfast.services.files.file_tree import delete_partial_uploads
from holdfast.services.files.open_file import FileTruncated

from .folder_trees import around, names, place, sent
from .house import House, open_house

pytestmark = pytest.mark.anyio


async def put(house: House, path: str, data: bytes = b"x", group: str = "default") -> None:
    await house.services.files.upload(house.admin, group, path, sent(data))


async def read(house: House, path: str) -> bytes:
    return await (await house.services.files.open(house.admin, "default", path)).read()


async def listed(house: House, path: str = "", *, recursive: bool = False) -> list[str]:
    return names(await house.services.files.list(house.admin, "default", path, recursive=recursive))


async def objects(house: House, prefix: str, *, recursive: bool = False, limit: int = 1000) -> list[str]:
    return names(
        await house.services.files.list_objects(house.admin, "default", prefix, recursive=recursive, limit=limit)
    )


# -- what is put in comes out again


async def test_a_file_is_put_read_listed_and_removed(house: House) -> None:
    item = await house.services.files.upload(house.admin, "default", "a/b/c.bin", sent(b"one", b"two"))
    assert (item.name, item.size) == ("a/b/c.bin", 6)
    assert item.modified_at is not None
    assert await read(house, "a/b/c.bin") == b"onetwo"
    assert await listed(house) == ["a/"]
    assert await listed(house, "a") == ["b/"]
    assert await listed(house, "a", recursive=True) == ["b/c.bin"]
    assert await house.services.files.delete(house.admin, "default", "a/b/c.bin") == 1
    with pytest.raises(NotFound):
        await read(house, "a/b/c.bin")


async def test_a_file_replaces_the_one_before_it(house: House) -> None:
    await put(house, "a", b"a longer one")
    await put(house, "a", b"new")
    assert await read(house, "a") == b"new"
    assert around(house) == []


async def test_an_empty_file_is_a_file(house: House) -> None:
    await house.services.files.upload(house.admin, "default", "empty", sent())
    assert await read(house, "empty") == b""


async def test_nothing_is_there_before_anything_was_put(house: House) -> None:
    assert await listed(house) == []
    assert await objects(house, "/", recursive=True) == []
    with pytest.raises(NotFound):
        await listed(house, "a")


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a//b", "..", "a/../b", "./a", "a\0b", "x" * 256, "a/" * 64 + "b", "é" * 128, "a/b" * 2000, "\udc80"],
)
async def test_paths_that_lead_elsewhere_are_refused(house: House, path: str) -> None:
    with pytest.raises(UserError) as refusal:
        await put(house, path)
    assert refusal.value.field == "path"


async def test_odd_names_are_names(house: House) -> None:
    for name in ("line\nbreak", "ünïcode", " ", "-rf", "a b", "quote'\"", "...", "x" * 255):
        await put(house, name, name.encode())
        assert await read(house, name) == name.encode()
    assert len(await listed(house)) == 8


async def test_a_file_is_no_folder_and_a_folder_no_file(house: House) -> None:
    await put(house, "file")
    await put(house, "folder/inside")
    with pytest.raises(Conflict, match="file is not a folder"):
        await put(house, "file/below")
    with pytest.raises(Conflict, match="folder is a folder"):
        await put(house, "folder")
    with pytest.raises(NotFound, match="is a folder"):
        await read(house, "folder")
    assert around(house) == []


async def test_only_so_many_bytes_are_taken(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"files": {"max_upload_bytes": 10}}) as house:
        await put(house, "a", b"0123456789")
        with pytest.raises(TooLarge, match="10 bytes"):
            await house.services.files.upload(house.admin, "default", "new/a", sent(b"01234567", b"89a"))
        assert await listed(house, recursive=True) == ["a"]
        assert await listed(house) == ["a"], "not even a folder was made for it"
        assert around(house) == []


async def test_an_upload_that_breaks_off_leaves_the_old_file(house: House) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"n" * 3_000_000
        raise ConnectionError

    await put(house, "a", b"old")
    with pytest.raises(ConnectionError):
        await house.services.files.upload(house.admin, "default", "a", broken())
    assert await read(house, "a") == b"old"
    assert around(house) == []


async def test_an_upload_that_is_cancelled_leaves_nothing(house: House) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"n" * 100_000
            begun.set()
            await asyncio.sleep(0)

    putting = asyncio.create_task(house.services.files.upload(house.admin, "default", "a", endless()))
    await begun.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert await listed(house) == []
    assert around(house) == []


async def test_an_upload_that_falls_silent_is_given_up_and_leaves_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent() -> AsyncIterator[bytes]:
        yield b"some"
        await asyncio.Event().wait()

    monkeypatch.setattr(uploads, "CHUNK_TIMEOUT", 0.0)
    with pytest.raises(UserError, match="The upload timed out: no data arrived for 0 seconds"):
        await house.services.files.upload(house.admin, "default", "a", silent())
    assert await listed(house) == []
    assert around(house) == []


async def test_only_so_many_files_come_in_at_a_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.services.files._upload_limiter, "_free_slots", uploads.MAX_UPLOADS_PER_USER + 1)
    ann, bob = await house.user("ann", "default"), await house.user("bob", "default")
    go, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> AsyncIterator[bytes]:
        begun.release()
        await go.wait()
        yield b"x"

    async def untouched() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    files = house.services.files
    coming = [
        asyncio.create_task(files.upload(ann, "default", f"{n}", slow())) for n in range(uploads.MAX_UPLOADS_PER_USER)
    ]
    for _ in coming:
        await begun.acquire()
    with pytest.raises(TooManyRequests, match="You already have 8 uploads in progress"):
        await files.upload(ann, "default", "more", untouched())
    coming.append(asyncio.create_task(files.upload(bob, "default", "bob", slow())))
    await begun.acquire()
    with pytest.raises(Unavailable, match="The server already has 64 uploads in progress"):
        await files.upload(house.admin, "default", "more", untouched())
    go.set()
    await asyncio.gather(*coming)
    await files.upload(ann, "default", "more", sent(b"x"))
    assert len(await listed(house)) == uploads.MAX_UPLOADS_PER_USER + 2


async def test_a_killed_upload_leaves_no_half_file(house: House, tmp_path: Path) -> None:
    """A process of its own writes for ever, and is killed when it has written something."""
    root = house.services.shared.root
    place(house)
    script = (
        "import sys, pathlib; from holdfast.shared_folders import SharedFolders;"
        "from holdfast.services.files.file_tree import FileTree\n"
        "from holdfast.services.files.incoming_file import FileUpload\n"
        "coming = FileUpload(FileTree(SharedFolders(pathlib.Path(sys.argv[1])), 'default'), ('half',))\n"
        "coming.create_upload()\n"
        "while True:\n coming.write(b'x' * 100000); print(flush=True)"
    )
    command = [sys.executable, "-c", script, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.kill()
    assert await listed(house, recursive=True) == []
    assert len(around(house)) == 1
    delete_partial_uploads(house.services.shared)
    assert around(house) == []


async def test_a_server_starts_beside_uploads_that_cannot_be_removed(house: House) -> None:
    shared = house.services.shared
    left = shared.create_folder(shared.get_uploads_folder("default"))
    (left / "a-folder").mkdir()
    (left / "half").write_bytes(b"x")
    (left.parent.parent / "no-folder").write_bytes(b"")
    delete_partial_uploads(shared)
    assert [path.name for path in left.iterdir()] == ["a-folder"]


@asynccontextmanager
async def small_disk(tmp_path: Path, *options: str) -> AsyncIterator[House]:
    """A house whose shared files lie on it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(("size=1m", *options)), "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounting.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounting.stderr.decode().strip()}")
    try:
        async with open_house(tmp_path / "home", settings={"files": {"folder": str(disk)}}) as house:
            yield house
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(folder: Path) -> None:
    """With files, until there is no room for one more."""
    with suppress(OSError):
        for number in range(10_000):
            (folder / str(number)).touch()


async def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    async with small_disk(tmp_path) as house:
        await put(house, "small", b"fits")
        with pytest.raises(Unavailable, match="the disk for shared files is full"):
            await put(house, "deep/large", b"x" * 3_000_000)
        assert await listed(house) == ["small"]
        assert around(house) == []
        await put(house, "after", b"y" * 500_000)


async def test_folders_can_be_removed_from_a_full_disk(tmp_path: Path) -> None:
    async with small_disk(tmp_path, "nr_inodes=100") as house:
        await put(house, "deep/first")
        fill(place(house) / "deep")
        assert await house.services.files.delete(house.admin, "default", "deep", recursive=True) > 10
        assert (await listed(house), around(house)) == ([], [])
        fill(place(house))
        assert await house.services.files.delete(house.admin, "default", "", recursive=True) > 10
        assert (await listed(house), around(house)) == ([], [])


async def test_a_volume_that_a_full_disk_has_no_room_for(tmp_path: Path) -> None:
    async with small_disk(tmp_path, "nr_inodes=100") as house:
        fill(place(house))
        with pytest.raises(Unavailable, match="No space left"):
            await house.services.datasets.create(house.admin, Dataset(name="vol", path="", kind="volume"))


# -- listing


async def test_listings_go_on_where_they_ended(house: House) -> None:
    for name in ("b/1", "b/2", "b-", "b.x", "a", "c/d/e", "c/f", "z"):
        await put(house, name)
    whole = await listed(house, recursive=True)
    assert whole == sorted(whole)
    for limit in (1, 2, 3):
        found: list[str] = []
        while True:
            page = await house.services.files.list(
                house.admin, "default", recursive=True, limit=limit, after=found[-1] if found else ""
            )
            found += names(page)
            if page.complete:
                break
        assert found == whole
    page = await house.services.files.list(house.admin, "default", limit=2)
    assert (names(page), page.complete) == (["a", "b-"], False)
    rest = await house.services.files.list(house.admin, "default", after="b-")
    assert names(rest) == ["b.x", "b/", "c/", "z"]


async def test_objects_are_listed_as_primehub_lists_them(house: House) -> None:
    for name in ("config", "config2", "config.d/x", "dir/a", "dir/sub/b"):
        await put(house, name)
    assert await objects(house, "/") == ["config", "config.d/", "config2", "dir/"]
    assert await objects(house, "/dir") == ["a", "sub/"]
    assert await objects(house, "/dir/") == ["a", "sub/"]
    assert await objects(house, "dir", recursive=True) == ["/a", "/sub/b"]
    assert await objects(house, "/dir/", recursive=True) == ["a", "sub/b"]
    assert await objects(house, "/config") == []
    assert await objects(house, "/config", recursive=True) == ["", ".d/x", "2"]
    assert await objects(house, "/config", recursive=True, limit=1) == [""]
    assert await objects(house, "/config", recursive=True, limit=0) == ["", ".d/x", "2"]
    assert await objects(house, "/none") == []
    assert await objects(house, "/none", recursive=True) == []
    assert await objects(house, "/../etc", recursive=True) == []
    folder = (await house.services.files.list_objects(house.admin, "default", "/")).items[-1]
    assert (folder.name, folder.size, folder.modified_at) == ("dir/", 0, None)


async def test_what_the_platform_notes_is_hidden_and_left_alone(house: House) -> None:
    base = place(house)
    (base / "jobArtifacts/job-1/.metadata").mkdir(parents=True)
    (base / "jobArtifacts/job-1/.metadata/expiredAt").write_text("1")
    (base / "jobArtifacts/job-1/kept").write_text("1")
    await house.services.folders.create(house.admin, "default", "set")
    assert await listed(house, recursive=True) == ["jobArtifacts/job-1/kept"]
    assert await listed(house, "jobArtifacts/job-1") == ["kept"]
    assert await objects(house, "/datasets/set") == [".dataset"]
    for path in ("jobArtifacts/job-1/.metadata/expiredAt", "jobArtifacts/job-1/.metadata", "datasets/set/.dataset"):
        with pytest.raises(Forbidden, match="Invalid Operation"):
            await put(house, path)
        with pytest.raises(Forbidden, match="Invalid Operation"):
            await house.services.files.delete(house.admin, "default", path, recursive=True)
    files = house.services.files
    assert await files.delete_objects(house.admin, "default", "datasets/set/.d", recursive=True) == 0
    assert await objects(house, "/datasets/set") == [".dataset"]
    await put(house, "elsewhere/.dataset")
    assert await listed(house, "elsewhere") == [".dataset"]


@pytest.mark.release
async def test_many_files_are_listed_without_holding_them(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place(house) / "many"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    for index in range(100_000):
        os.close(os.open(f"{index:06}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    page = await house.services.files.list(house.admin, "default", "many", limit=3)
    assert (names(page), page.complete) == (["000000", "000001", "000002"], False)
    page = await house.services.files.list(house.admin, "default", recursive=True, limit=2, after="many/099998")
    assert (names(page), page.complete) == (["many/099999"], True)
    monkeypatch.setattr(file_walk, "MAX_SCANNED_ENTRIES", 5000)
    page = await house.services.files.list(house.admin, "default", "many", limit=3)
    assert not page.complete
    assert await house.services.files.delete(house.admin, "default", "many", recursive=True) == 100_000
    assert (await listed(house), around(house)) == ([], [])


# -- hostile trees


async def test_links_and_devices_are_neither_listed_nor_opened(house: House, tmp_path: Path) -> None:
    base = place(house)
    secret = tmp_path / "secret"
    secret.write_text("not for them")
    (base / "link").symlink_to(secret)
    (base / "folder-link").symlink_to(tmp_path)
    (base / "dangling").symlink_to("/nowhere")
    os.mkfifo(base / "fifo")
    (base / "plain").write_text("ok")
    page = await house.services.files.list(house.admin, "default")
    assert (names(page), page.left_out) == (["plain"], 4)
    assert await listed(house, recursive=True) == ["plain"]
    for path in ("link", "folder-link/secret", "dangling", "fifo", "plain/x"):
        with pytest.raises(NotFound):
            await read(house, path)
    with pytest.raises(NotFound):
        await listed(house, "folder-link")
    with pytest.raises(Conflict):
        await put(house, "folder-link/new")
    assert await objects(house, "/folder-link/", recursive=True) == []
    assert await house.services.files.delete(house.admin, "default", "folder-link", recursive=True) == 1
    assert secret.read_text() == "not for them"


async def test_a_file_is_put_in_place_of_a_link_not_through_it(house: House, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    (place(house) / "link").symlink_to(secret)
    await put(house, "link", b"new")
    assert secret.read_text() == "old"
    assert await read(house, "link") == b"new"


async def test_removing_everything_stays_inside(house: House, tmp_path: Path) -> None:
    base = place(house)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep/file").write_text("stays")
    (base / "a/b").mkdir(parents=True)
    (base / "a/link").symlink_to(outside)
    (base / "a/b/file").write_text("x")
    os.mkfifo(base / "a/fifo")
    (base / "top").symlink_to(outside / "deep")
    assert await house.services.files.delete(house.admin, "default", "", recursive=True) == 4
    assert (outside / "deep/file").read_text() == "stays"
    assert list(base.iterdir()) == []
    assert around(house) == []


async def test_names_that_are_no_text_are_left_out_but_removed(house: House) -> None:
    base = os.fsencode(place(house))
    (place(house) / "dir").mkdir()
    for name in (b"bad\xff", b"dir/\x80\x81", b"dir/good"):
        Path(os.fsdecode(base + b"/" + name)).write_bytes(b"x")
    page = await house.services.files.list(house.admin, "default", recursive=True)
    assert (names(page), page.left_out) == (["dir/good"], 2)
    assert await house.services.files.delete(house.admin, "default", "", recursive=True) == 3
    assert os.listdir(base) == []  # noqa: PTH208


async def test_deep_trees_are_listed_to_a_bound_and_removed_whole(house: House) -> None:
    fd = os.open(place(house), os.O_RDONLY)
    for _ in range(1200):  # deeper than our stack may grow
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    page = await house.services.files.list(house.admin, "default", recursive=True)
    assert (names(page), page.left_out) == ([], 1)
    assert await house.services.files.delete(house.admin, "default", "d", recursive=True) == 1
    assert (await listed(house), around(house)) == ([], [])


async def test_closed_folders_are_removed_too(house: House) -> None:
    closed = place(house) / "a/closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    closed.chmod(0)
    assert await house.services.files.delete(house.admin, "default", "a", recursive=True) == 1
    assert (await listed(house), around(house)) == ([], [])


async def test_a_folder_that_turns_into_a_link_while_it_is_walked(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap happens between the look at the names and the opening of the folder."""
    base = place(house)
    (base / "a").mkdir()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key").write_text("x")
    real = os.open

    def swapping(path: object, flags: int, *args: object, **more: object) -> int:
        if path == "a":
            (base / "a").rmdir()
            (base / "a").symlink_to(tmp_path / "secrets")
        return real(path, flags, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swapping)
    page = await house.services.files.list(house.admin, "default", recursive=True)
    assert (names(page), page.left_out) == ([], 1)
    assert (base / "a").is_symlink()


def test_a_file_whose_time_no_calendar_has() -> None:
    """Some file systems keep such times, others do not."""
    status = os.stat_result((0o100644, 0, 0, 1, 0, 0, 0, 0, 2**40, 0))
    assert file_walk.get_modified_time(status) is None


async def test_a_file_that_changes_while_it_is_read(house: House) -> None:
    await put(house, "grows", b"x" * 1000)
    file = await house.services.files.open(house.admin, "default", "grows")
    with (place(house) / "grows").open("ab") as more:
        more.write(b"y" * 1000)
    assert await file.read() == b"x" * 1000
    file = await house.services.files.open(house.admin, "default", "grows")
    os.truncate(place(house) / "grows", 10)
    with pytest.raises(FileTruncated):
        await file.read()


# -- removing


async def test_a_folder_goes_only_when_asked_for(house: House) -> None:
    await put(house, "a/b")
    for path in ("a", "a/", ""):
        with pytest.raises(Conflict):
            await house.services.files.delete(house.admin, "default", path)
    with pytest.raises(NotFound):
        await house.services.files.delete(house.admin, "default", "none")
    assert await listed(house, recursive=True) == ["a/b"]


async def test_objects_are_removed_by_exact_name_or_prefix(house: House) -> None:
    files, admin = house.services.files, house.admin
    for name in ("config", "config2", "conf/a", "conf/b", "other"):
        await put(house, name)
    assert await files.delete_objects(admin, "default", "conf") == 0, "a folder is no object"
    assert await files.delete_objects(admin, "default", "config") == 1
    assert await files.delete_objects(admin, "default", "config") == 0
    assert await files.delete_objects(admin, "default", "conf/", recursive=True) == 2
    assert await files.delete_objects(admin, "default", "/con", recursive=True) == 1
    assert await listed(house) == ["other"]
    await put(house, "more/x")
    assert await files.delete_objects(admin, "default", "", recursive=True) == 2
    assert (await listed(house), around(house)) == ([], [])


async def test_folders_without_objects_are_none(house: House) -> None:
    """As object stores have it; where nobody deletes objects, empty folders stay."""
    files, admin = house.services.files, house.admin
    for name in ("a/b/c/1", "a/b/c/2", "d/e/3"):
        await put(house, name)
    (place(house) / "d/kept").mkdir()
    assert await files.delete_objects(admin, "default", "a/b/c/1") == 1
    assert await objects(house, "/") == ["a/", "d/"]
    assert await files.delete_objects(admin, "default", "a/b/c/2") == 1
    assert await files.delete_objects(admin, "default", "d/e/", recursive=True) == 1
    assert await objects(house, "/") == ["d/"]
    assert await listed(house, "d") == ["kept/"]


async def test_files_are_kept_while_folders_go(house: House) -> None:
    """Whoever puts a file makes its folders, also when they are pruned at that moment."""
    files, admin = house.services.files, house.admin
    for _ in range(20):
        await put(house, "a/b/old")
        await asyncio.gather(put(house, "a/b/new"), files.delete_objects(admin, "default", "a/b/old"))
        assert await listed(house, recursive=True) == ["a/b/new"]
        assert await files.delete_objects(admin, "default", "a/b/new") == 1
        assert await listed(house) == []


async def test_what_a_killed_server_had_not_removed_is_removed_later(house: House) -> None:
    left = house.services.shared.create_folder(house.services.shared.get_removed_folder("default")) / secrets.token_hex(
        4
    )
    (left / "a/b").mkdir(parents=True)
    await house.services.files.empty_trash()
    assert around(house) == []


async def test_a_folder_that_a_job_fills_again_and_again_keeps_no_other_group_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that had it open before it was removed can."""
    shared, remove = house.services.shared, file_tree._remove_entry
    for group in ("loud", "quiet"):
        left = shared.create_folder(shared.get_removed_folder(group)) / secrets.token_hex(4)
        left.mkdir()
        (left / group).touch()

    def refill(folder: int, name: str, ground: int, depth: int, stop: threading.Event) -> int:
        count = remove(folder, name, ground, depth, stop)
        if name == "loud":
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        return count

    monkeypatch.setattr(file_tree, "_remove_entry", refill)
    monkeypatch.setattr(file_tree, "list_groups_with_files", lambda shared: ["loud", "quiet"])
    monkeypatch.setattr(file_tree, "CLEANUP_TIMEOUT", 0.1)
    stop = threading.Event()
    too_late = threading.Timer(60, stop.set)
    too_late.start()
    await asyncio.to_thread(file_tree.empty_trash, shared, stop)
    too_late.cancel()
    assert (around(house, "quiet"), len(around(house, "loud"))) == ([], 1)


# -- who


async def test_only_members_use_a_groups_files(house: House) -> None:
    ann, bob = await house.user("ann", "vision"), await house.user("bob", "speech")
    files = house.services.files
    await files.upload(ann, "vision", "a", sent(b"x"))
    for outsider in (bob, Actor(name="bob", groups={"speech": True}, can_read_all_jobs=True)):
        for attempt in (
            files.list(outsider, "vision"),
            files.list_objects(outsider, "vision", "/"),
            files.open(outsider, "vision", "a"),
            files.upload(outsider, "vision", "b", sent(b"x")),
            files.delete(outsider, "vision", "a"),
            files.delete_objects(outsider, "vision", "a"),
        ):
            with pytest.raises(Forbidden):
                await attempt
    assert names(await files.list(house.admin, "vision")) == ["a"]
    with pytest.raises(NotFound):
        await files.list(house.admin, "none")


async def test_a_group_is_found_by_its_path(house: House) -> None:
    ann = await house.user("ann", "Vision_Lab")
    files = house.services.files
    assert await files.find_group_by_path(ann, "vision-lab") == "Vision_Lab"
    assert await files.find_group_by_path(ann, "Vision_Lab") == "Vision_Lab"
    assert await files.find_group_by_path(house.admin, "vision-lab") == "Vision_Lab"
    for path in ("default", "none", "../x"):
        with pytest.raises(Forbidden):
            await files.find_group_by_path(Actor(name="x", groups={"Vision_Lab": False}), path)
    both = Actor(name="x", groups={"a_b": False, "A-b": False})
    with pytest.raises(Conflict, match="A-b and a_b"):
        await files.find_group_by_path(both, "a-b")


async def test_a_new_group_does_not_get_the_files_of_an_earlier_one(house: House) -> None:
    await house.add_group("vision")
    await put(house, "secret", b"theirs", "vision")
    await house.services.groups.delete(house.admin, "vision")
    await house.add_group("vision")
    assert names(await house.services.files.list(house.admin, "vision")) == []
    [kept] = (house.services.shared.root / "earlier").glob("vision.*/files/secret")
    assert kept.read_bytes() == b"theirs"
    await put(house, "new", b"ours", "vision")
    with pytest.raises(Conflict):
        await house.add_group("vision")
    assert names(await house.services.files.list(house.admin, "vision")) == ["new"]


async def test_a_listing_that_nobody_waits_for_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that is told to stop does, and its turn is free for the next."""
    monkeypatch.setattr(file_walk, "MAX_SCANNED_ENTRIES", 10**12)
    begun, go_on = threading.Event(), threading.Event()
    real = os.scandir

    def endless(folder: int) -> object:
        begun.set()
        go_on.wait(60)

        class Entries:
            def __enter__(self) -> Iterator[object]:
                with real(folder) as entries:
                    entry = next(entries)
                return iter(lambda: entry, None)

            def __exit__(self, *_: object) -> None:
                pass

        return Entries()

    await put(house, "a")
    monkeypatch.setattr(os, "scandir", endless)
    listing = asyncio.create_task(house.services.files.list(house.admin, "default"))
    await asyncio.to_thread(begun.wait, 60)
    listing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(listing, 60)
