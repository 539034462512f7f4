"""Images that cannot be pulled: too large, damaged, made for another machine, or made to do harm."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.engines.base import PullError, PullFailure
from holdfast.engines.embedded.images import blobs, registry_http, unpacking
from holdfast.engines.embedded.images import registry as registry_client
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions

from .archives import entry, hard_link, link, tar
from .pulls import BASE, MORE, assert_nothing_left, expect_failure, run_scenario
from .registries import MANIFEST_TYPE, FakeRegistry, Reply, Request, build_image, build_index, digest_of


def test_images_that_cannot_run_here_are_told_apart(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        other = build_image([BASE], architecture="sparc")
        registry.add_image("other", other)
        registry.add_index("index", build_index([(other, {"architecture": "sparc", "os": "linux"})]))
        registry.add_image("windows", build_image([BASE], os="windows"))
        registry.add_image("shell-less", build_image([MORE]))
        for name in ("other", "index", "windows"):
            await expect_failure(puller.pull_image(f"{registry.host}/{name}"), PullFailure.WRONG_ARCHITECTURE)
        await expect_failure(puller.pull_image(f"{registry.host}/shell-less"), PullFailure.NO_SHELL)
        store.remove_unused_folders([])
        assert_nothing_left(tmp_path / "images")

    run_scenario(tmp_path, scenario)


def test_an_image_larger_than_the_disk_is_not_fetched(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE], sizes={0: 2**49})
        registry.add_image("app", image)
        error = await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.NO_SPACE)
        assert error.is_transient
        assert registry.count("GET", image.layers[0]) == 0

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("difference", [-1, 1, 100_000])
@pytest.mark.parametrize("announced", [True, False])
def test_a_wrong_size_is_refused_and_never_exceeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, difference: int, announced: bool
) -> None:
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 0)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        true = build_image([BASE])
        size = len(true.blobs[true.layers[0]])
        image = build_image([BASE], sizes={0: size + difference})
        registry.add_image("app", image)

        def answer(request: Request) -> Reply | None:
            if announced or image.layers[0] not in request.path:
                return None
            return Reply(200, {}, stream=chunks_of(image.blobs[image.layers[0]][request.start :]))

        registry.hook = answer
        with pytest.raises(PullError) as caught:
            await puller.pull_image(f"{registry.host}/app")
        assert caught.value.kind in (PullFailure.INVALID, PullFailure.UNREACHABLE)
        part = Path(store.layers.get_blob_path(registry.host, image.layers[0]))
        assert not part.exists() or part.stat().st_size <= size + difference

    run_scenario(tmp_path, scenario)


async def chunks_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


def test_an_endless_body_is_cut_off(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE])
        registry.add_image("app", image)
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 65536
                yield bytes(65536)

        for part in (image.layers[0], "manifests"):
            registry.hook = lambda request, part=part: (
                Reply(200, {}, stream=endless()) if part in request.path else None
            )
            sent = 0
            await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID)
            assert sent < 40_000_000

    run_scenario(tmp_path, scenario)


def test_a_disk_that_becomes_full_ends_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(unpacking, "require_space", raise_disk_full)
    size = 200_000_000

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE], "none", sizes={0: size})
        registry.add_image("app", image)
        sent = 0

        async def send() -> AsyncIterator[bytes]:
            nonlocal sent
            yield BASE
            while sent < size:
                sent += 65536
                yield bytes(65536)

        registry.hook = lambda request: Reply(200, {}, stream=send()) if image.layers[0] in request.path else None
        await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.NO_SPACE)
        assert sent < size / 2
        assert list((tmp_path / "images/blobs").iterdir()) == []
        assert_nothing_left(tmp_path / "images")

    run_scenario(tmp_path, scenario)


def test_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE])
        registry.add_image("app", image)
        for digest in image.blobs:
            damaged = bytes(len(image.blobs[digest]))
            registry.blobs["app", digest] = damaged
            await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID, "does not match")
            registry.blobs["app", digest] = image.blobs[digest]
        registry.manifests["app", image.digest] = MANIFEST_TYPE, build_image([MORE]).manifest
        await expect_failure(puller.pull_image(f"{registry.host}/app@{image.digest}"), PullFailure.INVALID)
        registry.add_image("lying", build_image([BASE], diff_ids=["sha256:" + "0" * 64]))
        await expect_failure(puller.pull_image(f"{registry.host}/lying"), PullFailure.INVALID, "does not match")
        assert list((tmp_path / "images/blobs").iterdir()) == []
        await puller.pull_image(f"{registry.host}/app")

    run_scenario(tmp_path, scenario)


MANIFESTS = [
    b"", b"[]", b"{}", b"[" * 100_000, b'{"layers": []}', b'{"layers": [5], "config": {}}', b'{"manifests": {}}',
    b'{"manifests": [5, {"digest": "x"}, {"platform": 5}]}', b'{"layers": [{"digest": "sha256:x", "size": 1}]}',
    json.dumps({"layers": [{"digest": "sha256:" + "0" * 64, "size": -1}]}).encode(),
    json.dumps({"layers": [{"digest": "sha256:" + "0" * 64, "size": 1e300}]}).encode(),
    json.dumps({"layers": [{"digest": "sha256:../../" + "0" * 58, "size": 1}]}).encode(),
    json.dumps({"layers": [{"digest": "sha256:" + "0" * 64, "size": 1}] * 2000}).encode(),
    json.dumps({"schemaVersion": 1, "fsLayers": []}).encode(),
]  # fmt: skip


def test_hostile_manifests_are_refused(tmp_path: Path) -> None:
    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        for content in MANIFESTS:
            registry.add_index("app", content, MANIFEST_TYPE)
            await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID)

    run_scenario(tmp_path, scenario)


def test_json_with_too_many_values_is_not_parsed(tmp_path: Path) -> None:
    """Parsing it would block the server for a second."""

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        large = [
            b'{"manifests": [' + b"{}," * 60_000 + b"{}]}",
            b'{"layers": [' + b"0," * 110_000 + b"0]}",
            b'{"layers": ' + b"[" * 110_000,
            b"{" + b",".join(b'"%d":0' % number for number in range(60_000)) + b"}",
        ]
        for content in large:
            registry.add_index("app", content, MANIFEST_TYPE)
            await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID, "too many values")
        registry.add_image("config", build_image([BASE], Labels={str(number): "" for number in range(60_000)}))
        await expect_failure(puller.pull_image(f"{registry.host}/config"), PullFailure.INVALID, "too many values")
        registry.add_image("labels", build_image([BASE], Labels={str(number): "" for number in range(1000)}))
        await puller.pull_image(f"{registry.host}/labels")

    run_scenario(tmp_path, scenario)


def test_a_hostile_layer_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 0)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        for layer in ([entry("../x", b"")], [hard_link("a", "/etc/passwd")], [link("a", "/etc"), entry("a/../../x")]):
            image = build_image([BASE, tar(layer)])
            registry.add_image("app", image)
            await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.INVALID)
            assert not Path(store.layers.get_blob_path(registry.host, image.layers[1])).exists()
        store.remove_unused_folders([])
        assert_nothing_left(tmp_path / "images")

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("named", ["blob", "content"])
def test_a_slow_registry_does_not_delay_pulls_from_others(tmp_path: Path, named: str) -> None:
    """It names the digest of a public layer, or claims that its own layer has the same content."""

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        registry.add_image("app", build_image([BASE]))
        slow_image = build_image([BASE] if named == "blob" else [MORE], diff_ids=[digest_of(BASE)])
        async with FakeRegistry().serve() as slow:
            slow.add_image("app", slow_image)
            asked = asyncio.Event()

            async def stall(request: Request) -> Reply | None:
                if slow_image.layers[0] in request.path:
                    asked.set()
                    await asyncio.sleep(3600)
                return None

            slow.hook = stall
            shared = ImagePuller(store, RegistryOptions(insecure=frozenset({registry.host, slow.host})))
            delayed = asyncio.create_task(shared.pull_image(f"{slow.host}/app"))
            await asked.wait()
            await asyncio.wait_for(shared.pull_image(f"{registry.host}/app"), 30)
            assert not delayed.done()
            await shared.close()
            assert isinstance((await asyncio.gather(delayed, return_exceptions=True))[0], asyncio.CancelledError)

    run_scenario(tmp_path, scenario)


async def send_slowly() -> AsyncIterator[bytes]:
    while True:
        yield b"x"
        await asyncio.sleep(0.01)


def test_a_registry_that_takes_all_its_connections_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_http, "_MAX_CONNECTIONS", 3)
    monkeypatch.setattr(registry_http, "_MAX_HOST_CONNECTIONS", 2)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        registry.add_image("app", build_image([BASE]))
        async with FakeRegistry().serve() as slow:
            layers = [tar([entry(f"file-{number}", b"x")]) for number in range(4)]
            image = build_image(layers, sizes=dict.fromkeys(range(4), 1_000_000))
            slow.add_image("app", image)
            slow.hook = lambda request: (
                Reply(200, {"Content-Length": "1000000"}, stream=send_slowly())
                if request.path.rpartition("/")[2] in image.layers
                else None
            )
            shared = ImagePuller(store, RegistryOptions(insecure=frozenset({registry.host, slow.host})))
            delayed = asyncio.create_task(shared.pull_image(f"{slow.host}/app"))
            while sum(slow.count("GET", digest) for digest in image.layers) < 2:
                await asyncio.sleep(0.01)
            await asyncio.wait_for(shared.pull_image(f"{registry.host}/app"), 30)
            assert not delayed.done()
            assert sum(slow.count("GET", digest) for digest in image.layers) == 2
            await shared.close()
            await asyncio.gather(delayed, return_exceptions=True)

    run_scenario(tmp_path, scenario)


def test_every_response_releases_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection at a time is enough for redirects, authorization, errors and several layers."""
    monkeypatch.setattr(registry_http, "_MAX_HOST_CONNECTIONS", 1)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE, MORE])
        registry.add_image("app", image)
        errors = iter([500, 401, 503])

        def answer(request: Request) -> Reply | None:
            if request.path.startswith("/token"):
                return Reply(200, {}, b'{"token": "t"}')
            status = next(errors, None)
            if status is not None:
                return Reply(status, {"WWW-Authenticate": f'Bearer realm="http://{registry.host}/token"'}, b"x" * 1000)
            if image.layers[0] in request.path:
                return Reply(307, {"Location": request.path.replace(image.layers[0], "moved")}, b"x" * 1000)
            return Reply(200, {}, image.blobs[image.layers[0]]) if request.path.endswith("moved") else None

        registry.hook = answer
        await asyncio.wait_for(puller.pull_image(f"{registry.host}/app"), 60)
        await expect_failure(puller.pull_image(f"{registry.host}/none"), PullFailure.NOT_FOUND)
        await asyncio.wait_for(puller.pull_image(f"{registry.host}/app"), 60)

    run_scenario(tmp_path, scenario)


