"""Tasks on a real Slurm are isolated by bubblewrap, and run in images."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import MIB, Mount, Resources
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import ExecRefused, Isolation
from holdfast.engines.embedded.images.registry_options import RegistryOptions
from holdfast.engines.slurm import SlurmEngine, node_programs
from tests.contracts.engine_contract import TIMEOUT, Rig, collect, read_all, sweep
from tests.contracts.engine_rig import FOREVER
from tests.slurm_cluster import SlurmCluster, make_fast_options, run_cluster

from .archives import tar
from .registries import RealRegistry, build_image, start_registry
from .sessions import inside
from .user_images import APP_GID, APP_UID, MORE_GID, busybox_entries

Scenario = Callable[[Rig], Awaitable[None]]
WHO_SCRIPT = 'echo "$(id -u) $(id -g) $(id -G) $USER $HOME"'
APP = f"{APP_UID} {APP_GID} {APP_GID} {MORE_GID} app /home/app\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with start_registry(tmp_path_factory.mktemp("registry") / "plain") as started:
        yield started


@pytest.fixture
def play(tmp_path: Path, cluster: SlurmCluster) -> Callable[..., None]:
    def run(scenario: Scenario, **options: Any) -> None:
        def make() -> SlurmEngine:
            return SlurmEngine(
                tmp_path / "shared", make_fast_options(cluster, **{"node_folder": str(tmp_path), **options})
            )

        async def go() -> None:
            rig = Rig(make, "host")
            await rig.open()
            try:
                await asyncio.wait_for(scenario(rig), TIMEOUT)  # type: ignore[arg-type]
            finally:
                await sweep(rig.engine, [])
                await rig.close()

        asyncio.run(go())

    return run


def get_engine(rig: Rig) -> SlurmEngine:
    assert isinstance(rig.engine, SlurmEngine)
    return rig.engine


async def import_busybox(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(tar(busybox_entries()))
    await get_engine(rig).import_image("box", tmp_path / "image.tar")


async def read_output(rig: Rig, attempt_id: str = "a") -> str:
    return (await read_all(rig.log(attempt_id))).decode()


async def see_running(rig: Rig, attempt_id: str = "a") -> Observation:
    return await rig.look(attempt_id)


# --- the image `host` -------------------------------------------------------------------------------------------------


def test_a_task_sees_no_files_of_others_and_cannot_change_the_node(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "other", FOREVER)
        tasks = tmp_path / "shared" / "tasks"
        script = f"ls {tasks}; ls {tmp_path / 'shared'}; touch /usr/new || echo denied; touch /tmp/new; ls /tmp/new"
        assert (await rig.run("a", script)).code == 0
        said = (await read_output(rig)).split("\n")
        assert said[:4] == ["a", "programs", "tasks", "denied"]
        assert not Path("/tmp/new").exists()
        assert (await rig.run("b", "touch $HOME/../claim || echo denied")).code == 0
        assert await read_output(rig, "b") == "denied\n"
        assert get_engine(rig).get_health().isolation is Isolation.NONE  # not known before tasks have run
        await get_engine(rig)._refresh_cluster()
        assert get_engine(rig).get_health().isolation is Isolation.READ_ONLY

    play(scenario)


def test_a_task_leaves_no_files_on_the_node(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("a", "head -c 100000 /dev/zero >/tmp/data; pwd")
        await rig.start_and_wait_for(b"up", "b", f"touch /tmp/left; {FOREVER}")
        await rig.engine.stop("b", 0)  # killed, so that nothing is deleted
        await rig.end_of("b")
        checked = tmp_path / "holdfast-0" / "private-files"
        for number in itertools.count():  # the nodes are one machine here; the killed task may end a little later
            checked.unlink()  # else the next task checks the node only after a minute
            await rig.run(f"c{number}", "true")
            if not [path for path in checked.parent.iterdir() if path != checked and "template-" not in path.name]:
                break

    play(scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot read them anyway")
def test_a_task_of_root_cannot_read_private_files_of_the_node(play: Any, tmp_path: Path) -> None:
    script = "cat /etc/shadow || ls -A /etc/ssl/private; ls /etc/passwd"
    checked = tmp_path / "holdfast-0" / "private-files"

    async def scenario(rig: Rig) -> None:
        async def check(name: str) -> None:
            await rig.run(name, script)
            assert await read_all(rig.log(name)) == b"/etc/passwd\n"

        await check("first")
        await check("soon-after")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        uptime = int(float(Path("/proc/uptime").read_text().split()[0]))
        for number, header in enumerate((f"0 {boot}", f"{uptime} another-boot", "", "a b")):
            checked.write_text(f"{header}\n")  # no file is private, says a list that is not to be used
            await check(f"other-{number}")
        checked.unlink()
        checked.mkdir()  # so that the list cannot be written
        await check("without-list")

    play(scenario)


def test_where_bubblewrap_is_missing_tasks_say_that_they_are_not_isolated(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_programs, "find_bwrap", lambda: None)
    (tmp_path / "data").mkdir()

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", FOREVER)
        assert (await see_running(rig)).warning == (
            "The task is not isolated: it sees the files of the node (bubblewrap is not installed)."
        )
        await import_busybox(rig, tmp_path)
        refused = await rig.run("b", "true", image="box")
        assert (refused.seen, refused.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED)
        assert "cannot isolate tasks (bubblewrap is not installed)" in refused.message
        mount = Mount(volume=HostFolder(str(tmp_path / "data")), target="/elsewhere", read_only=True)
        assert (await rig.run("c", "true", mounts=(mount,))).seen is ObservedState.REFUSED
        await get_engine(rig)._refresh_cluster()
        assert any("bubblewrap is not installed" in note for note in get_engine(rig).get_health().notes)

    play(scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create folders of another user")
def test_a_user_who_takes_the_name_of_the_folder_on_the_node_does_not_prevent_isolation(
    play: Any, tmp_path: Path
) -> None:
    taken = tmp_path / "holdfast-0"
    taken.mkdir()
    os.chown(taken, APP_UID, APP_GID)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", f"ls {tmp_path / 'shared' / 'tasks'}; {FOREVER}")
        assert not (await see_running(rig)).warning
        assert (await read_output(rig)).startswith("a\n")
        await import_busybox(rig, tmp_path)
        await rig.run("b", "touch /new && ls /new", image="box")
        assert await read_output(rig, "b") == "/new\n"
        await rig.engine.stop("a", TIMEOUT)
        await rig.end_of("a")
        while list(tmp_path.glob("holdfast-0.*")):
            await asyncio.sleep(0.05)
        assert not list(taken.iterdir())

    play(scenario)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill_disk(path: Path, left: int) -> None:
    """Fill it up to some bytes."""
    free = os.statvfs(path)
    (path / "data").write_bytes(bytes(free.f_bavail * free.f_frsize - left))


def test_a_full_disk_of_the_node_does_not_prevent_isolation(play: Any, tmp_path: Path, small_disk: Path) -> None:
    async def scenario(rig: Rig) -> None:
        fill_disk(small_disk, 0)
        await rig.start_and_wait_for(b"up", "a", f"ls {tmp_path / 'shared' / 'tasks'}; {FOREVER}")
        assert not (await see_running(rig)).warning
        assert (await read_output(rig)).startswith("a\n")

    play(scenario, node_folder=str(small_disk))


def test_a_list_of_private_files_that_a_full_disk_cut_is_not_used(play: Any, small_disk: Path) -> None:
    secrets = Path(tempfile.mkdtemp(prefix="holdfast-", dir="/usr/local"))
    secrets.chmod(0o755)

    async def scenario(rig: Rig) -> None:
        for number in range(100):
            (secrets / f"{number}-{'x' * 100}").write_text("secret\n")
            (secrets / f"{number}-{'x' * 100}").chmod(0o600)
        await rig.run("first", "true")
        (small_disk / "holdfast-0" / "private-files").unlink()  # else the node is only checked after a minute
        fill_disk(small_disk, 4096)
        await rig.run("full", "true")
        (small_disk / "data").unlink()
        await rig.run("a", f"cat {secrets}/* || echo denied")
        assert await read_output(rig) == "denied\n"

    try:
        play(scenario, node_folder=str(small_disk))
    finally:
        shutil.rmtree(secrets)


def test_where_bubblewrap_works_no_task_runs_without_it(play: Any) -> None:
    async def scenario(rig: Rig) -> None:
        shm = 1 << 64  # bubblewrap refuses it, as it would a volume that is deleted at that moment
        seen = await rig.run("a", "echo ran", resources=Resources(cpu=1.0, memory=64 * MIB, shm=shm))
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.START_FAILED, True)
        assert "failed to isolate this one (--size takes a non-zero number of bytes)" in seen.message
        assert await read_output(rig) == ""

    play(scenario)


def test_programs_outside_use_no_file_or_variable_of_the_task(play: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("unchanged")

    async def scenario(rig: Rig) -> None:
        folder = tmp_path / "shared" / "tasks" / "a"
        trap = f"for name in heartbeat usage usage.draft variables; do ln -sf {victim} {folder}/report/$name; done"
        script = f"{trap}; exec python3 -m http.server --bind 127.0.0.2 $HOLDFAST_PORT_WEB"
        env = {"PATH": f"{folder}/scratch:/usr/bin:/bin", "LD_PRELOAD": f"{folder}/scratch/missing.so"}
        await rig.engine.start(rig.launch("a", script, port_counts={"web": 1}, env=env))
        while not (ports := (await rig.look("a")).ports):
            await asyncio.sleep(0.05)
        for _ in range(100):
            try:
                _, writer = await get_engine(rig).connect_port("a", ports["web"][0])
                writer.close()
                break
            except ExecRefused:
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)  # two heartbeats
        assert victim.read_text() == "unchanged"
        assert (folder / "report" / "heartbeat").is_file()
        assert not (folder / "report" / "heartbeat").is_symlink()

    play(scenario)


def test_a_link_in_the_path_of_a_volume_is_refused_on_the_node(play: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")

    async def scenario(rig: Rig) -> None:
        mount = Mount(volume=HostFolder(str(tmp_path / "link")), target="/elsewhere", read_only=True)
        refused = await rig.run("a", "true", mounts=(mount,))
        assert (refused.seen, refused.cause) == (ObservedState.REFUSED, Cause.NOT_ALLOWED)
        assert "symbolic link" in refused.message

    play(scenario)


ORDINARY_PROGRAM = """
import asyncio, pathlib, sys
from holdfast.engines.slurm import SlurmEngine, SlurmOptions
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.sessions import inside

