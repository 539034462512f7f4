"""Pulling images from registries: a real one, and one that means harm."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation, LogStream, PullFailure, PullPhase, PullProgress, RegistryCredentials
from holdfast.engines.embedded import EmbeddedEngine
from holdfast.engines.embedded.image import Image
from holdfast.engines.embedded.images import blobs
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions
from holdfast.engines.embedded.tree_removal import remove_tree
from tests.contracts.engine_contract import Rig, read_all

from .archives import ARCHITECTURE, config, docker_archive, entry, shell_entries, tar
from .pulls import ALICE, BASE, MORE, assert_nothing_left, expect_failure, run_scenario
from .registries import (
    DOCKER_LIST_TYPE,
    DOCKER_MANIFEST_TYPE,
    INDEX_TYPE,
    MANIFEST_TYPE,
    PASSWORD,
    USERNAME,
    FakeRegistry,
    RealRegistry,
    Reply,
    Request,
    build_image,
    build_index,
    start_registry,
    zstd,
)
from .scenarios import need, play


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with start_registry(tmp_path_factory.mktemp("registry") / "plain") as started:
        yield started


def pull(store: ImageStore, name: str, credentials: RegistryCredentials | None = None, **options: Any) -> Image:
    async def run() -> None:
        puller = ImagePuller(store, RegistryOptions(**options))
        try:
            await puller.pull_image(name, credentials)
        finally:
            await puller.close()

    asyncio.run(run())
    image = store.find_image(name)
    assert image is not None
    return image


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("media_type", [MANIFEST_TYPE, DOCKER_MANIFEST_TYPE])
@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_an_image_is_pulled_from_a_real_registry(
    tmp_path: Path, registry: RealRegistry, compression: str, media_type: str
) -> None:
    settings = {"Env": ["A=1"], "User": "1000", "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "true"]}
    image = build_image([BASE, MORE], compression, media_type, **settings)
    registry.push_image(f"team/{compression}:1", image)
    name = f"{registry.host}/team/{compression}:1"
    found = pull(ImageStore(tmp_path / "images"), name, insecure=frozenset({registry.host}))
    assert found.shell == "/bin/sh"
    assert (found.env, found.user, found.entrypoint, found.cmd) == ({"A": "1"}, "1000", ("/bin/sh",), ("-c", "true"))
    assert found.source == f"{registry.host}/team/{compression}@{image.digest}"
    assert list_files(Path(found.rootfs)) == {"bin", "bin/sh", "etc", "etc/issue", "etc/more"}
    assert list_files(tmp_path / "images/blobs") == set()


@pytest.mark.parametrize("media_type", [INDEX_TYPE, DOCKER_LIST_TYPE])
def test_the_image_for_this_machine_is_chosen(tmp_path: Path, registry: RealRegistry, media_type: str) -> None:
    other = build_image([MORE], architecture="sparc")
    ours = build_image([BASE])
    name = "multi:" + ("oci" if media_type == INDEX_TYPE else "docker")
    for image in (other, ours):
        registry.push_image(name, image)
    entries = [(other, "sparc"), (other, "unknown"), (ours, ARCHITECTURE)]
    index = build_index([(image, {"architecture": kind, "os": "linux"}) for image, kind in entries], media_type)
    registry.push_index(name, index, media_type)
    found = pull(ImageStore(tmp_path / "images"), f"{registry.host}/{name}", insecure=frozenset({registry.host}))
    assert found.shell == "/bin/sh"


# -- with a registry in memory


def test_a_second_image_fetches_only_the_layers_that_are_new(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        registry.add_image("one:1", build_image([BASE]))
        both = build_image([BASE, MORE])
        registry.add_image("two:1", both)
        await puller.pull_image(f"{registry.host}/one:1")
        registry.requests.clear()
        progress: list[PullProgress] = []
        await puller.pull_image(f"{registry.host}/two:1", None, progress.append)
        assert registry.count("GET", both.layers[0]) == 0
        assert registry.count("GET", both.layers[1]) == 1
        size = len(both.blobs[both.layers[1]])
        assert (progress[-1].done, progress[-1].total) == (size, size)
        assert [progress[0].phase, progress[-1].phase] == [PullPhase.RESOLVING, PullPhase.UNPACKING]
        one, two = (store.find_image(f"{registry.host}/{name}:1") for name in ("one", "two"))
        assert one is not None
        assert two is not None
        assert Path(one.rootfs, "bin/sh").stat().st_ino == Path(two.rootfs, "bin/sh").stat().st_ino

    run_scenario(tmp_path, scenario)


def test_an_unchanged_image_is_not_pulled_again_but_a_changed_one_is(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        name = f"{registry.host}/app"
        registry.add_image("app", build_image([BASE]))
        first = await puller.pull_image(name)
        sent = registry.sent
        assert await puller.pull_image(f"{name}:latest") == first
        assert registry.sent - sent < 1000  # its configuration
        registry.add_image("app", build_image([BASE, MORE]))
        second = await puller.pull_image(name)
        assert second.source != first.source
        store.remove_unused_folders([])
        assert len(list((tmp_path / "images/roots").iterdir())) == 1

    run_scenario(tmp_path, scenario)


def test_a_second_pull_joins_the_first(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE])
        registry.add_image("app", image)
        name = f"{registry.host}/app"
        results = await asyncio.gather(*(puller.pull_image(each) for each in (name, name, f"{name}:latest")))
        assert len(set(results)) == 1
        assert registry.count("GET", image.layers[0]) == 1
        assert registry.count("GET", "manifests") == 1

    run_scenario(tmp_path, scenario)


def only_for_alice(registry: FakeRegistry, repository: str) -> None:
    def answer(request: Request) -> Reply | None:
        header = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        if f"/{repository}/" in request.path and request.headers.get("authorization") != header:
            return Reply(401, {"WWW-Authenticate": 'Basic realm="x"'})
        return None

    registry.hook = answer


def test_a_private_image_is_not_given_to_those_without_access(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        secret = build_image([BASE, MORE])
        registry.add_image("private/app", secret)
        only_for_alice(registry, "private/app")
        name = f"{registry.host}/private/app"
        await puller.pull_image(name, ALICE)
        for credentials in (None, RegistryCredentials(username="bob", password="x")):
            await expect_failure(puller.pull_image(name, credentials), PullFailure.DENIED)
            await expect_failure(puller.check_access(name, credentials), PullFailure.DENIED)
        assert await puller.check_access(name, ALICE) == secret.digest

    run_scenario(tmp_path, scenario)


def test_a_stored_layer_is_not_given_to_an_image_that_only_names_its_digest(tmp_path: Path) -> None:
    """An own repository, or an own registry, may list any digest."""

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        secret = build_image([BASE, MORE])
        registry.add_image("private/app", secret)
        only_for_alice(registry, "private/app")
        await puller.pull_image(f"{registry.host}/private/app", ALICE)
        thief = build_image([BASE, MORE])
        thief.blobs = {digest: data for digest, data in thief.blobs.items() if digest not in secret.layers}
        registry.add_image("thief/names-blobs", thief)
        await expect_failure(puller.pull_image(f"{registry.host}/thief/names-blobs"), PullFailure.NOT_FOUND)
        own = [BASE, tar([entry("own", b"x")])]
        lying = build_image(own, diff_ids=json.loads(secret.blobs[list(secret.blobs)[-1]])["rootfs"]["diff_ids"])
        registry.add_image("thief/names-content", lying)
        await expect_failure(puller.pull_image(f"{registry.host}/thief/names-content"), PullFailure.INVALID)
        async with FakeRegistry().serve() as other:
            other.add_image("app", thief)
            other.hook = lambda request: Reply(200) if request.method == "HEAD" else None
            options = RegistryOptions(insecure=frozenset({other.host}))
            second = ImagePuller(store, options)
            await expect_failure(second.pull_image(f"{other.host}/app"), PullFailure.NOT_FOUND)
            other.add_image("app", secret)  # a registry that has the content may use what is stored
            await second.pull_image(f"{other.host}/app")
            await second.close()

    run_scenario(tmp_path, scenario)


# -- interruptions

PULL_PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast.engines.embedded.images import blobs
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions
host, folder = sys.argv[1:]
blobs._MIN_KEPT_SIZE = 1_000_000
puller = ImagePuller(ImageStore(Path(folder)), RegistryOptions(insecure=frozenset({host})))
asyncio.run(puller.pull_image(f"{host}/app"))
"""


