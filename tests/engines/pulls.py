"""Pulls from a registry in memory, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.disk_space import DiskThresholds
from holdfast.engines.base import PullError, PullFailure, RegistryCredentials
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.images.pulling import ImagePuller
from holdfast.engines.embedded.images.registry_options import RegistryOptions

from .archives import entry, folder, tar
from .registries import PASSWORD, USERNAME, FakeRegistry

BASE = tar([folder("bin"), entry("bin/sh", b"#!", mode=0o755), folder("etc"), entry("etc/issue", b"tiny")])
MORE = tar([entry("etc/more", b"more")])
ALICE = RegistryCredentials(username=USERNAME, password=PASSWORD)


Scenario = Callable[[FakeRegistry, ImagePuller, ImageStore], Awaitable[None]]


def run_scenario(tmp_path: Path, scenario: Scenario, marks: DiskThresholds | None = None) -> None:
    async def run() -> None:
        async with FakeRegistry().serve() as registry:
            store = ImageStore(tmp_path / "images", marks)
            puller = ImagePuller(store, RegistryOptions(insecure=frozenset({registry.host})))
            try:
                await scenario(registry, puller, store)
            finally:
                await puller.close()

    asyncio.run(run())


async def expect_failure(work: Awaitable[Any], kind: PullFailure, text: str | None = None) -> PullError:
    with pytest.raises(PullError, match=text) as caught:
        await work
    assert caught.value.kind == kind
    assert caught.value.hint
    return caught.value


def assert_nothing_left(folder: Path) -> None:
    assert list(folder.glob("*.json")) == []
    assert [path for name in ("roots", "layers") for path in (folder / name).glob("*")] == []
