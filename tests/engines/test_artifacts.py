"""Artifacts of real tasks, and tasks that would have others' files collected as their own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.artifacts import ArtifactsUnavailable, SkipReason
from holdfast.engines.base import Isolation
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.lifecycle import artifacts
from holdfast.engines.embedded.tree_removal import remove_tree
from tests.contracts.engine_contract import Basket, Rig, collect, launch

from .scenarios import folder_of, need, play

PLAIN = EmbeddedOptions(isolation="off")


async def _left(rig: Rig, script: str, **more: object) -> Basket:
    seen = await rig.run("a", script, **more)
    assert seen.seen is ObservedState.EXITED
    assert seen.artifacts
    return collect(rig.engine, "a")


def test_what_is_no_plain_file_is_left_out_and_counted(tmp_path: Path) -> None:
    script = r"""
        mkdir -p artifacts/sub/deeper artifacts/empty; cd artifacts
        echo 1 > sub/deeper/x; echo 2 > sub.txt; echo 3 > "$(printf 'new\nline')"; echo 4 > "$(printf 'bad\377')"
        ln -s /etc/passwd link; ln -s sub folder-link; mkfifo pipe; ln sub.txt hard
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
        truncate -s 1T huge; echo no > .hidden; mkdir .git; echo no > .git/x; echo yes > sub/.kept
    """

    async def scenario(rig: Rig) -> None:
        offered: dict[bytes, int] = {}

        class Measure(Basket):
            def add_file(self, path: tuple[bytes, ...], size: int, open_file: object) -> None:
                offered[b"/".join(path)] = size

        await rig.run("a", script)
        basket = Measure()
        rig.engine.collect_artifacts("a", basket)  # type: ignore[attr-defined]
        assert offered == {
            b"bad\xff": 2,
            b"hard": 2,
            b"huge": 1 << 40,
            b"new\nline": 2,
            b"sub/.kept": 4,
            b"sub/deeper/x": 2,
            b"sub.txt": 2,
        }
        assert list(offered) == sorted(offered, key=lambda path: path.split(b"/"))
        link, special = SkipReason.LINK, SkipReason.SPECIAL
        assert basket.left == {b"folder-link": link, b"link": link, b"pipe": special, b"sock": special}

    play(tmp_path / "home", scenario)


@pytest.mark.release_after(3)
@pytest.mark.parametrize(
    "script",
    [
        "mkdir ~/out; echo mine > ~/out/x; ln -s out ~/artifacts",
        "mkdir -p ~/b/out; echo mine > ~/b/out/x; ln -s b ~/a; ln -s ./a/../a//out ~/artifacts",
        'mkdir ~/out; echo mine > ~/out/x; ln -s "$HOME/out" ~/artifacts',
        'mkdir ~/out; echo mine > ~/out/x; ln -s "../../../../../../../../../../../../../../..$HOME/out" ~/artifacts',
    ],
)
@pytest.mark.parametrize("options", [EmbeddedOptions(), PLAIN], ids=["sandboxed", "plain"])
def test_a_link_is_followed_to_what_is_the_tasks_own(tmp_path: Path, script: str, options: EmbeddedOptions) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await _left(rig, script)).files == {b"x": b"mine\n"}

    play(tmp_path / "home", scenario, options)


@pytest.mark.release_after(2)
@pytest.mark.parametrize("folder", ["/tmp/x", "/var/tmp/x", "/root/x", "/run/x", "/mnt/x"])
def test_a_link_to_other_places_inside_the_sandbox(tmp_path: Path, folder: str) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        script = f"mkdir {folder}; echo mine > {folder}/x; ln -s {folder} ~/artifacts"
        assert (await _left(rig, script)).files == {b"x": b"mine\n"}

    play(tmp_path / "home", scenario)


def test_a_link_into_a_mount_and_a_mount_in_the_home(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared = tmp_path / "shared"
    shared.mkdir()

    async def scenario(rig: Rig) -> None:
        project = (Mount(volume=HostFolder(str(shared)), target="/project/g", read_only=False),)
        script = "mkdir /project/g/out; echo mine > /project/g/out/x; ln -s /project/g ~/g; ln -s g/out ~/artifacts"
        assert (await _left(rig, script, mounts=project)).files == {b"x": b"mine\n"}
        await rig.engine.remove("a")
        for number, target in enumerate(("/home/jovyan", "/home", "/home/jovyan/artifacts")):
            (shared / f"{number}" / "jovyan").mkdir(parents=True)
            mounts = (Mount(volume=HostFolder(str(shared / f"{number}")), target=target, read_only=False),)
            name = f"m{number}"
            seen = await rig.run(name, "mkdir -p ~/artifacts; echo mounted > ~/artifacts/y", mounts=mounts)
            assert seen.artifacts, target
            await rig.reopen()
            assert collect(rig.engine, name).files == {b"y": b"mounted\n"}, target

    play(tmp_path / "home", scenario)


@pytest.mark.release_after(6)
@pytest.mark.parametrize(
    "where",
    ["/etc", "../../../../../../../../../etc", "/proc/self/root/etc", "/proc/1/root", "/usr/lib", "{other}", "{secret}",
     "/nowhere", "/sys/kernel", "/dev/fd"],
)  # fmt: skip
@pytest.mark.parametrize("options", [EmbeddedOptions(), PLAIN], ids=["sandboxed", "plain"])
def test_a_link_never_leads_to_the_machine(tmp_path: Path, where: str, options: EmbeddedOptions) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")

    async def scenario(rig: Rig) -> None:
        other = folder_of(tmp_path / "home", "other")
        await rig.run("other", "mkdir ~/artifacts; echo theirs > ~/artifacts/x")
        seen = await rig.run("a", f"ln -s {where.format(other=other.path, secret=secret)} ~/artifacts")
        assert seen.artifacts
        with suppress(ArtifactsUnavailable):  # or an empty folder of the task's own, which lay below what it saw
            assert not collect(rig.engine, "a").files

    play(tmp_path / "home", scenario, options)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo > ~/artifacts", "is not a folder"),
        ("mkfifo ~/artifacts", "is not a folder"),
        ("ln -s artifacts ~/artifacts", "too many"),
        ("ln -s b ~/artifacts; ln -s artifacts ~/b", "too many"),
        ("cd; t=; for i in $(seq 600); do t=$t./; done; ln -s $t ~/artifacts", "too many"),
    ],
)
def test_what_is_no_folder_is_told(tmp_path: Path, script: str, why: str) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", script)).artifacts
        with pytest.raises(ArtifactsUnavailable, match=why):
            collect(rig.engine, "a")

    play(tmp_path / "home", scenario)


def test_a_home_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
    need(Isolation.FULL)
    secret = tmp_path / "jovyan" / "artifacts"
    secret.mkdir(parents=True)
    (secret / "key").write_text("secret")

    async def scenario(rig: Rig) -> None:
        await rig.run("a", f"cd /; rm -rf /home/jovyan; rmdir /home; ln -s {tmp_path} /home")
        with pytest.raises(ArtifactsUnavailable):
            collect(rig.engine, "a")

    play(tmp_path / "home", scenario)


def test_a_mounts_source_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared, secret = tmp_path / "shared", tmp_path / "secret"
    shared.mkdir()
    secret.mkdir()
    (secret / "key").write_text("secret")

    async def scenario(rig: Rig) -> None:
        mounts = (Mount(volume=HostFolder(str(shared)), target="/data", read_only=False),)
        await rig.run("a", "echo mine > /data/x; ln -s /data ~/artifacts", mounts=mounts)
        shared.rename(tmp_path / "moved")
        shared.symlink_to(secret)
        with pytest.raises(ArtifactsUnavailable):
            collect(rig.engine, "a")

    play(tmp_path / "home", scenario)


def test_others_who_swap_files_for_links_meanwhile(tmp_path: Path) -> None:
    """Shared folders are written to by other jobs while they are read."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    shared, secret = tmp_path / "shared", tmp_path / "secret"
    (shared / "out" / "sub").mkdir(parents=True)
    for name in ("out/1-file", "out/sub/2-file", "out/3-pipe"):
        (shared / name).write_text("harmless")
    secret.mkdir()
    (secret / "2-file").write_text("secret")

    class Swapping(Basket):
        """Changes each thing after it was looked at, and before it is opened."""

        def add_file(self, path: tuple[bytes, ...], size: int, open_file: object) -> None:
            place = shared / "out" / os.fsdecode(b"/".join(path))
            place.unlink()
            if path[-1].endswith(b"pipe"):
                os.mkfifo(place)
            else:
                place.symlink_to(secret / "2-file")
            with pytest.raises(OSError, match=r"Not a regular file|symbolic links|No such device"):
                super().add_file(path, size, open_file)  # type: ignore[arg-type]

    async def scenario(rig: Rig) -> None:
        mounts = (Mount(volume=HostFolder(str(shared)), target="/data", read_only=False),)
        await rig.run("a", "ln -s /data/out ~/artifacts", mounts=mounts)
        basket = Swapping()
        rig.engine.collect_artifacts("a", basket)  # type: ignore[attr-defined]
        assert not basket.files
        assert (shared / "out" / "3-pipe").is_fifo()

    play(tmp_path / "home", scenario)


