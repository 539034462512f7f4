"""The configuration of images from a real registry, on the embedded engine and on container daemons: above all, the
user that tasks run as."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.engines.base import (
    Engine,
    ExecCommand,
    Isolation,
    LogStream,
    PullError,
    PullFailure,
    SupportsImagePulls,
    Terminal,
)
from holdfast.engines.container import ContainerEngine, ContainerOptions
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.registry_options import RegistryOptions
from holdfast.engines.embedded.lifecycle import user_files
from holdfast.engines.task_user import MAX_ID, TaskUser, UnknownUser, resolve_user
from holdfast.engines.user_switch import build_user_switch
from tests.container_daemons import Dockerd, PodmanService, build_root_tar, run_daemon
from tests.contracts.engine_contract import TIMEOUT, Rig, collect, read_all, sweep

from .archives import ARCHITECTURE, Entry, config, docker_archive, entry, folder, link, shell_entries, tar
from .registries import RealRegistry, build_image, start_registry
from .scenarios import need, play
from .sessions import Screen, inside, let_in
from .user_images import APP_GID, APP_UID, GROUP, MORE_GID, OTHER_GID, PASSWD, busybox_entries

WHO_SCRIPT = 'echo "$(id -u) $(id -g) $(id -G) $USER $LOGNAME $HOME"'
APP = f"{APP_UID} {APP_GID} {APP_GID} {MORE_GID} app app /home/app\n"


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("", None),
        ("root", None),
        ("0:5", None),
        ("app", TaskUser(name="app", uid=1234, gid=1300, groups=(1300, 1400), home="/home/app")),
        ("1234", TaskUser(name="app", uid=1234, gid=1300, groups=(1300, 1400), home="/home/app")),
        ("app:other", TaskUser(name="app", uid=1234, gid=1500, groups=(1500,), home="/home/app")),
        ("7:8", TaskUser(name="7", uid=7, gid=8, groups=(8,))),
        ("7", TaskUser(name="7", uid=7, gid=0, groups=(0,))),
        (f"{MAX_ID}", TaskUser(name=f"{MAX_ID}", uid=MAX_ID, gid=0, groups=(0,))),
    ],
)
def test_a_user_is_resolved_by_the_lists_of_the_image(user: str, found: TaskUser | None) -> None:
    assert resolve_user(user, PASSWD, GROUP) == found


@pytest.mark.parametrize("user", ["nobody", "app:nogroup", f"{MAX_ID + 1}", "-1", "4294967295", "7:-1", ":", "a b"])
def test_a_user_that_does_not_exist_is_an_error(user: str) -> None:
    if user == ":":
        assert resolve_user(user, PASSWD, GROUP) is None
        return
    with pytest.raises(UnknownUser):
        resolve_user(user, PASSWD, GROUP)


@pytest.mark.parametrize(
    "passwd", [b"", b"\xff\xfe\0:::\n", b"app\napp:x:1\napp:x:-1:5::/:\n+app:x:0:0::/:\n", b":" * 9]
)
def test_damaged_lists_contain_no_user(passwd: bytes) -> None:
    with pytest.raises(UnknownUser):
        resolve_user("app", passwd, b"")


def test_a_name_that_means_root_is_root() -> None:
    assert resolve_user("toor", b"toor:x:0:5::/:/bin/sh\n", b"") is None


# --- tasks ------------------------------------------------------------------------------------------------------------

IMAGES: dict[str, dict[str, Any]] = {
    "app": {"User": "app", "Entrypoint": ["/bin/false"], "Env": ["FROM_IMAGE=yes"]},
    "group": {"User": f"{APP_UID}:other"},
    "number": {"User": "77"},
    "bare": {"User": "bare"},
    "root": {"User": "root"},
    "unknown": {"User": "nobody"},
    "unknown-group": {"User": "app:nogroup"},
    "workdir": {"User": "app", "WorkingDir": "/app"},
    "new-workdir": {"User": "app", "WorkingDir": "/new/deep"},
}


class Place:
    """An engine, and the registry that it pulls from."""

    def __init__(self, registry: str, make: Callable[[Path], Engine], *, is_daemon: bool) -> None:
        self._registry = registry
        self._make = make
        self.is_daemon = is_daemon

    def name(self, tag: str) -> str:
        return f"{self._registry}/config:{tag}"

    def play(self, home: Path, tag: str, scenario: Callable[[Rig], Awaitable[None]]) -> None:
        async def go() -> None:
            rig = Rig(lambda: self._make(home), self.name(tag))
            await rig.open()
            try:
                assert isinstance(rig.engine, SupportsImagePulls)
                await rig.engine.pull_image(self.name(tag))
                await asyncio.wait_for(asyncio.ensure_future(scenario(rig)), TIMEOUT)
            finally:
                await sweep(rig.engine, [])
                await rig.close()

        asyncio.run(go())


def push_images(registry: RealRegistry) -> None:
    base = tar(busybox_entries())
    for tag, settings in IMAGES.items():
        registry.push_image(f"config:{tag}", build_image([base], **settings))
    other, machine = ("arm64", "aarch64") if ARCHITECTURE == "amd64" else ("amd64", "x86_64")
    program = build_user_switch(TaskUser(name="app", uid=1, gid=1), machine)
    shell = tar([folder("bin"), entry("bin/sh", program, mode=0o755)])
    for tag, count in (("many-groups", 335), ("more-groups", 1000)):
        groups = "".join(f"g{number}:x:{10**9 + number}:app\n" for number in range(count)).encode()
        registry.push_image(f"config:{tag}", build_image([base, tar([entry("etc/group", groups)])], User="app"))
    registry.push_image("config:foreign", build_image([shell], architecture=other))
    registry.push_image("config:no-shell", build_image([build_root_tar(shell=False)]))
    trap = entry("trap/mkdir", b"#!/bin/bash\necho ran as $EUID >&2\n", mode=0o755)
    programs = tar([*shell_entries("/bin/bash", "/bin/mkdir"), folder("trap"), trap])  # busybox would not search for it
    registry.push_image("config:trap", build_image([programs], User="7:8"))
    registry.push_image("config:bash", build_image([tar(shell_entries("/bin/bash"))], User="7:8", Env=["A=1"]))


@pytest.fixture(
    scope="module",
    params=["embedded", *(pytest.param(kind, marks=pytest.mark.release) for kind in ("docker", "podman"))],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("registry") / "data"
    if request.param == "embedded":
        need(Isolation.FULL)
        with start_registry(folder) as registry:
            push_images(registry)
            options = EmbeddedOptions(registries=RegistryOptions(insecure=frozenset({registry.host})))
            yield Place(registry.host, lambda home: EmbeddedEngine(home, options), is_daemon=False)
        return
    with start_registry(folder) as registry:
        push_images(registry)
    kind = Dockerd if request.param == "docker" else PodmanService
    with run_daemon(kind, insecure_registry=registry.host) as daemon:
        given = ContainerOptions(socket=daemon.socket, daemon_interval=0.1)
        with daemon.run_registry(folder / "config.yml", registry.host):
            yield Place(registry.host, lambda home: ContainerEngine(home, given), is_daemon=True)


async def read_errors(rig: Rig, attempt_id: str) -> bytes:
    return await read_all(rig.log(attempt_id, LogStream.STDERR))


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("app", APP),
        ("group", f"{APP_UID} {OTHER_GID} {OTHER_GID} app app /home/app\n"),
        ("number", "77 0 0 77 77 /home/jovyan\n"),
        ("bare", f"1235 {APP_GID} {APP_GID} bare bare /home/jovyan\n"),
        ("root", "0 0 0 root root /home/jovyan\n"),
    ],
)
def test_a_task_runs_as_the_user_of_its_image(place: Place, tmp_path: Path, tag: str, said: str) -> None:
    async def scenario(rig: Rig) -> None:
        script = f"{WHO_SCRIPT}; touch made ~/made; echo out >>/dev/stdout; echo err >>/dev/stderr"
        seen = await rig.run("a", script)
        assert (seen.code, seen.warning) == (0, ""), await read_errors(rig, "a")
        assert (await read_all(rig.log("a"))).decode() == f"{said}out\n"
        assert await read_errors(rig, "a") == b"err\n"

    place.play(tmp_path, tag, scenario)


def test_variables_are_used_and_the_entry_point_is_not(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", "echo $FROM_IMAGE $0")).code == 0
        assert await read_all(rig.log("a")) == b"yes /run/holdfast/script\n"

    place.play(tmp_path, "app", scenario)


def test_an_image_with_bash(place: Place, tmp_path: Path) -> None:
    """A root filesystem with the machine's own bash and its libraries, without a user list."""

    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", "echo ${BASH_VERSION:+bash} $EUID $A $HOME; : >made")).code == 0
        assert await read_all(rig.log("a")) == b"bash 7 1 /home/jovyan\n"

    place.play(tmp_path, "bash", scenario)