def test_a_killed_pull_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 1_000_000)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        big = tar([entry("big", random.Random(1).randbytes(8_000_000))])
        image = build_image([BASE, big], "none")
        registry.add_image("app", image)
        blob = image.layers[1]
        registry.hook = lambda request: stall(image.blobs[blob], 5_000_000) if blob in request.path else None
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PULL_PROGRAM, registry.host, str(tmp_path / "images")
        )
        part = Path(store.layers.get_blob_path(registry.host, blob))
        first = json.loads(image.blobs[list(image.blobs)[-1]])["rootfs"]["diff_ids"][0]
        while (
            not part.exists()
            or part.stat().st_size < 3_000_000
            or not store.layers.has_source(first, registry.host, image.layers[0])
        ):
            assert process.returncode is None
            await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
        kept = part.stat().st_size
        assert store.find_image(f"{registry.host}/app") is None
        for path in store.list_unfinished_folders():
            remove_tree(path)
        registry.hook = lambda request: None
        registry.requests.clear()
        await puller.pull_image(f"{registry.host}/app")
        ranges = [request.headers.get("range") for request in registry.requests if blob in request.path]
        assert ranges == [f"bytes={kept}-"]
        assert registry.count("GET", image.layers[0]) == 0

    run_scenario(tmp_path, scenario)


