"""Images of several engines: which are listed, and where an archive is imported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.errors import Conflict
from holdfast.engines.base import ImageSummary
from holdfast.engines.engine_set import EngineSet
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio


class Importing(FakeEngine):
    """Imports images, by name alone."""

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        return ImageSummary(name=name, size=1, created_at=None, source="")

    async def remove_image(self, name: str) -> bool:
        return True


async def import_tiny(house: House) -> ImageSummary:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"tar"

    return await house.services.images.add(house.admin, "tiny:1", chunks(), lambda work: work)


def build_engines(**options: list[str]) -> EngineSet:
    return EngineSet([FakeEngine(name="boxes", images=["torch"]), Importing(name="near")], **options)


async def test_an_import_names_its_engine(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", engine=build_engines()) as house:
        assert (await import_tiny(house)).engine == "near"
        listed = await house.services.images.list(house.admin)
        assert [(image.name, image.engine) for image in listed] == [("torch", "boxes"), ("host", "near")]


async def test_an_engine_that_starts_no_tasks_gets_no_images_and_lists_none(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", engine=build_engines(retired=["near"])) as house:
        with pytest.raises(Conflict, match="The engine boxes does not support importing images") as caught:
            await import_tiny(house)
        assert "docker load" in (caught.value.hint or "")
        assert [image.name for image in await house.services.images.list(house.admin)] == ["torch"]
