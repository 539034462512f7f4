"""Packages that every task has, wherever it runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from tests.contracts.engine_contract import Rig, launch, read_all

from .archives import config, docker_archive, shell_entries, tar
from .scenarios import need, play

# A task must find a Python of the machine's; that of the tests may lie where no task can see it.
needs_python = pytest.mark.skipif(not shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"), reason="no python3")


def options(tmp_path: Path, **more: str) -> EmbeddedOptions:
    package = tmp_path / "site-packages" / "tool"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("answer = 42\n")
    (package / "__pycache__" / "stale.py").write_text("")
    (package.parent / "private.py").write_text("")
    return EmbeddedOptions(library=(str(package),), **more)  # type: ignore[arg-type]


async def output(rig: Rig, script: str, name: str = "a", **more: object) -> str:
    await rig.engine.start(launch(name, script, **more))
    end = await rig.end_of(name)
    assert end.code == 0, await read_all(rig.log(name, LogStream.STDERR))
    return (await read_all(rig.log(name))).decode()


def test_what_a_sandbox_holds_of_it(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    script = """
    echo $PYTHONPATH; cd /run/holdfast/lib; find . -type f
    touch /run/holdfast/lib/x 2>/dev/null && echo BAD
    cat /pai_data/debug/tool/__init__.py
    if [ ! -d /pai_data/debug ]; then echo BAD; mkdir --parents /pai_data/debug; fi
    echo x >/pai_data/debug/tool.py; ls /pai_data/debug
    """

    async def scenario(rig: Rig) -> None:
        said = await output(rig, script)
        assert said.splitlines() == ["/run/holdfast/lib", "./tool/__init__.py", "answer = 42", "tool", "tool.py"]

    play(tmp_path / "home", scenario, options(tmp_path))


@needs_python
@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_it_comes_behind_what_the_user_has(tmp_path: Path, isolation: str) -> None:
    """Also where the user's own path is set by the job."""
    script = "cd /tmp; python3 -c 'import tool; print(tool.answer)'"
    own = tmp_path / "own"
    own.mkdir()
    (own / "tool.py").write_text("answer = 'mine'\n")

    async def scenario(rig: Rig) -> None:
        assert await output(rig, script) == "42\n"
        mounts = (Mount(volume=HostFolder(str(own)), target=str(own)),)
        assert await output(rig, script, "b", env={"PYTHONPATH": str(own)}, mounts=mounts) == "mine\n"
        assert await output(rig, script, "c", env={"PYTHONPATH": "/nowhere:/else"}) == "42\n"

    play(tmp_path / "home", scenario, options(tmp_path, isolation=isolation))


def test_images_have_it_too(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    file = tmp_path / "tiny.tar"
    file.write_bytes(docker_archive([tar(shell_entries())], config(Env=["PYTHONPATH=/opt/own"])))

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        await rig.engine.import_image("tiny:1", file)
        script = "echo $PYTHONPATH; cat /run/holdfast/lib/tool/__init__.py; ls /pai_data/debug"
        said = await output(rig, script, image="tiny:1")
        assert said.splitlines() == ["/opt/own:/run/holdfast/lib", "answer = 42", "tool"]

    play(tmp_path / "home", scenario, options(tmp_path))


def test_what_a_job_mounts_there_stays_as_it_is(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    own = tmp_path / "own"
    own.mkdir()

    async def scenario(rig: Rig) -> None:
        mount = Mount(volume=HostFolder(str(own)), target="/pai_data", read_only=False)
        await output(rig, "ls -d /run/holdfast/lib/tool", mounts=(mount,))
        assert list(own.iterdir()) == []

    play(tmp_path / "home", scenario, options(tmp_path))


def test_an_upgrade_leaves_running_tasks_what_they_have(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    chosen = options(tmp_path)
    home, go = tmp_path / "home", tmp_path / "go"
    go.mkdir()

    async def scenario(rig: Rig) -> None:
        script = "until [ -e /mnt/go/on ]; do sleep 0.02; done; cat /run/holdfast/lib/tool/__init__.py"
        await rig.engine.start(launch("old", script, mounts=(Mount(volume=HostFolder(str(go)), target="/mnt/go"),)))
        Path(chosen.library[0], "__init__.py").write_text("answer = 43\n")
        await rig.reopen()
        assert await output(rig, "cat /run/holdfast/lib/tool/__init__.py", "new") == "answer = 43\n"
        assert len(list((home / "libraries").iterdir())) == 2
        await rig.engine.observe(["old"])
        (go / "on").touch()
        assert (await rig.end_of("old")).code == 0
        assert await read_all(rig.log("old")) == b"answer = 42\n"

    play(home, scenario, chosen)