@pytest.mark.parametrize(
    ("tag", "failure"), [("no-shell", PullFailure.NO_SHELL), ("foreign", PullFailure.WRONG_ARCHITECTURE)]
)
def test_an_image_that_cannot_run_is_refused(place: Place, tmp_path: Path, tag: str, failure: PullFailure) -> None:
    """The embedded engine refuses to pull it; a daemon pulls it, and then it does not start."""

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "echo ran")
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.NO_SHELL, False), seen

    if place.is_daemon:
        place.play(tmp_path, tag, scenario)
        return
    with pytest.raises(PullError) as caught:
        place.play(tmp_path, tag, scenario)
    assert (caught.value.kind, caught.value.is_transient) == (failure, False)


def test_the_user_has_no_privileges(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        script = "cat /etc/secret; touch /etc/mine; cat /proc/self/status; kill -0 1"
        assert (await rig.run("a", script, shell_options=())).code == 1
        said = (await read_all(rig.log("a"))).decode()
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert f"{kind}:\t{0:016x}" in said
        assert "NoNewPrivs:\t1" in said
        errors = (await read_errors(rig, "a")).decode()
        assert "/etc/secret': Permission denied" in errors
        assert "/etc/mine: Permission denied" in errors
        assert "Operation not permitted" in errors

    place.play(tmp_path, "app", scenario)


def test_the_search_path_of_a_job_has_no_effect_as_root(place: Place, tmp_path: Path) -> None:
    """The working folder is created as root, with the image's own program."""

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "pwd; mkdir y", workdir="/new/deep", env={"PATH": "/trap:/bin"})
        assert (seen.code, await read_errors(rig, "a")) == (0, b"ran as 7\n")
        assert await read_all(rig.log("a")) == b"/new/deep\n"

    place.play(tmp_path, "trap", scenario)


