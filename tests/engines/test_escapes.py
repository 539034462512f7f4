"""Ways out of the sandbox that were open once, or that others have found elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.sandbox import site
from holdfast.engines.embedded.sandbox.bubblewrap import find_bwrap, is_exposed
from holdfast.engines.embedded.sandbox.sandbox_layers import SandboxLayers
from tests.contracts.engine_contract import TIMEOUT, Rig, read_all

from .ordinary import ORDINARY, ROOT, only_root_can_become_another
from .scenarios import folder_of, need, play
from .test_modes import ASK


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)


async def said_by(rig: Rig, attempt_id: str, script: str) -> str:
    seen = await rig.run(attempt_id, script)
    said = (await read_all(rig.log(attempt_id, LogStream.MERGED))).decode()
    assert seen.code == 0, (seen, said)
    return said


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bubblewrap as installed by the very user the server runs as."""
    found = find_bwrap()
    assert found is not None
    assert found.exposed or os.geteuid() != 0
    path = tmp_path / "installed"
    shutil.copyfile(found.path, path)
    path.chmod(0o755)
    monkeypatch.setattr(site, "find_bwrap", lambda: replace(found, path=str(path), exposed=is_exposed(str(path))))
    return path


def everything_of(path: Path) -> tuple[object, ...]:
    status = path.stat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return status.st_ino, status.st_mode, status.st_uid, status.st_gid, attributes, path.read_bytes()


AT_THE_FIRST_PROCESS = """
set +e
python3 - <<'END'
import os
def attempt(call, *words):
    try: call(*words)
    except OSError as error: print(call.__name__, error.strerror)
    else: print(call.__name__, "DONE")
exe = "/proc/1/exe"
attempt(os.chmod, exe, 0o4777)
attempt(os.setxattr, exe, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
attempt(os.setxattr, exe, "user.x", b"x")
attempt(os.truncate, exe, 0)
attempt(lambda: os.write(os.open(exe, os.O_WRONLY), b"#!/bin/sh"))
attempt(lambda: os.link(exe, "/tmp/mine", follow_symlinks=True))
attempt(os.chown, exe, os.getuid(), os.getgid())
attempt(os.chmod, exe, 0o000)
END
exit 0
"""


def test_the_program_that_makes_the_sandbox_cannot_be_changed_from_within(tmp_path: Path, installed: Path) -> None:
    before = everything_of(installed)

    async def scenario(rig: Rig) -> None:
        said = await said_by(rig, "a", AT_THE_FIRST_PROCESS)
        assert "truncate DONE" not in said
        assert "<lambda> DONE" not in said
        assert everything_of(installed) == before
        assert await said_by(rig, "b", "echo fine") == "fine\n"

    play(tmp_path / "home", scenario)


def test_no_two_tasks_share_the_file_of_their_first_process(tmp_path: Path, installed: Path) -> None:
    async def scenario(rig: Rig) -> None:
        names = [f"t{number}" for number in range(8)]  # at once, so that one copy is made while another is used
        await asyncio.gather(*(rig.start_and_wait_for(b"up", name, "echo up; sleep 600") for name in names))
        firsts = [Path(f"/proc/{folder_of(tmp_path / 'home', name).read_claim().init_pid}/exe") for name in names]
        files = {(status.st_dev, status.st_ino) for status in (path.stat() for path in (*firsts, installed))}
        assert len(files) == len(names) + 1

    play(tmp_path / "home", scenario)


