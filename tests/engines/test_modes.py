"""The same engine where less is allowed: as an ordinary user, and where the kernel gives no namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.errors import EngineError
from holdfast.core.job import MIB, Mount, Resources
from holdfast.core.volumes import NfsExport
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.processes import list_pids_by_cookie
from tests.contracts.engine_contract import Rig, launch, read_all, sweep

from .ordinary import ORDINARY, ROOT, as_ordinary_user, bombing, only_root_can_become_another
from .scenarios import folder_of, need, play

PLAIN = EmbeddedOptions(isolation="off")


@pytest.mark.skipif(os.geteuid() == 0, reason="root has more; test_ordinary_user.py runs it")
def test_what_an_ordinary_user_can_change(tmp_path: Path) -> None:
    need(Isolation.READ_ONLY)
    (tmp_path / "secret").write_text("the server's own")
    script = f"""
    for path in /usr/x /etc/x /var/x; do if touch $path; then echo BAD $path; fi; done
    for path in ~/x /tmp/x /var/tmp/x /run/x /x /root/x; do touch $path; done
    cat {tmp_path}/secret || echo hidden; id -u; ls /home
    """

    async def scenario(rig: Rig) -> None:
        health = rig.engine.get_health()
        assert health.isolation is Isolation.READ_ONLY
        assert any("does not run as root" in note for note in health.notes)
        seen = await rig.run("a", script)
        said = await read_all(rig.log("a"))
        assert seen.code == 0, await read_all(rig.log("a", LogStream.STDERR))
        assert said.decode().split() == ["hidden", str(os.getuid()), "jovyan"]

    play(tmp_path / "home", scenario)


def test_without_isolation_a_volume_needs_a_folder_on_this_machine(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        mount = Mount(volume=NfsExport(server="files", path="/data"), target="/data")
        seen = await rig.engine.start(launch("a", "true", mounts=(mount,)))
        assert (seen.seen, seen.cause) == (ObservedState.REFUSED, "not-allowed")
        assert "files:/data" in seen.message
        folder = NfsExport(server="files", path="/data", folder=str(tmp_path))
        assert (await rig.run("b", "true", mounts=(Mount(volume=folder, target=str(tmp_path)),))).code == 0

    play(tmp_path, scenario, PLAIN)


ASK = """
import asyncio, dataclasses, json, sys
from pathlib import Path
from holdfast.engines.embedded import EmbeddedEngine
from tests.contracts.engine_contract import Rig, read_all, sweep

async def main():
    rig = Rig(lambda: EmbeddedEngine(Path(sys.argv[1])))
    await rig.open()
    health = rig.engine.get_health()
    seen = await rig.run("a", "echo $HOME; pwd; exit 3")
    said = (await read_all(rig.log("a"))).decode().split()
    image = await rig.run("b", "true", image="some/image")
    await sweep(rig.engine, [])
    await rig.close()
    print(json.dumps([health.isolation, health.notes, seen.code, said, image.seen]))