async def main():
    folder = pathlib.Path(sys.argv[1])
    options = dict(busy_interval=0.1, min_interval=0.05, heartbeat_interval=0.5, node_folder=str(folder))
    rig = Rig(lambda: SlurmEngine(folder / "shared", SlurmOptions(conf=sys.argv[2], **options)), "host")
    await rig.open()
    await rig.engine.import_image("box", pathlib.Path(sys.argv[3]))
    for image in ("host", "box"):
        script = "id -u; touch /etc/new && echo written; echo up; sleep 600"
        await rig.start_and_wait_for(b"up", image, script, image=image)
        said = await inside(rig.engine, image, "id -u; grep -c . /proc/1/cmdline; exit 4")
        print((await read_all(rig.log(image))).split(), said.code, said.out.split()[0], (await rig.look(image)).warning)
        await rig.engine.stop(image, 0)
        await rig.end_of(image)
    await rig.close()

asyncio.run(main())
"""


@pytest.mark.release
def test_an_ordinary_user_isolates_tasks_too(cluster: SlurmCluster) -> None:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    os.chown(folder, 65534, 65534)  # Slurm needs a user that has a name
    (folder / "image.tar").write_bytes(tar(busybox_entries()))
    (folder / "image.tar").chmod(0o644)
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    arguments = (str(folder), str(cluster.conf), str(folder / "image.tar"))
    try:
        ended = subprocess.run(
            [*user, sys.executable, "-c", ORDINARY_PROGRAM, *arguments],
            env={**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=90, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert ended.stdout.splitlines() == ["[b'65534', b'up'] 4 65534 ", "[b'0', b'written', b'up'] 4 0 "], ended.stderr


# --- images -----------------------------------------------------------------------------------------------------------


def test_a_pulled_image_has_its_variables_user_and_folder(play: Any, registry: RealRegistry) -> None:
    settings = {"Env": ["COLOUR=green"], "User": "app", "WorkingDir": "/app/new"}
    registry.push_image("team/app:1", build_image([tar(busybox_entries())], **settings))
    name = f"{registry.host}/team/app:1"

    async def scenario(rig: Rig) -> None:
        assert not get_engine(rig).has_image(name)
        await get_engine(rig).pull_image(name)
        script = f'{WHO_SCRIPT}; echo "$COLOUR $PROFILE"; pwd; touch x; mkdir -p ~/artifacts; echo y >~/artifacts/y'
        assert (await rig.run("a", script, image=name)).code == 0
        assert await read_output(rig) == f"{APP}green \n/app/new\n"
        assert collect(rig.engine, "a").files == {b"y": b"y\n"}
        await rig.start_and_wait_for(b"up", "b", FOREVER, image=name)
        said = await inside(rig.engine, "b", f'{WHO_SCRIPT}; echo "$COLOUR"; pwd; cat /etc/secret')
        assert (said.code, said.out) == (1, f"{APP}green\n/app/new\n")

    play(scenario, registries=RegistryOptions(insecure=frozenset({registry.host})))


def test_changes_of_a_task_do_not_reach_its_image(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await import_busybox(rig, tmp_path)
        script = "echo $HOME; ls /; echo changed >/etc/secret; rm /bin/stat; cat /etc/secret; pwd; exit 3"
        assert (await rig.run("a", script, image="box")).code == 3
        said = (await read_output(rig)).split()
        assert said[0] == said[-1] == "/home/jovyan"
        assert "changed" in said
        assert "usr" not in said
        assert (await rig.run("b", "cat /etc/secret; ls /bin/stat", image="box")).code == 0
        assert await read_output(rig, "b") == "secret\n/bin/stat\n"
        (rootfs,) = (tmp_path / "shared" / "images" / "roots").glob("*/rootfs")
        assert not (rootfs / "tmp" / "x").exists()
        assert sorted(path.name for path in rootfs.iterdir()) == ["app", "bin", "etc", "home", "root", "tmp"]

    play(scenario)


def test_where_overlays_are_not_supported_an_image_is_read_only(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        programs = get_engine(rig)._starter.setups.programs
        programs.install()
        program = Path(programs.folder) / node_programs.SANDBOX_PROGRAM
        program.write_text(program.read_text().replace("--overlay-src", "--unknown-option"))
        await import_busybox(rig, tmp_path)
        script = f"touch /etc/new || echo denied; touch ~/new /tmp/new && echo written; {FOREVER}"
        await rig.start_and_wait_for(b"up", "a", script, image="box")
        assert (await read_output(rig)).startswith("denied\nwritten\n")
        assert "does not support overlays" in (await see_running(rig)).warning
        assert (await inside(rig.engine, "a", "cat /etc/secret")).out == "secret\n"

    play(scenario)


def test_an_image_stays_while_a_task_may_use_it(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        engine = get_engine(rig)
        await import_busybox(rig, tmp_path)
        await rig.start_and_wait_for(b"up", "a", FOREVER, image="box")
        assert await engine.remove_image("box")
        engine._remove_unused_images()
        assert (await inside(rig.engine, "a", "cat /etc/secret")).out == "secret\n"
        missing = await rig.run("b", "true", image="box")
        assert (missing.seen, missing.cause) == (ObservedState.REFUSED, Cause.IMAGE_MISSING)
        await engine.stop("a", 0)
        await rig.end_of("a")
        await engine.remove("a")
        engine._remove_unused_images()
        assert not list((tmp_path / "shared" / "images" / "roots").iterdir())

    play(scenario)


def test_without_isolation_an_image_is_refused_with_what_to_do(play: Any, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await import_busybox(rig, tmp_path)
        assert get_engine(rig).has_image("anything")  # it is not pulled in vain
        refused = await rig.run("a", "true", image="box")
        assert (refused.seen, refused.cause) == (ObservedState.REFUSED, Cause.IMAGE_MISSING)
        assert "slurm.isolation" in refused.message

    play(scenario, isolation="none")