def test_no_variable_of_a_job_has_an_effect_as_root(place: Place, tmp_path: Path) -> None:
    """Bash expands BASH_ENV; the loader of each program writes a file as its user, as it would load LD_PRELOAD."""
    env = {"BASH_ENV": "$(echo bash of $EUID >&2)", "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": "/home/jovyan/loader"}
    script = 'for file in /home/jovyan/loader.*; do if [ -O "$file" ]; then echo own; else echo "$file"; fi; done'

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", script, env=env)
        assert seen.code == 0
        assert set((await read_errors(rig, "a")).splitlines()) == {b"bash of 7"}
        assert set((await read_all(rig.log("a"))).splitlines()) == {b"own"}

    place.play(tmp_path, "bash", scenario)


def test_sessions_have_the_variables_of_the_task(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600", env={"COLOUR": "green"})
        assert (await inside(rig.engine, "a", "echo $COLOUR $FROM_IMAGE; pwd")).out == "green yes\n/home/jovyan\n"

    place.play(tmp_path, "app", scenario)


def test_jobs_that_need_root_stay_root(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert (await rig.run("a", WHO_SCRIPT, as_image_user=False)).code == 0
        said = (await read_all(rig.log("a"))).decode().split()
        assert (said[:2], said[-3:]) == (["0", "0"], ["root", "root", "/home/jovyan"])

    place.play(tmp_path, "app", scenario)


@pytest.mark.parametrize("tag", ["many-groups", "more-groups"])
def test_a_task_with_many_groups_can_be_stopped(place: Place, tmp_path: Path, tag: str) -> None:
    """Groups are part of the start note, whose size is limited; a task without a complete one would not be watched."""

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        await rig.engine.stop("a", 0)
        assert (await rig.end_of("a")).seen is ObservedState.EXITED

    place.play(tmp_path, tag, scenario)


@pytest.mark.parametrize("tag", ["unknown", "unknown-group"])
def test_a_task_of_an_unknown_user_is_refused_before_it_runs(place: Place, tmp_path: Path, tag: str) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "echo ran")
        assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.INVALID_TASK, False)
        assert rig.image in seen.message
        assert "/etc/" in seen.message
        assert not (tmp_path / "tasks" / "a").exists()

    place.play(tmp_path, tag, scenario)


