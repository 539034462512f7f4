"""Importing images, running on them, and archives that mean harm."""

from __future__ import annotations

import asyncio
import lzma
import random
import tarfile
from pathlib import Path

import pytest

from holdfast.core.attempt import ObservedState
from holdfast.core.errors import UserError
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.image import Image
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.tars import BadArchive
from tests.contracts.engine_contract import Rig, launch, read_all

from .archives import (
    ARCHITECTURE,
    Entry,
    config,
    docker_archive,
    entry,
    folder,
    hard_link,
    link,
    oci_files,
    shell_entries,
    tar,
)
from .scenarios import need, play


def shelf(tmp_path: Path) -> ImageStore:
    folder = tmp_path / "images"
    folder.mkdir()
    return ImageStore(folder)


def add(images: ImageStore, file: Path, data: bytes, name: str = "tiny:1") -> Image:
    file.write_bytes(data)
    images.add(name, file)
    image = images.find_image(name)
    assert image is not None
    return image


def names_in(image: Image) -> set[str]:
    root = Path(image.rootfs)
    return {str(path.relative_to(root)) for path in root.rglob("*")}


LOWER = [
    folder("etc"), entry("etc/a", b"1"), entry("etc/b", b"2"), folder("data"), entry("data/old", b"x"),
    folder("gone"), entry("gone/deep", b"x"),
]  # fmt: skip
UPPER = [
    entry("etc/.wh.a"), entry("etc/c", b"3"), folder("data"), entry("data/new", b"y"),
    entry("data/.wh..wh..opq"), entry(".wh.gone"),
]  # fmt: skip
SETTINGS = config(Env=["COLOUR=blue", "PATH=/opt/bin:/bin", "broken"], WorkingDir="/opt/app", Entrypoint=["/no"])


def oci_tar() -> bytes:
    return tar(entry(name, data) for name, data in oci_files([tar(LOWER), tar(UPPER, "w:gz")], SETTINGS).items())


@pytest.mark.parametrize(
    "data",
    [
        docker_archive([tar(LOWER), tar(UPPER)], SETTINGS),
        docker_archive([tar(LOWER, "w:gz"), tar(UPPER, "w:gz")], SETTINGS),
        oci_tar(),
        lzma.compress(oci_tar()),
    ],
    ids=["docker", "docker-gzip", "oci", "oci-xz"],
)
def test_layers_are_laid_over_each_other(tmp_path: Path, data: bytes) -> None:
    image = add(shelf(tmp_path), tmp_path / "file", data)
    assert names_in(image) == {"etc", "etc/b", "etc/c", "data", "data/new"}
    assert image.env == {"COLOUR": "blue", "PATH": "/opt/bin:/bin"}
    assert image.workdir == "/opt/app"
    assert image.shell is None


