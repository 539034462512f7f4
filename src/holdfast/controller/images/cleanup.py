"""Removes pulled images that no job uses: after a while, and earlier when the disk is nearly full.

Imported images are never removed: they may not be in any registry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.core.image_names import list_name_variants
from holdfast.engines.base import Engine, ImageSummary, SupportsImagePulls
from holdfast.engines.engine_set import EngineSet
from holdfast.services.control import Control

from .pulls import list_images

log = logging.getLogger(__name__)

SWEEP_INTERVAL = 3600.0  # seconds
MIN_UNUSED_TIME = timedelta(minutes=10)  # an image that was just pulled, or whose job just ended, may be needed again


class ImageCleanup:
    def __init__(
        self,
        control: Control,
        engine: Engine | EngineSet,
        keep: timedelta | None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._control = control
        self._engine = EngineSet.wrap(engine)
        self._keep = keep  # None: unlimited
        self._clock = clock

    async def run(self) -> None:
        while self._keep is not None:
            await asyncio.sleep(SWEEP_INTERVAL)
            try:
                await self.remove_expired_images()
            except Exception:
                log.exception("could not remove unused images", extra={"event": "images"})

    async def remove_expired_images(self) -> None:
        if self._keep is not None:
            for image in await self._list_unused_images(self._keep):
                await self._remove_image(image)

    async def remove_least_used_image(self) -> bool:
        """Remove the image whose last use is longest ago, because the disk is nearly full; False if there is none."""
        unused = await self._list_unused_images(MIN_UNUSED_TIME)
        if unused:
            await self._remove_image(unused[0])
        return bool(unused)

    async def _list_unused_images(self, at_least: timedelta) -> list[ImageSummary]:
        """Return pulled images that no active job uses, the longest unused first."""
        jobs = (snapshot.job for snapshot in self._control.list_snapshots())
        needed = {name for job in jobs for image in list_images(job) for name in list_name_variants(image)}
        before = self._clock() - at_least
        found = [
            (image.used_at, image.name, image)
            for image in await self._engine.list_images()
            if image.pulled and image.used_at and image.used_at <= before and image.name not in needed
        ]
        return [image for *_, image in sorted(found, key=lambda each: each[:2])]

    async def _remove_image(self, image: ImageSummary) -> None:
        engine = self._engine.get_engine(image.engine)
        if isinstance(engine, SupportsImagePulls) and await engine.remove_image(image.name):
            log.info("removed an unused image", extra={"event": "images", "image": image.name, "bytes": image.size})