def stall(data: bytes, count: int) -> Reply:
    """Send the first bytes, and then nothing more."""

    async def send() -> AsyncIterator[bytes]:
        yield data[:count]
        await asyncio.sleep(3600)

    return Reply(200, {"Content-Length": str(len(data))}, stream=send())


def test_a_broken_connection_continues_and_a_damaged_part_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 1_000_000)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE, tar([entry("big", random.Random(1).randbytes(4_000_000))])], "none")
        registry.add_image("app", image)
        blob = image.layers[1]
        store.layers.create_folders()
        Path(store.layers.get_blob_path(registry.host, blob)).write_bytes(bytes(100_000))
        registry.hook = lambda request: cut(registry, request, blob, 1_500_000)
        await puller.pull_image(f"{registry.host}/app")
        starts = [request.start for request in registry.requests if blob in request.path]
        assert starts == [100_000, 1_600_000, 3_100_000, 0, 1_500_000, 3_000_000]

    run_scenario(tmp_path, scenario)


def test_a_broken_connection_continues_without_a_file(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        content = random.Random(1).randbytes(4_000_000)
        image = build_image([BASE, tar([entry("big", content)])], "none")
        registry.add_image("app", image)
        blob = image.layers[1]
        registry.hook = lambda request: cut(registry, request, blob, 1_500_000)
        await puller.pull_image(f"{registry.host}/app")
        assert [request.start for request in registry.requests if blob in request.path] == [0, 1_500_000, 3_000_000]
        assert not list((tmp_path / "images/blobs").iterdir())
        found = store.find_image(f"{registry.host}/app")
        assert found is not None
        assert Path(found.rootfs, "big").read_bytes() == content

    run_scenario(tmp_path, scenario)


def test_a_layer_is_not_visible_before_its_digest_is_checked(tmp_path: Path) -> None:
    """The last byte, after the end of the tar, is wrong: all files have been unpacked by then."""

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        layer = tar([*shell_entries(), entry("big", random.Random(1).randbytes(4_000_000))])
        image = build_image([layer], "none")
        registry.add_image("app", image)
        registry.blobs["app", image.layers[0]] = layer[:-1] + b"x"
        await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID, "does not match")
        assert_nothing_left(tmp_path / "images")
        registry.blobs["app", image.layers[0]] = layer
        await puller.pull_image(f"{registry.host}/app")

    run_scenario(tmp_path, scenario)


def cut(registry: FakeRegistry, request: Request, blob: str, count: int) -> Reply | None:
    """Close the connection in the middle of the body."""
    if blob not in request.path or request.method != "GET":
        return None
    reply = registry.reply_normally(request)

    async def send() -> AsyncIterator[bytes]:
        yield reply.body[:count]

    return Reply(reply.status, {**reply.headers, "Content-Length": str(len(reply.body))}, stream=send())