def test_an_oci_layout_may_be_a_folder(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    for name, data in oci_files([tar(LOWER), tar(UPPER)], SETTINGS).items():
        (layout / name).parent.mkdir(parents=True, exist_ok=True)
        (layout / name).write_bytes(data)
    images = shelf(tmp_path)
    info = images.add("tiny:1", layout)
    assert (info.name, info.source) == ("tiny:1", "OCI layout")
    image = images.find_image("tiny:1")
    assert image is not None
    assert "etc/c" in names_in(image)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_plain_root_filesystem(tmp_path: Path, mode: str) -> None:
    entries = [
        folder("./"), folder("./usr"), folder("./usr/bin", 0o711), entry("./usr/bin/tool", b"#!", mode=0o4755),
        link("./bin", "usr/bin"), hard_link("./usr/bin/same", "./usr/bin/tool"), entry("./bin/through-link", b"x"),
        entry("./.wh.kept", b"an ordinary file"), link("./dangling", "/nowhere"), entry("./dangling/x", b"1"),
        entry("./pipe", type=tarfile.FIFOTYPE), entry("./dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    ]  # fmt: skip
    image = add(shelf(tmp_path), tmp_path / "file", tar(entries, mode))
    root = Path(image.rootfs)
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "usr/bin/through-link").read_bytes() == b"x"
    assert (root / "usr/bin/tool").stat().st_ino == (root / "usr/bin/same").stat().st_ino
    assert (root / "usr/bin/tool").stat().st_mode & 0o7777 == 0o4755
    assert (root / "usr/bin").stat().st_mode & 0o077 == 0o011
    assert (root / ".wh.kept").exists()
    assert (root / "dangling/x").read_bytes() == b"1"
    assert not (root / "dev/null").exists()


def evil(*entries: Entry) -> bytes:
    return tar([folder("etc"), *entries])


@pytest.mark.parametrize(
    "data",
    [
        evil(entry("../escaped", b"x")),
        evil(entry("etc/../../escaped", b"x")),
        evil(entry("a/" * 3000 + "x", b"x")),
        evil(entry("x" * 300, b"x")),
        evil(hard_link("x", "../escaped")),
        evil(hard_link("x", "etc/nothing")),
        b"",
        b"hello, I am not an image",
        b"\x28\xb5\x2f\xfd" + b"\0" * 100,
        tar([entry("readme", b"x")]),
        tar([folder("etc"), entry("etc/a", b"x" * 10_000)])[:4000],
        tar([folder("etc"), entry("etc/a", random.Random(1).randbytes(50_000))], "w:gz")[:20_000],
        docker_archive([], b"{"),
        docker_archive([], b"[]"),
        docker_archive([b"garbage" * 200], SETTINGS),
        docker_archive([tar([entry(".wh...", b"")]), tar([entry("../x", b"")])], SETTINGS),
        tar([entry("manifest.json", b"{}")]),
        tar([entry("manifest.json", b'[{"Config": "c", "Layers": ["../../etc/passwd"]}]')]),
        tar([entry("manifest.json", b"[" * 100_000)]),
        tar([link("manifest.json", "/etc/passwd")]),
        tar([entry("index.json", b'{"manifests": [{"digest": "sha256:../../x"}]}')]),
        docker_archive([tar(LOWER)], b'{"architecture": "sparc"}'),
    ],
)
def test_bad_archives_are_refused_and_leave_nothing(tmp_path: Path, data: bytes) -> None:
    images = shelf(tmp_path)
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(UserError) as refused:
        images.add("bad", file)
    assert refused.value.message
    assert images.list_names() == ["host"]
    assert list((tmp_path / "images" / "roots").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"images", "file"}


def test_links_in_an_archive_lead_nowhere_outside(tmp_path: Path) -> None:
    """A folder that is a link to the machine's own /etc is one to the image's own."""
    outside = tmp_path / "outside"
    outside.mkdir()
    data = tar(
        [
            folder("etc"), link("abs", str(outside)), link("rel", "../../../../../../../.." + str(outside)),
            link("loop", "loop"), entry("abs/one", b"1"), entry("rel/two", b"2"), entry("loop/three", b"3"),
            link("etc/passwd", "/etc/passwd"), entry("etc/passwd", b"mine"),
        ]
    )  # fmt: skip
    before = Path("/etc/passwd").read_bytes()
    image = add(shelf(tmp_path), tmp_path / "file", data)
    assert list(outside.iterdir()) == []
    assert Path("/etc/passwd").read_bytes() == before
    assert (Path(image.rootfs) / "etc/passwd").read_bytes() == b"mine"
    assert (Path(image.rootfs) / "loop/three").read_bytes() == b"3"


@pytest.mark.parametrize("name", ["", "host", "a\0b", "x" * 400])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    images = shelf(tmp_path)
    file = tmp_path / "file"
    file.write_bytes(tar(LOWER))
    with pytest.raises(UserError):
        images.add(name, file)


@pytest.mark.parametrize("name", ["pytorch/pytorch:2.0", "../../etc/x", "host:5000/a@b", ".", "ä", "%2F"])
def test_odd_names_are_only_names(tmp_path: Path, name: str) -> None:
    images = shelf(tmp_path)
    image = add(images, tmp_path / "file", tar(LOWER), name)
    assert image.name == name
    assert Path(image.rootfs).is_relative_to(tmp_path / "images" / "roots")
    assert images.list_names() == ["host", name]
    assert images.remove(name)
    assert not images.remove(name)
    assert images.find_image(name) is None


def test_no_tag_means_latest(tmp_path: Path) -> None:
    images = shelf(tmp_path)
    add(images, tmp_path / "file", tar(LOWER), "one")
    add(images, tmp_path / "file", tar(LOWER), "two:latest")
    assert images.find_image("one:latest") is not None
    assert images.find_image("two") is not None
    assert images.find_image("two:1") is None


def test_a_new_import_takes_the_name_over(tmp_path: Path) -> None:
    images = shelf(tmp_path)
    old = add(images, tmp_path / "file", tar(LOWER))
    new = add(images, tmp_path / "file", tar([folder("etc"), entry("etc/new", b"x")]))
    assert "etc/new" in names_in(new)
    images.remove_unused_folders([old.rootfs])  # a task still stands on it
    assert Path(old.rootfs).exists()
    images.remove_unused_folders([])
    assert not Path(old.rootfs).exists()
    assert Path(new.rootfs).exists()


def test_a_task_runs_on_an_imported_image(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    file = tmp_path / "tiny.tar"
    file.write_bytes(docker_archive([tar(shell_entries())], SETTINGS))
    script = "cat /etc/issue; echo $COLOUR $HOME $PATH; pwd; echo x >/etc/new; cat /etc/new; ls / /tmp; set -o"

    async def scenario(rig: Rig) -> None:
        engine = rig.engine
        assert isinstance(engine, EmbeddedEngine)
        info = await engine.import_image("team/tiny:1", file)
        assert info.size
        assert "team/tiny:1" in {image.name for image in await engine.list_images()}
        for name in ("a", "b"):
            seen = await rig.run(name, script, image="team/tiny:1")
            log = (await read_all(rig.log(name, LogStream.MERGED))).decode()
            assert seen.code == 0, log
            assert log.startswith("tiny image\nblue /home/jovyan /opt/bin:/bin\n/opt/app\nx\n")
            assert "errexit         on" in log  # pipefail, which this shell may not know, did not stop it
        assert await engine.remove_image("team/tiny:1")
        refused = await engine.start(launch("c", "true", image="team/tiny:1"))
        assert refused.seen is ObservedState.REFUSED

    play(tmp_path / "home", scenario)


def test_links_of_an_image_do_not_lead_its_scripts_out(tmp_path: Path) -> None:
    """Bubblewrap makes the places of what it binds, and follows links when it does."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    file, victim = tmp_path / "tiny.tar", tmp_path / "victim"
    victim.mkdir()
    traps = [link(f"run/holdfast/{name}", f"/oldroot{victim}/{name}") for name in ("script", "entry")]
    file.write_bytes(tar([*shell_entries(), folder("run"), folder("run/holdfast"), *traps]))

    async def scenario(rig: Rig) -> None:
        engine = rig.engine
        assert isinstance(engine, EmbeddedEngine)
        await engine.import_image("tiny:1", file)
        seen = await rig.run("a", "cat /etc/issue", image="tiny:1", entry='. "$1"')
        assert seen.code == 0
        assert await read_all(rig.log("a")) == b"tiny image\n"
        assert list(victim.iterdir()) == []

    play(tmp_path / "home", scenario)


def test_a_file_that_is_no_archive_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(BadArchive) as caught:
        add(shelf(tmp_path), tmp_path / "train.py", b"import sys\n" * 100)
    assert caught.value.message == "The file is not an image: it is not a tar archive."
    assert "docker save" in (caught.value.hint or "")


def test_an_image_without_a_shell_cannot_be_imported(tmp_path: Path) -> None:
    file = tmp_path / "empty.tar"
    file.write_bytes(tar(LOWER))

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        with pytest.raises(BadArchive, match="no shell"):
            await rig.engine.import_image("empty", file)
        assert [image.name for image in await rig.engine.list_images()] == ["host"]

    play(tmp_path / "home", scenario)


OTHER_ARCHITECTURE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + b"\xf3\xf3" + bytes(100)
LINKED = b"#!/lib/no-such-loader\n"


@pytest.mark.parametrize(
    ("shell", "mode", "why"),
    [(OTHER_ARCHITECTURE, 0o755, "Exec format error"), (LINKED, 0o755, "No such file or directory")],
    ids=["for another architecture", "without its loader"],
)
def test_an_image_whose_shell_cannot_start_is_its_users_fault(
    tmp_path: Path, shell: bytes, mode: int, why: str
) -> None:
    """Another try would end the same way, so it is no failure of the platform."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    file = tmp_path / "broken.tar"
    file.write_bytes(tar([folder("bin"), entry("bin/sh", shell, mode=mode)]))

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        await rig.engine.import_image("broken", file)
        seen = await rig.run("a", "echo hi", image="broken")
        assert (seen.seen, seen.transient, seen.cause) == (ObservedState.REFUSED, False, "no-shell")
        assert seen.message == f"The image cannot run on this machine: its shell /bin/sh does not start ({why})"

    play(tmp_path / "home", scenario)


def test_an_older_image_without_a_shell_is_refused_before_it_runs(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    file = tmp_path / "empty.tar"
    file.write_bytes(tar(LOWER))

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        rig.engine._images.add("empty", file)  # as versions before did
        seen = await rig.engine.start(launch("a", "true", image="empty"))
        assert (seen.seen, seen.transient) == (ObservedState.REFUSED, False)
        assert "no shell" in seen.message
        assert rig.engine.open_log("a", LogStream.STDOUT) is None

    play(tmp_path / "home", scenario)


def test_an_unknown_image_may_run_on_the_host_by_setting(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        started = await rig.engine.start(launch("a", "exit 3", image="nobody/knows"))
        assert "nobody/knows" in started.warning
        ended = await rig.end_of("a")
        assert (ended.code, ended.warning) == (3, started.warning)
        assert (await rig.run("b", "exit 0")).warning == ""

    play(tmp_path, scenario, EmbeddedOptions(unknown_image="host"))


def test_half_an_import_is_cleared_away_at_the_next_start(tmp_path: Path) -> None:
    half = tmp_path / "images" / "roots" / "new-1234" / "rootfs"
    half.mkdir(parents=True)

    async def go() -> None:
        engine = EmbeddedEngine(tmp_path)
        await engine.open(lambda _: None)
        await asyncio.get_running_loop().run_in_executor(engine._cleaner._executor, lambda: None)
        assert not half.exists()
        await engine.close()

    asyncio.run(go())


def test_the_machine_is_named_as_images_name_it() -> None:
    assert ARCHITECTURE in ("amd64", "arm64")
