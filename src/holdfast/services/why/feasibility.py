"""Whether a job can ever start: its request compared with nodes, quotas, images and isolation."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from holdfast.core.image_names import list_name_variants
from holdfast.core.job import HOST_IMAGE, Job, JobFormat, Role
from holdfast.core.messages import msg
from holdfast.core.scheduling.placement import StartPrediction
from holdfast.engines.base import ImageSummary, Isolation
from holdfast.engines.engine_set import EngineSet

from ..control import Control
from ..name_suggestions import suggest_name


class Feasibility:
    def __init__(self, engine: EngineSet, control: Control, *, unknown_image: str) -> None:
        self._engine = engine
        self._control = control
        self._unknown_image = unknown_image

    async def predict_start(self, job: Job, user: str) -> StartPrediction:
        """Predict what happens if the job is submitted now, with every reason."""
        verdict = self._add_pulls(self._control.predict_start(job, user), await self.list_pulled_images(job))
        refused = (*await self._format_missing_images(job), *await self._list_isolation_problems(job))
        if not refused:
            return verdict
        return StartPrediction("never", (*(verdict.reasons if verdict.answer == "never" else ()), *refused))

    async def list_impossible_reasons(self, job: Job, user: str) -> tuple[str, ...]:
        """Return why the job can never run. Unknown images are not included: they may still be imported."""
        return (
            *self._control.list_impossible_reasons(_reduce_instances(job), user),
            *await self._list_isolation_problems(job),
        )

    async def list_missing_images(self, job: Job) -> list[str]:
        """Return the unknown images that would make the job fail."""
        engine = self._control.choose_engine(job)
        replaced = self._unknown_image == "host" and self._engine.has_host_image(engine)
        fails = not replaced and not self._pulls_images(job)
        return await self._list_unknown_images(job) if fails else []

    async def list_pulled_images(self, job: Job) -> list[str]:
        """Return the images that are pulled before the job starts."""
        return await self._list_unknown_images(job) if self._pulls_images(job) else []

    def _pulls_images(self, job: Job) -> bool:
        return self._unknown_image == "pull" and self._engine.pulls_images(self._control.choose_engine(job))

    async def _list_unknown_images(self, job: Job) -> list[str]:
        wanted = _list_images(job)
        if not wanted or not self._engine.knows_images(self._control.choose_engine(job)):
            return []
        known = await self._get_known_image_names(job)
        return [image for image in wanted if not known & list_name_variants(image)]

    def _add_pulls(self, verdict: StartPrediction, images: list[str]) -> StartPrediction:
        if not images or verdict.answer == "never":
            return verdict
        reasons = (msg("the image {image} is pulled first", image=image) for image in images)
        return StartPrediction("wait", (*reasons, *verdict.reasons))

    async def _format_missing_images(self, job: Job) -> list[str]:
        missing = await self.list_missing_images(job)
        names = [image.name for image in await self._list_images_of_engine(job)] if missing else []
        return [
            msg(
                "there is no image {image} on this server{image2}",
                image=image,
                image2=format_image_suggestion(image, names),
            )
            for image in missing
        ]

    async def _list_isolation_problems(self, job: Job) -> list[str]:
        """Return what cannot work without isolation."""
        if self._engine.find_health(self._control.choose_engine(job)).isolation is not Isolation.NONE:
            return []
        found = [
            reason
            for role in job.roles
            for reason in _iter_moved_mount_problems(role, linked=job.dialect is JobFormat.PRIMEHUB)
        ]
        if wanted := _list_images(job):
            known = await self._get_known_image_names(job)
            why = msg("jobs are not isolated on this machine, so only the image `host` can run")
            found += [
                msg("the image {image} cannot be used: {why}", image=image, why=why)
                for image in wanted
                if known & list_name_variants(image)
            ]
        return list(dict.fromkeys(found))

    async def _get_known_image_names(self, job: Job) -> set[str]:
        return {name for image in await self._list_images_of_engine(job) for name in list_name_variants(image.name)}

    async def _list_images_of_engine(self, job: Job) -> Sequence[ImageSummary]:
        """Return the images of the engine that would run the job."""
        engine = self._control.choose_engine(job)
        return [image for image in await self._engine.list_images() if image.engine in ("", engine)]


def _reduce_instances(job: Job) -> Job:
    """Return the job with one instance per role, unless all tasks must start together."""
    return job if job.gang else replace(job, roles=tuple(replace(role, instances=1) for role in job.roles))


def _list_images(job: Job) -> list[str]:
    return sorted({role.engine_image for role in job.roles} - {HOST_IMAGE})


def format_missing_image(image: str) -> str:
    return msg(
        "image {image} is not on this server; the job fails when it starts, unless the image is imported first",
        image=image,
    )


def format_image_suggestion(image: str, known: Collection[str]) -> str:
    """Return a suffix that suggests a similar image; empty if there is none."""
    near = suggest_name(image, known)
    return f". {near}" if near else ""


def _iter_moved_mount_problems(role: Role, *, linked: bool) -> Iterator[str]:
    """Yield mounts that need isolation. `linked`: datasets are reached by links instead."""
    for mount in role.mounts:
        if linked and mount.dataset:
            continue
        if os.path.normpath(mount.target) != os.path.normpath(mount.volume.folder):
            why = msg("without isolation, the target must equal the source")
            what = mount.source if mount.dataset is None else msg("the dataset {dataset}", dataset=mount.dataset)
            yield msg("{what} cannot be mounted at {target}: {why}", what=what, target=mount.target, why=why)