@pytest.mark.release
def test_trees_that_are_too_deep_or_too_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_VISITED_ENTRIES", 3000)
    script = """
mkdir ~/artifacts; cd ~/artifacts; echo kept > a
python3 -c '
import os
for i in range(5000):
    os.mkdir("d"); os.chdir("d")
'
"""

    async def scenario(rig: Rig) -> None:
        found = await _left(rig, script)
        assert found.files == {b"a": b"kept\n"}
        assert list(found.left.values()) == [SkipReason.TOO_DEEP]
        await rig.run("b", "mkdir ~/artifacts; cd ~/artifacts; seq -f 'file-%06g' 5000 | xargs touch")
        wide = collect(rig.engine, "b")
        assert wide.more
        assert sorted(wide.files) == list(wide.files)
        assert list(wide.files)[:2] == [b"file-000001", b"file-000002"]

    play(tmp_path / "home", scenario)
    assert remove_tree(str(tmp_path / "home"))  # pytest could not


def test_a_running_task_has_nothing_to_collect_yet(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch("a", "mkdir ~/artifacts; echo > ~/artifacts/x; sleep 600"))
        assert not collect(rig.engine, "a").files

    play(tmp_path / "home", scenario)


def test_nothing_stays_open_whoever_fails(tmp_path: Path) -> None:
    class Failing(Basket):
        def add_file(self, path: tuple[bytes, ...], size: int, open_file: object) -> None:
            raise OSError("the disk is gone")

    async def scenario(rig: Rig) -> None:
        await rig.run("a", "mkdir -p ~/artifacts/a/b/c; echo > ~/artifacts/a/b/c/d")
        await rig.run("b", "ln -s /etc/nothing ~/artifacts")
        before = _open_files()
        for name, error in (("a", OSError), ("b", ArtifactsUnavailable)):
            with pytest.raises(error):
                rig.engine.collect_artifacts(name, Failing())  # type: ignore[attr-defined]
        assert collect(rig.engine, "a").files
        assert _open_files() == before

    play(tmp_path / "home", scenario)


def _open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())