def test_what_bubblewrap_needs_does_not_reach_the_task(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert "LD_LIBRARY_PATH" not in await said_by(rig, "a", "env")

    play(tmp_path, scenario)


def test_the_machines_device_files_keep_their_permissions(tmp_path: Path) -> None:
    devices = [Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty")]
    modes = {path: path.stat().st_mode for path in devices}
    script = f"""
    set +e
    echo x >/dev/null && head -c 3 /dev/urandom | wc -c && cat; cat /dev/stdin
    chmod 600 {" ".join(map(str, devices))} /dev/stdin /proc/1/fd/0
    exit 0
    """

    async def scenario(rig: Rig) -> None:
        try:
            assert (await said_by(rig, "a", script)).startswith("3\n")
            assert {path: path.stat().st_mode for path in devices} == modes
        finally:
            for path, mode in modes.items():
                if path.stat().st_mode != mode:
                    path.chmod(stat.S_IMODE(mode))

    play(tmp_path, scenario)


IN_THE_KERNELS_SETTINGS = """
set +e
for path in /proc/sys/vm/swappiness /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname; do
    value=$(cat $path); (echo "$value" >$path) 2>/dev/null && echo BAD $path
done
for path in /proc/sysrq-trigger /proc/irq/default_smp_affinity /proc/bus /proc/fs /sys/kernel; do
    [ -w $path ] && echo BAD $path
done
[ -s /proc/keys ] && cat /proc/keys && echo BAD keys
[ -n "$(cat /proc/keys /proc/timer_list 2>/dev/null)" ] && echo BAD contents
mount -t tmpfs none /mnt 2>/dev/null && echo BAD mount
unshare --user true 2>/dev/null && echo BAD unshare
grep CapEff /proc/self/status
"""


def test_the_kernels_settings_are_out_of_reach(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        said = await said_by(rig, "a", IN_THE_KERNELS_SETTINGS)
        assert "BAD" not in said

    play(tmp_path, scenario)


@only_root_can_become_another
def test_root_has_few_powers_without_an_overlay_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Isolation.FULL)
    shapes = site._iter_base_sites

    def without_overlays(*words: object) -> Iterator[object]:
        return (shape for shape in shapes(*words) if shape.isolation is not Isolation.FULL)  # type: ignore[arg-type]

    monkeypatch.setattr(site, "_iter_base_sites", without_overlays)
    settings = [Path("/proc/sys/vm/swappiness"), Path("/proc/sys/kernel/core_pattern")]
    before = [path.read_text() for path in settings]

    async def scenario(rig: Rig) -> None:
        assert rig.engine.get_health().isolation is Isolation.READ_ONLY
        said = await said_by(rig, "a", IN_THE_KERNELS_SETTINGS)
        assert "BAD" not in said
        assert said.split() == ["CapEff:", "00000000800401fb"]
        said = await said_by(rig, "b", "set +e; chmod 600 /dev/null; touch /usr/x /etc/x && echo BAD; id -u; exit 0")
        assert "BAD" not in said
        assert [path.read_text() for path in settings] == before
        assert Path("/dev/null").stat().st_mode & 0o777 == 0o666

    play(tmp_path, scenario)


ON_A_FILESYSTEM_WITHOUT_PROGRAMS = 'mount -t tmpfs -o noexec none "$1" && shift && exec "$@"'


@pytest.mark.release
@only_root_can_become_another
def test_a_state_folder_mounted_noexec_keeps_the_sandbox(tmp_path: Path) -> None:
    need(Isolation.FULL)
    command = ["unshare", "--mount", "sh", "-c", ON_A_FILESYSTEM_WITHOUT_PROGRAMS, "sh", str(tmp_path)]
    done = subprocess.run(
        [*command, sys.executable, "-c", ASK, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )
    assert done.returncode == 0, done.stderr
    isolation, _, code, _, _ = json.loads(done.stdout)
    assert (isolation, code) == (Isolation.FULL, 3)


# --- the layers outside the home ----------------------------------------------------------------------------------


@pytest.fixture
def _outside(tmp_path: Path) -> None:
    """Layers cannot lie in the home, so they lie where everyone can make folders."""
    need(Isolation.FULL)
    root, home, memory = (path.stat().st_dev for path in (Path("/"), tmp_path, Path("/dev/shm")))
    if memory == root or home != root:
        pytest.skip("the filesystems lie otherwise here")


@only_root_can_become_another
@pytest.mark.usefixtures("_outside")
def test_layers_have_a_name_nobody_can_guess(tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
    views = [SandboxLayers(home, EmbeddedOptions()) for home in homes]
    bases = [Path(view.prepare_host_layers().folder).parent for view in views]
    assert bases[0].name != bases[1].name
    for home, base in zip(homes, bases, strict=True):
        file = home / "layers-name"
        assert file.read_text() in base.name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
    assert Path(SandboxLayers(homes[0], EmbeddedOptions()).prepare_host_layers().folder).parent == bases[0]
    for view in views:
        view.delete_outside_layers(())
    assert not any(base.exists() for base in bases)


@pytest.mark.usefixtures("_outside")
def test_nothing_is_left_outside_by_a_server_that_cleans_while_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = SandboxLayers.delete_unused_layers

    def clean_late(views: SandboxLayers, in_use: Collection[str]) -> None:
        time.sleep(0.5)
        clean(views, in_use)

    async def scenario(rig: Rig) -> None:
        name = (tmp_path / "layers-name").read_text()
        monkeypatch.setattr(SandboxLayers, "delete_unused_layers", clean_late)
        rig.engine._cleaner.submit(rig.engine._cleaner.clean_shared_folders)
        await rig.engine.close()
        assert [path for place in ("/run", "/dev/shm") for path in Path(place).glob(f"*{name}")] == []
        monkeypatch.undo()
        await rig.open()

    play(tmp_path, scenario)


@only_root_can_become_another
@pytest.mark.usefixtures("_outside")
def test_a_name_taken_by_someone_else_is_given_up(tmp_path: Path) -> None:

    async def scenario(rig: Rig) -> None:
        name = (tmp_path / "layers-name").read_text()
        (taken,) = [path for place in ("/run", "/dev/shm") for path in Path(place).glob(f"*{name}")]
        await rig.engine.close()
        (tmp_path / "layers-name").write_text(name)
        taken.mkdir(mode=0o700)
        os.mkfifo(taken / "home")  # whoever reads it waits for ever
        os.chown(taken, ORDINARY, ORDINARY)
        try:
            await rig.open()
            assert rig.engine.get_health().isolation is Isolation.FULL
            assert (await asyncio.wait_for(rig.run("a", "true"), TIMEOUT)).code == 0
            assert (tmp_path / "layers-name").read_text() != name
            await rig.reopen()
            assert (taken / "home").is_fifo()  # never touched
        finally:
            (taken / "home").unlink()
            taken.rmdir()

    play(tmp_path, scenario)


def test_servers_of_one_home_agree_on_a_name(tmp_path: Path) -> None:
    views = [SandboxLayers(tmp_path, EmbeddedOptions()) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        (base,) = set(threads.map(lambda view: view._prepare_outside_folder(tmp_path), views))
    assert base is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [base.name, "layers-name"]


@pytest.mark.parametrize("left", ["", "../../etc", "f" * 31])
def test_what_is_no_name_is_replaced(tmp_path: Path, left: str) -> None:
    (tmp_path / "layers-name").write_text(left)
    base = SandboxLayers(tmp_path, EmbeddedOptions())._prepare_outside_folder(tmp_path)
    assert base is not None
    assert base.name == f"holdfast-layers-{(tmp_path / 'layers-name').read_text()}"
    assert base.parent == tmp_path


@only_root_can_become_another
@pytest.mark.usefixtures("_outside")
def test_layers_of_homes_that_are_gone_are_removed(tmp_path: Path) -> None:
    views = {}
    for name in ("gone", "here"):
        (tmp_path / name).mkdir()
        views[name] = SandboxLayers(tmp_path / name, EmbeddedOptions())
    bases = {name: Path(view.prepare_host_layers().folder).parent for name, view in views.items()}
    (tmp_path / "gone" / "layers-name").unlink()
    (tmp_path / "gone").rmdir()
    (tmp_path / "here" / "layers-name").unlink()  # so it takes another name, and what it had is left over
    fresh = SandboxLayers(tmp_path / "here", EmbeddedOptions())
    base = Path(fresh.prepare_host_layers().folder).parent
    fresh.delete_unused_layers({str(bases["here"] / "x")})
    assert (bases["gone"].exists(), bases["here"].exists(), base.exists()) == (False, True, True)
    fresh.delete_unused_layers(())
    assert (bases["here"].exists(), base.exists()) == (False, True)
    fresh.delete_outside_layers(())
    assert not base.exists()
