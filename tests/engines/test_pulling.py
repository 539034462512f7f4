"""Pulling images from registries: a real one, and one that means harm."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import RegistryCredentials
from holdfast.engines.embedded.image import Image
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions

from .archives import entry, folder, tar
from .registries import (
    DOCKER_MANIFEST_TYPE,
    MANIFEST_TYPE,
    PASSWORD,
    USERNAME,
    RealRegistry,
    build_image,
    start_registry,
)

BASE = tar([folder("bin"), entry("bin/sh", b"#!", mode=0o755), folder("etc"), entry("etc/issue", b"tiny")])
MORE = tar([entry("etc/more", b"more")])
ALICE = RegistryCredentials(username=USERNAME, password=PASSWORD)


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