def test_a_download_that_is_too_slow_fails_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_CHUNK_TIMEOUT", 0.5)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE], sizes={0: 1_000_000})
        registry.add_image("app", image)
        registry.hook = lambda request: (
            Reply(200, {"Content-Length": "1000000"}, stream=send_slowly()) if image.layers[0] in request.path else None
        )
        pull = puller.pull_image(f"{registry.host}/app")
        error = await expect_failure(pull, PullFailure.UNREACHABLE, "too slowly")
        assert error.is_transient
        assert registry.count("GET", image.layers[0]) == 1

    run_scenario(tmp_path, scenario)


def test_headers_that_never_end_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_http, "_RESPONSE_TIMEOUT", 0.5)
    monkeypatch.setattr(registry_client, "_RETRY_INTERVAL", 0.01)

    async def send_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if await reader.readexactly(1) == b"\x16":
                raise ConnectionError("no TLS here")
            writer.write(b"HTTP/1.1 200 OK\r\nX: ")
            async for chunk in send_slowly():
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(send_headers, "127.0.0.1", 0)
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        puller = ImagePuller(ImageStore(tmp_path / "images"), RegistryOptions(insecure=frozenset({host})))
        pull = asyncio.wait_for(puller.pull_image(f"{host}/app"), 60)
        error = await expect_failure(pull, PullFailure.UNREACHABLE, "does not respond")
        assert error.is_transient
        await puller.close()
        server.close()

    asyncio.run(run())