def test_a_cancelled_pull_leaves_nothing_but_its_download(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE, MORE])
        registry.add_image("app", image)
        arrived = asyncio.Event()

        def answer(request: Request) -> Reply | None:
            if image.layers[1] not in request.path:
                return None
            arrived.set()
            return stall(image.blobs[image.layers[1]], 10)

        registry.hook = answer
        pulls = [asyncio.create_task(puller.pull_image(f"{registry.host}/app")) for _ in range(2)]
        await arrived.wait()
        pulls[0].cancel()
        await asyncio.sleep(0)
        assert not pulls[1].done()
        pulls[1].cancel()
        assert all(
            isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*pulls, return_exceptions=True)
        )
        assert store.find_image(f"{registry.host}/app") is None
        store.remove_unused_folders([])
        assert_nothing_left(tmp_path / "images")
        registry.hook = lambda request: None
        await puller.pull_image(f"{registry.host}/app")

    run_scenario(tmp_path, scenario)


def test_a_removed_image_takes_its_layers_along(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        for name, layers in (("one", [BASE]), ("two", [BASE, MORE])):
            registry.add_image(name, build_image(layers))
            await puller.pull_image(f"{registry.host}/{name}")
        assert store.remove(f"{registry.host}/two:latest")
        store.remove_unused_folders([])
        assert len(list((tmp_path / "images/layers").iterdir())) == 1
        assert store.remove(f"{registry.host}/one:latest")
        store.remove_unused_folders([])
        assert_nothing_left(tmp_path / "images")

    run_scenario(tmp_path, scenario)


def test_an_imported_image_comes_before_a_pulled_one_and_keeps_its_name(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    file = tmp_path / "file"
    file.write_bytes(zstd.compress(docker_archive([zstd.compress(BASE), tar(UPPER)], config())))
    store.add("docker.io/library/tiny:1", file)
    pulled = store.find_image("tiny:1")
    assert pulled is not None
    assert Path(pulled.rootfs, "etc/upper").exists()
    file.write_bytes(BASE)
    store.add("tiny:1", file)
    imported = store.find_image("tiny:1")
    assert imported is not None
    assert not Path(imported.rootfs, "etc/upper").exists()


UPPER = [entry("etc/upper", b"x")]


def test_a_record_of_an_older_version_is_still_read(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    file = tmp_path / "file"
    file.write_bytes(BASE)
    store.add("old:1", file)
    [index] = (tmp_path / "images").glob("*.json")
    fields = json.loads(index.read_text())
    for name in ("user", "entrypoint", "cmd", "digest", "layers"):
        del fields[name]
    index.write_text(json.dumps(fields))
    found = store.find_image("old:1")
    assert found is not None
    assert (found.user, found.entrypoint, found.layers) == ("", (), ())


def test_a_task_runs_on_a_pulled_image(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)

    async def scenario(rig: Rig) -> None:
        async with FakeRegistry().serve() as registry:
            layers = [tar(shell_entries()), tar([entry("etc/.wh.issue"), entry("etc/upper", b"upper\n")])]
            registry.add_image("app", build_image(layers, Env=["COLOUR=blue"]))
            assert isinstance(rig.engine, EmbeddedEngine)
            store = rig.engine._images
            rig.engine._puller = ImagePuller(store, RegistryOptions(insecure=frozenset({registry.host})))
            await rig.engine.pull_image(f"{registry.host}/app")
            assert rig.engine.has_image(f"{registry.host}/app:latest")
            script = "cat /etc/upper; echo $COLOUR; ls /etc/issue || echo gone; echo x >>/etc/upper || true"
            for name in ("a", "b"):
                seen = await rig.run(name, script, image=f"{registry.host}/app")
                log = (await read_all(rig.log(name, LogStream.STDOUT))).decode()
                assert seen.code == 0, log
                assert log == "upper\nblue\ngone\n"
            image = store.find_image(f"{registry.host}/app")
            assert image is not None
            assert Path(image.rootfs, "etc/upper").read_bytes() == b"upper\n"

    play(tmp_path / "home", scenario)
