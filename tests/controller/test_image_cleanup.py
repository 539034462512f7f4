"""Pulled images that nobody uses are removed; imported ones, and those of waiting jobs, never."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from holdfast.controller.images.cleanup import ImageCleanup
from holdfast.core.attempt import JobSnapshot
from holdfast.engines.base import ImageSummary
from tests.core.jobs import job
from tests.fake_engine import FakeMachine

from .test_image_pulls import PullingEngine

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class StockedEngine(PullingEngine):
    def __init__(self, *images: ImageSummary) -> None:
        super().__init__(FakeMachine())
        self.stock = {image.name: image for image in images}

    async def list_images(self) -> list[ImageSummary]:
        return list(self.stock.values())

    async def remove_image(self, name: str) -> bool:
        return self.stock.pop(name, None) is not None


class WaitingJobs:
    def __init__(self, *images: str) -> None:
        self._images = images

    def list_snapshots(self) -> list[JobSnapshot]:
        jobs = (replace(job(), roles=(replace(job().roles[0], image=image),)) for image in self._images)
        return [JobSnapshot(id=f"job-{n}", job=each, user="ann", submitted_at=NOON) for n, each in enumerate(jobs)]


def image(name: str, used: timedelta, *, pulled: bool = True) -> ImageSummary:
    return ImageSummary(name=name, size=1, created_at=NOON, source="", pulled=pulled, used_at=NOON - used)


DAY = timedelta(days=1)


def clean_up(engine: StockedEngine, *needed: str, keep: timedelta | None = 30 * DAY) -> ImageCleanup:
    return ImageCleanup(WaitingJobs(*needed), engine, keep, clock=lambda: NOON)  # type: ignore[arg-type]


def test_old_images_are_removed_unless_a_job_needs_them() -> None:
    kept = [image("imported", 99 * DAY, pulled=False), image("recent", 29 * DAY), image("needed", 99 * DAY)]
    engine = StockedEngine(*kept, image("old", 31 * DAY))
    asyncio.run(clean_up(engine, "needed").remove_expired_images())
    assert set(engine.stock) == {each.name for each in kept}


def test_when_the_disk_is_full_the_longest_unused_goes_first() -> None:
    async def story() -> None:
        hour = timedelta(hours=1)
        engine = StockedEngine(image("b", 2 * hour), image("a", 3 * hour), image("new", timedelta(minutes=9)))
        cleanup = clean_up(engine, keep=None)
        assert await cleanup.remove_least_used_image()
        assert set(engine.stock) == {"b", "new"}
        assert await cleanup.remove_least_used_image()
        assert not await cleanup.remove_least_used_image()
        assert set(engine.stock) == {"new"}

    asyncio.run(story())