@pytest.mark.parametrize(("tag", "given"), [("workdir", None), ("new-workdir", None), ("workdir", "/new/deep")])
def test_the_working_folder(place: Place, tmp_path: Path, tag: str, given: str | None) -> None:
    """A folder of the image keeps its owner; a new one is writable."""

    async def scenario(rig: Rig) -> None:
        script = "pwd; if touch x 2>/dev/null; then echo writable; fi"
        assert (await rig.run("a", script, workdir=given)).code == 0, await read_errors(rig, "a")
        expected = b"/new/deep\nwritable\n" if given or tag == "new-workdir" else b"/app\n"
        assert await read_all(rig.log("a")) == expected

    place.play(tmp_path, tag, scenario)


def test_sessions_are_the_same_user(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", "echo up; sleep 600")
        said = await inside(rig.engine, "a", f"{WHO_SCRIPT}; cat /etc/secret; cat /proc/self/status; kill -0 1")
        assert said.out.startswith(APP)
        assert "secret': Permission denied" in said.errors
        assert "Operation not permitted" in said.errors
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert f"{kind}:\t{0:016x}" in said.out
        session = await let_in(rig.engine).open_session("a", ExecCommand(terminal=Terminal()))
        screen = Screen(session)
        await screen.type("touch ~/typed; echo is-$(id -u)-$PROFILE-; exit\n")
        await screen.shows(f"is-{APP_UID}-read-")
        session.close()
        assert "sleep 600" in [" ".join(each.command) for each in await let_in(rig.engine).list_processes("a")]
        await rig.engine.stop("a", 5.0)
        assert (await rig.end_of("a")).code == 143

    place.play(tmp_path, "app", scenario)


def test_a_failed_task_is_held(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        held = await rig.run("a", "echo before; exit 7", hold=True)
        assert (held.seen, held.code) == (ObservedState.HELD, 7)
        assert (await inside(rig.engine, "a", WHO_SCRIPT)).out == APP
        await rig.engine.stop("a", 5.0)
        while (await rig.look("a")).seen is ObservedState.HELD:
            await asyncio.sleep(0.02)
        assert await read_all(rig.log("a")) == b"before\n"

    place.play(tmp_path, "app", scenario)


@pytest.mark.parametrize("tag", ["app", "bare"])
@pytest.mark.parametrize("where", ["~/artifacts", "/home/jovyan/artifacts"])
def test_artifacts_are_collected(place: Place, tmp_path: Path, tag: str, where: str) -> None:
    """In the image's own home, and in the home of every task."""

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", f"mkdir -p {where}/sub; echo kept >{where}/sub/file")
        assert (seen.code, seen.artifacts) == (0, True), await read_errors(rig, "a")
        assert collect(rig.engine, "a").files == {b"sub/file": b"kept\n"}

    place.play(tmp_path, tag, scenario)


def test_an_ended_task_is_revived_as_its_user(place: Place, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        launch = rig.launch("a", "echo left >/home/jovyan/left")
        assert (await rig.run("a", launch.script)).code == 0
        await let_in(rig.engine).revive_task(launch)
        said = await inside(rig.engine, "a", f"{WHO_SCRIPT}; cat /home/jovyan/left; echo more >>/home/jovyan/left")
        assert (said.code, said.out) == (0, f"{APP}left\n"), said.errors

    place.play(tmp_path, "app", scenario)


def run_crafted_image(home: Path, passwd: bytes, group: bytes, *more: Entry) -> tuple[Observation, bytes]:
    """Run a task of an image with these lists and files, on the embedded engine; return its end and its output."""
    need(Isolation.FULL)
    found: list[tuple[Observation, bytes]] = []

    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", "echo $HOME; echo $(id -G)", image="crafted:1")
        found.append((seen, await read_all(rig.log("a")) if seen.code is not None else b""))

    kept = [each for each in busybox_entries() if each[0].name not in ("etc/passwd", "etc/group")]
    lists = [entry("etc/passwd", passwd), entry("etc/group", group)]
    file = home / "image.tar"
    file.write_bytes(docker_archive([tar([*kept, *lists, *more])], config(User="app")))
    ImageStore(home / "home" / "images").add("crafted:1", file)
    play(home / "home", scenario)
    return found[0]


@pytest.mark.parametrize("path", ["/home/../proc", "//proc", "/link", "/link/deep", "/long/" + "x" * 200 + "/y" * 400])
def test_a_home_that_cannot_be_used_is_not_used(tmp_path: Path, path: str) -> None:
    """In a folder that every task has of its own, by way of `..` or a link, or too long."""
    more = [folder("proc", 0o777), folder("proc/deep", 0o777), link("link", "/proc")]
    if path.startswith("/long"):
        parts = path.strip("/").split("/")
        more += [folder("/".join(parts[: count + 1]), 0o777) for count in range(len(parts))]
    seen, said = run_crafted_image(tmp_path, f"app:x:5:5::{path}:\n".encode(), b"", *more)
    assert (seen.seen, seen.code) == (ObservedState.EXITED, 0), seen.message
    assert said.splitlines()[0] == b"/home/jovyan"


def test_a_user_in_too_many_groups_is_in_the_first_ones(tmp_path: Path) -> None:
    group = b"".join(b"g%d:x:%d:app\n" % (number, number) for number in range(2_000_000_000, 2_000_003_000))
    seen, said = run_crafted_image(tmp_path, PASSWD, group)
    assert (seen.seen, seen.code) == (ObservedState.EXITED, 0), seen.message
    assert len(said.splitlines()[1].split()) == 128


@pytest.mark.parametrize("target", ["/etc", "../../../../var/tmp/made", None])
@pytest.mark.parametrize("home", ["home/app", "home/jovyan"])
def test_an_image_with_something_else_as_artifacts_is_refused(tmp_path: Path, home: str, target: str | None) -> None:
    path = f"{home}/artifacts"
    crafted = link(path, target) if target else entry(path, b"a file\n")
    seen, _ = run_crafted_image(tmp_path, PASSWD, GROUP, crafted)
    assert (seen.seen, seen.cause, seen.transient) == (ObservedState.REFUSED, Cause.INVALID_TASK, False), seen
    assert f"/{path} is not a folder" in seen.message


def test_a_machine_that_cannot_switch_users_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        seen = await rig.run("a", WHO_SCRIPT, image="app:1")
        assert "runs as root and not as the image's user app" in seen.warning
        assert (await read_all(rig.log("a"))).decode() == "0 0 0 root root /home/jovyan\n"

    need(Isolation.FULL)
    monkeypatch.setattr(user_files, "supports_user_switch", lambda machine: False)
    file = tmp_path / "image.tar"
    file.write_bytes(docker_archive([tar(busybox_entries())], config(User="app")))
    ImageStore(tmp_path / "home" / "images").add("app:1", file)
    play(tmp_path / "home", scenario)