asyncio.run(main())
"""

# A user namespace in which no further one may be made, entered by a user who then gives up every power: what a
# process in an ordinary container has.
WITHOUT_NAMESPACES = """
echo 0 >/proc/sys/user/max_user_namespaces &&
exec setpriv --bounding-set=-all --inh-caps=-all "$@"
"""


@pytest.mark.release
@only_root_can_become_another
@pytest.mark.skipif(not shutil.which("setpriv") or not shutil.which("unshare"), reason="util-linux is missing")
def test_without_namespaces_tasks_run_unprotected_and_it_is_said() -> None:
    base = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    os.chown(base, ORDINARY, ORDINARY)
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES, "sh"]
    try:
        if as_ordinary_user([*command, "true"], base).returncode != 0:
            pytest.skip("there are no namespaces to begin with, so the other tests have tried it")
        done = as_ordinary_user([*command, sys.executable, "-c", ASK, str(base / "home")], base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    isolation, notes, code, said, image = json.loads(done.stdout)
    assert isolation == Isolation.NONE
    assert any("not isolated" in note and "." in note for note in notes)
    assert code == 3
    assert said == [f"{base}/home/tasks/a/scratch"] * 2
    assert image == ObservedState.REFUSED


def test_isolation_can_be_switched_off_in_so_many_words(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        health = rig.engine.get_health()
        assert health.isolation is Isolation.NONE
        assert any("disabled" in note for note in health.notes)

    play(tmp_path, scenario, PLAIN)


def test_without_a_sandbox_nothing_of_the_server_leaks_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "hunter2")

    async def scenario(rig: Rig) -> None:
        await rig.run("a", "env", env={"MINE": "yes"})
        said = await read_all(rig.log("a"))
        assert b"hunter2" not in said
        assert b"MINE=yes" in said
        seen = await rig.run("b", "trap '' TERM; kill 0; exit 9")
        assert (seen.seen, seen.code) == (ObservedState.EXITED, 9)
        refused = await rig.engine.start(launch("c", "true", workdir="/no/such/folder"))
        assert refused.seen is ObservedState.REFUSED

    play(tmp_path, scenario, PLAIN)


def cookie(home: Path, attempt_id: str) -> str:
    return TaskFolders(home).get_machine_wide_name(attempt_id)


DAEMON = "(setsid sh -c 'trap \"\" TERM HUP; echo up; exec sleep 600' &) &"


def test_without_a_sandbox_daemons_end_with_their_task(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"{DAEMON} sleep 600")
        assert list_pids_by_cookie(cookie(tmp_path, "a"))
        await rig.engine.stop("a", 0.1)
        await rig.end_of("a")
        assert not list_pids_by_cookie(cookie(tmp_path, "a"))
        await rig.start_and_wait_for(b"up", "b", f"{DAEMON} while [ ! -s ../stdout ]; do sleep 0.01; done; exit 4")
        assert (await rig.end_of("b")).code == 4
        assert not list_pids_by_cookie(cookie(tmp_path, "b"))

    play(tmp_path, scenario, PLAIN)


def test_without_a_sandbox_what_outlived_its_runner_is_ended_with_the_rest(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        await rig.engine.close()
        runner = folder_of(tmp_path, "a").read_claim().pid
        assert runner is not None
        os.kill(runner, signal.SIGKILL)
        await rig.open()
        await sweep(rig.engine, [])
        assert not list_pids_by_cookie(cookie(tmp_path, "a"))

    play(tmp_path, scenario, PLAIN)


def test_without_a_sandbox_a_fork_bomb_can_be_stopped(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        if rig.engine.get_health().limits == "watched":
            pytest.skip("without control groups a fork bomb would hit everyone")
        bomb = "trap '' TERM; echo up; f() { while :; do (f) 2>/dev/null & sleep 0.01; done; }; f"
        await rig.start_and_wait_for(b"up", "a", bomb, resources=Resources(cpu=0.2, memory=128 * MIB))
        await rig.engine.stop("a", 0.3)
        assert (await rig.end_of("a")).seen is ObservedState.EXITED
        assert not list_pids_by_cookie(cookie(tmp_path, "a"))

    with bombing():
        play(tmp_path, scenario, EmbeddedOptions(isolation="off", pids_max=100))


def test_without_a_sandbox_files_are_removed_too(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", "mkdir -p deep/er; touch deep/er/file; chmod 0 deep")
        folder = folder_of(tmp_path, "a")
        assert Path(folder["scratch"]).exists()
        await rig.engine.remove("a")
        await rig.engine.close()
        assert not folder.exists()
        with pytest.raises(EngineError):
            await sweep(rig.engine, [])
        await rig.open()
        while list((tmp_path / "trash").iterdir()):  # what was not cleaned before is cleaned now
            await asyncio.sleep(0.01)

    play(tmp_path, scenario, PLAIN)


# With a /run of its own: engines of other tests cannot see this home, and would take its layers for orphans.
MOUNT_AN_OVERLAY = """
set -e
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
cd "$1" && mkdir lower upper work home && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work home
shift && exec "$@"
"""


@pytest.mark.release
@only_root_can_become_another
def test_on_an_overlay_changes_are_kept_in_memory(tmp_path: Path) -> None:
    """As in a container, where every folder lies on an overlay, and none can be laid upon it."""
    need(Isolation.FULL)
    command = ["unshare", "--mount", "sh", "-c", MOUNT_AN_OVERLAY, "sh", str(tmp_path)]
    done = subprocess.run(
        [*command, sys.executable, "-c", ASK, str(tmp_path / "home" / "h")],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )
    assert done.returncode == 0, done.stderr
    isolation, notes, code, said, _ = json.loads(done.stdout)
    assert isolation == Isolation.FULL, notes
    assert any("memory" in note for note in notes)
    assert (code, said) == (3, ["/home/jovyan"] * 2)


@only_root_can_become_another
@pytest.mark.release
def test_on_an_overlay_homes_are_collected_and_watched(tmp_path: Path) -> None:
    need(Isolation.FULL)
    here = Path(__file__).parent
    tests = [f"{here}/test_artifacts.py::test_a_link_is_followed_to_what_is_the_tasks_own"]
    tests += [f"{here}/test_scratch.py::test_a_home_that_holds_too_much_ends_the_task_and_is_told"]
    command = ["unshare", "--mount", "sh", "-c", MOUNT_AN_OVERLAY, "sh", str(tmp_path), sys.executable, "-m", "pytest"]
    command += ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/home/t", *tests]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
