"""Whether a job could ever start here: its size against machines and quotas, and what it asks of the engine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace

from holdfast.core.job import HOST_IMAGE, Dialect, Job, Role
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import Verdict
from holdfast.engines.base import Engine, Isolation

from ..control import Control
from ..name_suggestions import nearest


class Prospects:
    def __init__(self, engine: Engine, control: Control, *, unknown_image: str) -> None:
        self._engine = engine
        self._control = control
        self._unknown_image = unknown_image  # "host": an unknown image is replaced, so it stops nothing

    async def verdict(self, job: Job, user: str) -> Verdict:
        """What would happen to it if it were submitted now, with every reason."""
        verdict = self._control.verdict(job, user)
        refused = (*await self._unknown_images(job), *await self._not_isolated(job))
        if not refused:
            return verdict
        return Verdict("never", (*(verdict.reasons if verdict.answer == "never" else ()), *refused))

    async def never(self, job: Job, user: str) -> tuple[str, ...]:
        """Why it can never run; for unknown images, which may be imported in time, others warn."""
        return (*self._control.explain_impossible(_sample(job), user), *await self._not_isolated(job))

    async def missing_images(self, job: Job) -> list[str]:
        """Those that nobody knows here, where that would keep it from running."""
        wanted = _images(job)
        if not wanted or self._unknown_image == "host":
            return []
        known = await self._known_images()
        return [image for image in wanted if not known & image_names(image)]

    async def _unknown_images(self, job: Job) -> list[str]:
        missing = await self.missing_images(job)
        names = [image.name for image in await self._engine.images()] if missing else []
        return [
            msg("there is no image {image} here{image2}", image=image, image2=similar_image(image, names))
            for image in missing
        ]

    async def _not_isolated(self, job: Job) -> list[str]:
        """Without a sandbox, tasks see the machine as it is."""
        if self._engine.health().isolation is not Isolation.NONE:
            return []
        found = [reason for role in job.roles for reason in _moved_mounts(role, linked=job.dialect is Dialect.PRIMEHUB)]
        if wanted := _images(job):
            known = await self._known_images()
            why = msg("jobs are not isolated on this machine, so only the image host can run")
            found += [
                msg("the image {image} cannot be used: {why}", image=image, why=why)
                for image in wanted
                if known & image_names(image)
            ]
        return list(dict.fromkeys(found))

    async def _known_images(self) -> set[str]:
        return {name for image in await self._engine.images() for name in image_names(image.name)}


def _sample(job: Job) -> Job:
    """Tasks that are placed one by one are judged one by one: one of each kind will do."""
    return job if job.gang else replace(job, roles=tuple(replace(role, instances=1) for role in job.roles))


def _images(job: Job) -> list[str]:
    return sorted({role.engine_image for role in job.roles} - {HOST_IMAGE})


def missing_image(image: str) -> str:
    """As a warning: it may be imported in time."""
    return msg("the image {image} is not known here; unless it is imported before, the job will fail", image=image)


def similar_image(image: str, known: Collection[str]) -> str:
    """To be added to what is said of an unknown one."""
    near = nearest(image, known)
    return f". {near}" if near else ""


def image_names(image: str) -> set[str]:
    """No tag means `latest`."""
    bare = image.removesuffix(":latest")
    return {bare, f"{bare}:latest"}


def _moved_mounts(role: Role, *, linked: bool) -> Iterator[str]:
    """`linked`: its datasets are found by links, wherever they are."""
    for mount in role.mounts:
        if linked and mount.dataset:
            continue
        if os.path.normpath(mount.target) != os.path.normpath(mount.source):
            why = msg("jobs are not isolated on this machine, so folders appear under their own names only")
            what = mount.source if mount.dataset is None else msg("the dataset {dataset}", dataset=mount.dataset)
            yield msg("{what} cannot be mounted at {target}: {why}", what=what, target=mount.target, why=why)
