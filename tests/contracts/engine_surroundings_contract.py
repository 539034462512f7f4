"""What a task gets: variables, working directory, mounts, limits, devices, image."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Mount, Resources
from holdfast.core.volumes import HostFolder, NfsExport, Volume, VolumeClaim, is_mountable
from holdfast.engines.base import LogStream

from .engine_rig import EngineHarness, Rig, read_all

ODD_VALUES = {
    "NEWLINES": "one\ntwo\n\n",
    "QUOTES": "'\"`a`\\ $HOME $(date) ${X:-y} !! %s",
    "UNICODE": "Grüße 你好 \U0001f680",
    "EMPTY": "",
    "SPACES": "  a  b  ",
    "LARGE": "x" * 100_000,
    "IFS_LIKE": "\t\x01\x7f",
}
# Names that a script around the task's own may use.
COMMON_NAMES = (
    "claim",
    "code",
    "ended",
    "folder",
    "home",
    "joins",
    "notes",
    "now",
    "pid",
    "script",
    "started",
    "workdir",
)


class SurroundingsContract(EngineHarness):
    # --- variables and folders ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("hold", [False, True], ids=["plain", "hold"])
    def test_variables_arrive_byte_for_byte(self, hold: bool) -> None:
        self.need_programs()
        env = ODD_VALUES | dict.fromkeys(COMMON_NAMES, "mine")
        script = "".join(f'printf "%s|" "${name}"\n' for name in env)

        async def scenario(rig: Rig) -> None:
            assert (await rig.run("a", script, env=env, hold=hold)).code == 0
            assert (await read_all(rig.log("a"))).decode() == "".join(f"{text}|" for text in env.values())

        self.play(scenario)

    def test_programs_get_the_variables_of_the_job_and_none_of_the_server(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.need_programs()
        monkeypatch.setenv("SECRET_OF_THE_SERVER", "hunter2")

        async def scenario(rig: Rig) -> None:
            await rig.run("a", "env", env={"COLOUR": "green"})
            lines = (await read_all(rig.log("a"))).split(b"\n")
            assert b"COLOUR=green" in lines
            assert not [line for line in lines if b"hunter2" in line or line.lower().startswith(b"_holdfast")]

        self.play(scenario)

    def test_the_working_directory_is_made_where_it_is_missing(self, tmp_path: Path) -> None:
        self.need_programs()
        folder = f"{tmp_path}/deep/new folder"
        if not self.has_own_folders:
            pytest.skip("this engine makes no folders among the machine's own")

        async def scenario(rig: Rig) -> None:
            assert (await rig.run("a", "pwd\necho here >file\ncat file", workdir=folder)).code == 0
            assert (await read_all(rig.log("a"))).decode() == f"{folder}\nhere\n"

        self.play(scenario)

    def test_without_a_working_directory_a_task_starts_in_its_home(self) -> None:
        self.need_programs()

        async def scenario(rig: Rig) -> None:
            await rig.run("a", '[ "$(pwd)" = "$HOME" ] && echo >file && ls "$HOME"')
            assert await read_all(rig.log("a")) == b"file\n"

        self.play(scenario)

    # --- mounts -------------------------------------------------------------------------------------------------------

    def test_mounts_are_read_only_or_writable(self, tmp_path: Path) -> None:
        self.need_programs()
        data, shared = tmp_path / "data", tmp_path / "shared"
        for folder in (data, shared):
            folder.mkdir()
            (folder / "file").write_text("from the machine\n")
        mounts = (
            Mount(volume=HostFolder(str(data)), target=str(data), read_only=True),
            Mount(volume=HostFolder(str(shared)), target=str(shared), read_only=False),
        )
        script = f"cat {data}/file\necho more >>{shared}/file\ntouch {data}/new || echo denied"

        async def scenario(rig: Rig) -> None:
            assert (await rig.run("a", script, mounts=mounts)).code == 0
            denied = b"denied\n" if self.has_own_folders else b""
            assert await read_all(rig.log("a")) == b"from the machine\n" + denied
            assert (shared / "file").read_text() == "from the machine\nmore\n"
            assert (data / "new").exists() is not self.has_own_folders

        self.play(scenario)

    def test_a_mount_can_be_at_another_path(self, tmp_path: Path) -> None:
        self.need_programs()
        if not self.has_own_folders:
            pytest.skip("tasks of this engine see the machine's own folders")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "file").write_text("here\n")

        async def scenario(rig: Rig) -> None:
            mount = Mount(volume=HostFolder(str(tmp_path / "data")), target="/other/place", read_only=True)
            assert (await rig.run("a", "cat /other/place/file", mounts=(mount,))).code == 0
            assert await read_all(rig.log("a")) == b"here\n"

        self.play(scenario)

    @pytest.mark.parametrize("volume", [VolumeClaim(name="models"), NfsExport(server="files", path="/export")])
    def test_a_volume_that_the_engine_does_not_mount_is_refused_and_leaves_nothing(self, volume: Volume) -> None:
        async def scenario(rig: Rig) -> None:
            if is_mountable(volume, rig.engine.get_health().volume_kinds):
                pytest.skip("this engine mounts it")
            mounts = (Mount(volume=volume, target="/data"),)
            seen = await rig.engine.start(rig.launch("a", "true", mounts=mounts))
            assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, Cause.NOT_ALLOWED)
            assert volume.address in seen.message
            assert await rig.engine.list_attempts() == []

        self.play(scenario)

    def test_a_missing_mount_source_is_refused_with_a_reason(self, tmp_path: Path) -> None:
        self.need_programs()
        missing = str(tmp_path / "no-such-folder")

        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "echo ran", mounts=(Mount(volume=HostFolder(missing), target=missing),))
            assert seen.seen is ObservedState.REFUSED
            assert missing in seen.message
            assert (await rig.look("a")).seen is ObservedState.ABSENT
            assert not Path(missing).exists()

        self.play(scenario)

    # --- limits -------------------------------------------------------------------------------------------------------

    def test_a_task_killed_for_its_memory_says_so(self) -> None:
        self.need_programs()
        small = Resources(cpu=1.0, memory=32 * MIB)

        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "tail /dev/zero", resources=small)  # keeps the last line in memory
            assert (seen.seen, seen.code, seen.oom) == (ObservedState.EXITED, 137, True)
            await rig.engine.remove("a")
            await rig.reopen()
            assert (await rig.look("a")).oom
            killed = await rig.run("b", "kill -9 $$", resources=small)
            assert (killed.code, killed.oom) == (137, False)

        self.play(scenario)

    def test_a_task_that_fills_its_home_is_stopped(self) -> None:
        self.need_programs()

        async def scenario(rig: Rig) -> None:
            script = 'dd if=/dev/zero of="$HOME/big" bs=1048576 count=20 2>/dev/null\nsleep 600'
            seen = await rig.run("a", script, scratch=5 * MIB)
            assert (seen.seen, seen.cause) == (ObservedState.EXITED, Cause.SCRATCH_FULL)
            assert seen.message
            await rig.engine.remove("a")
            assert (await rig.look("a")).cause == Cause.SCRATCH_FULL
            assert (await rig.run("b", "echo >file", scratch=5 * MIB)).code == 0

        self.play(scenario)

    # --- devices ------------------------------------------------------------------------------------------------------

    def test_a_task_sees_its_own_gpus_and_no_others(self) -> None:
        self.need_programs()
        look = 'for node in /dev/nvidia[0-9]*; do [ ! -e "$node" ] || echo "$node"; done; echo "$CUDA_VISIBLE_DEVICES"'

        async def scenario(rig: Rig) -> None:
            if not self.gives_gpus:
                seen = await rig.run("a", "exit 0", gpus=(0,), resources=Resources(memory=64 * MIB, gpu=1))
                assert (seen.seen, seen.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED)
                return
            gpus = rig.engine.list_nodes()[0].gpus
            if len(gpus) < 2 or not self.has_own_folders:
                pytest.skip("needs two GPUs, and tasks with devices of their own; see test_engine_gpus.py")
            for attempt_id, given in {"none": (), "first": gpus[:1], "second": gpus[1:2], "both": gpus[:2]}.items():
                resources = Resources(cpu=1.0, memory=256 * MIB, gpu=len(given))
                seen = await rig.run(attempt_id, look, gpus=given, resources=resources)
                assert seen.code == 0, seen
                numbers = ",".join(map(str, range(len(given))))  # counted from 0 in each task
                expected = [*(f"/dev/nvidia{index}" for index in given), numbers]
                assert (await read_all(rig.log(attempt_id))).decode().splitlines() == expected

        self.play(scenario)

    # --- images -------------------------------------------------------------------------------------------------------

    def test_an_image_without_a_shell_is_refused(self) -> None:
        if not self.no_shell_image:
            pytest.skip("this engine accepts no image without a shell")

        async def scenario(rig: Rig) -> None:
            seen = await rig.run("a", "exit 0", image=self.no_shell_image)
            assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.NO_SHELL, False)
            log = rig.engine.open_log("a", LogStream.STDOUT)
            assert log is None or await read_all(log) == b""

        self.play(scenario)