def test_bytes_of_one_registry_do_not_count_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a registry could serve the last byte of a private layer, and get the rest from an interrupted pull."""
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 0)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE])
        registry.add_image("app", image)
        blob = image.layers[0]
        store.layers.create_folders()
        Path(store.layers.get_blob_path("private.example", blob)).write_bytes(image.blobs[blob][:-1])
        await puller.pull_image(f"{registry.host}/app")
        assert [request.start for request in registry.requests if blob in request.path] == [0]

    run_scenario(tmp_path, scenario)


def test_a_complete_download_is_only_used_with_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be of a pull with other credentials that ended before it was unpacked."""
    monkeypatch.setattr(blobs, "_MIN_KEPT_SIZE", 0)

    async def scenario(registry: FakeRegistry, puller: ImagePuller, store: ImageStore) -> None:
        image = build_image([BASE])
        registry.add_image("app", image)
        blob = image.layers[0]
        content = registry.blobs.pop(("app", blob))
        store.layers.create_folders()
        part = Path(store.layers.get_blob_path(registry.host, blob))
        part.write_bytes(content)
        await expect_failure(puller.pull_image(f"{registry.host}/app"), PullFailure.NOT_FOUND)
        registry.blobs["app", blob] = content
        await puller.pull_image(f"{registry.host}/app")
        assert registry.count("GET", blob) == 0
        assert not part.exists()

    run_scenario(tmp_path, scenario)


def test_a_registry_that_is_not_allowed_is_never_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        puller = ImagePuller(ImageStore(tmp_path / "images"), RegistryOptions(allowed=frozenset({"ghcr.io"})))
        with pytest.raises(PullError, match=r"cannot be pulled from the registry docker\.io") as caught:
            await puller.pull_image("debian:12")
        assert caught.value.kind is PullFailure.DENIED
        assert "ghcr.io" in str(caught.value.hint)
        await puller.close()

    asyncio.run(scenario())
