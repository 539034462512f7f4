"""Pulls the images of waiting jobs before they are placed.

A job waits outside the queue until all its images are there, and keeps its position by its submission time. A pull
that failed for a while is retried; one that can never work ends the job. Nothing is saved: after a restart the pulls
of waiting jobs begin again, and the engine continues with what it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.core.attempt import JobSnapshot
from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE, Job
from holdfast.core.messages import msg
from holdfast.core.planning.durations import format_duration
from holdfast.core.planning.task_requests import build_queue_entries
from holdfast.core.records import NewEvent
from holdfast.core.scheduling.blockers import Blocker, BlockerKind, Estimate, WaitExplanation, format_utc_time
from holdfast.core.scheduling.placement import PlacementRefusal, format_bytes
from holdfast.engines.base import (
    PullError,
    PullFailure,
    PullPhase,
    PullProgress,
    RegistryCredentials,
    SupportsImagePulls,
)

from ..live_jobs import LiveJobs

log = logging.getLogger(__name__)

MIN_RETRY_DELAY, MAX_RETRY_DELAY = 5.0, 300.0  # seconds until a failed pull is retried
NOTIFY_INTERVAL = 1.0  # seconds between two notifications about progress

_CAUSES = {PullFailure.NO_SHELL: Cause.NO_SHELL, PullFailure.DENIED: Cause.NOT_ALLOWED}

CredentialsLoader = Callable[[JobSnapshot, str], Awaitable[RegistryCredentials | None]]  # for an image of a job


@dataclass(slots=True, eq=False)
class ImagePull:
    """The pull of one image for one job. Equal pulls of several jobs share one download in the engine."""

    image: str
    began: float  # loop time
    progress: PullProgress = field(default_factory=PullProgress)
    error: PullError | None = None  # of the last try
    retry_at: datetime | None = None
    failures: int = 0
    is_check: bool = False  # it is there, and only the access to it is checked

    @property
    def has_failed(self) -> bool:
        """Whether it can never work."""
        return self.error is not None and not self.error.is_transient


@dataclass(slots=True, eq=False)
class _JobImages:
    snapshot: JobSnapshot
    engine: SupportsImagePulls
    pulls: dict[str, ImagePull]  # by image; those that are done are removed
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class ImagePulls:
    """For the event loop; nothing here blocks."""

    def __init__(
        self,
        find_engine: Callable[[Job], object],
        load_credentials: CredentialsLoader,
        lives: LiveJobs,
        *,
        clock: Callable[[], datetime],
        mark: Callable[[str], None],
        tell: Callable[[], None],
        may_pull: bool = True,
    ) -> None:
        """`find_engine` returns the engine that would run a job. `mark` plans a job again, `tell` notifies pages that
        reasons to wait changed. Without `may_pull`, jobs only use images that are there, and prove their access to
        private ones."""
        self._find_engine = find_engine
        self._load_credentials = load_credentials
        self._lives = lives
        self._clock = clock
        self._mark = mark
        self._tell = tell
        self._may_pull = may_pull
        self._jobs: dict[str, _JobImages] = {}  # jobs that wait for images, and those that have them
        self._notify_timer: asyncio.TimerHandle | None = None

    def is_ready(self, snapshot: JobSnapshot) -> bool:
        """Return whether its images are there; if not, begin to pull them."""
        engine = self._find_engine(snapshot.job)
        if not isinstance(engine, SupportsImagePulls):
            return True
        known = self._jobs.get(snapshot.id)
        if known is not None and known.engine is not engine:  # its group has another engine now
            self.forget_job(snapshot.id)
            known = None
        if known is None:
            wanted = self._list_wanted_images(snapshot.job, engine)
            if not wanted:
                return True
            known = self._begin_pulls(snapshot, wanted, engine)
        return not known.pulls

    def _list_wanted_images(self, job: Job, engine: SupportsImagePulls) -> list[str]:
        """Return the images to pull or, if pulls are disabled, those that the job must prove its access to."""
        if self._may_pull:
            return [image for image in list_images(job) if not engine.has_image(image)]
        return [image for image in list_images(job) if engine.is_private_image(image)]

    def find_refusal(self, snapshot: JobSnapshot) -> PlacementRefusal | None:
        """Return why its images can never be pulled; None if they may."""
        known = self._jobs.get(snapshot.id)
        failed = [pull.error for pull in known.pulls.values() if pull.error and pull.has_failed] if known else []
        entries = build_queue_entries(snapshot, self._clock()) if failed else ()
        if not entries:
            return None
        cause = _CAUSES.get(failed[0].kind, Cause.IMAGE_MISSING)
        return PlacementRefusal(entries[0], tuple(error.message for error in failed), cause)

    def explain_wait(self, job_id: str) -> WaitExplanation | None:
        """Return None if it does not wait for images."""
        known = self._jobs.get(job_id)
        if known is None or not known.pulls:
            return None
        texts = {describe_pull(pull): pull for pull in known.pulls.values()}
        return WaitExplanation(
            blockers=tuple(Blocker(kind=BlockerKind.IMAGE, text=text) for text in texts),
            helps=tuple(pull.error.hint for pull in texts.values() if pull.error and pull.error.hint),
            estimate=Estimate(at=None, basis=msg("The job is placed after its images are pulled.")),
        )

    def forget_job(self, job_id: str) -> None:
        """Stop the pulls of a job that has started or ended. Other jobs may need the same images: theirs go on."""
        known = self._jobs.pop(job_id, None)
        for task in known.tasks if known else ():
            task.cancel()

    async def close(self) -> None:
        tasks = [task for known in self._jobs.values() for task in known.tasks]
        for job_id in list(self._jobs):
            self.forget_job(job_id)
        if self._notify_timer:
            self._notify_timer.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin_pulls(self, snapshot: JobSnapshot, images: list[str], engine: SupportsImagePulls) -> _JobImages:
        now = asyncio.get_running_loop().time()
        known = self._jobs[snapshot.id] = _JobImages(
            snapshot, engine, {image: ImagePull(image, now, is_check=not self._may_pull) for image in images}
        )
        for pull in known.pulls.values():
            if self._may_pull:
                self._add_event(snapshot.id, msg("Pulling image {image}", image=pull.image))
            known.tasks.append(asyncio.create_task(self._pull_until_done(known, pull, engine)))
        return known

    async def _pull_until_done(self, known: _JobImages, pull: ImagePull, engine: SupportsImagePulls) -> None:
        while not await self._try_pull(known, pull, engine):
            if pull.has_failed:
                break
            await asyncio.sleep(self._schedule_retry(pull))
        self._mark(known.snapshot.id)

    async def _try_pull(self, known: _JobImages, pull: ImagePull, engine: SupportsImagePulls) -> bool:
        pull.retry_at = None
        try:
            credentials = await self._load_credentials(known.snapshot, pull.image)
            if self._may_pull:
                found = await engine.pull_image(
                    pull.image, credentials, lambda progress: self._record_progress(pull, progress)
                )
                self._record_success(known, pull, found.size or 0)
            else:
                await engine.check_image_access(pull.image, credentials)
        except PullError as error:
            pull.error = error
        except Exception as error:
            log.exception("could not pull an image", extra={"event": "pull", "image": pull.image})
            text = msg("The image {image} cannot be pulled: {error}", image=pull.image, error=error)
            pull.error = PullError(PullFailure.UNREACHABLE, text)
        else:
            known.pulls.pop(pull.image, None)
            return True
        self._add_event(known.snapshot.id, pull.error.message)
        self._notify_progress()
        return False

    def _record_success(self, known: _JobImages, pull: ImagePull, size: int) -> None:
        took = format_duration(timedelta(seconds=asyncio.get_running_loop().time() - pull.began))
        text = msg("Pulled image {image} ({size}) in {time}", image=pull.image, size=format_bytes(size), time=took)
        self._add_event(known.snapshot.id, text)

    def _add_event(self, job_id: str, text: str) -> None:
        live = self._lives.get(job_id)
        if live is not None:
            live.unsaved_events.append(NewEvent(kind="image", message=text, at=self._clock()))
            self._mark(job_id)

    def _schedule_retry(self, pull: ImagePull) -> float:
        """Return the seconds until the next try."""
        delay = min(MAX_RETRY_DELAY, MIN_RETRY_DELAY * 2.0**pull.failures)
        pull.failures += 1
        now = self._clock()
        if pull.error is not None and pull.error.retry_at is not None:
            delay = max(delay, (pull.error.retry_at - now).total_seconds())
        pull.retry_at = now + timedelta(seconds=delay)
        return delay

    def _record_progress(self, pull: ImagePull, progress: PullProgress) -> None:
        pull.progress = progress
        self._notify_progress()

    def _notify_progress(self) -> None:
        """Tell pages, at most once in an interval."""
        if self._notify_timer is None:
            self._notify_timer = asyncio.get_running_loop().call_later(NOTIFY_INTERVAL, self._end_notify_interval)

    def _end_notify_interval(self) -> None:
        self._notify_timer = None
        self._tell()


def list_images(job: Job) -> list[str]:
    """Return the images that an engine must have."""
    return sorted({role.engine_image for role in job.roles} - {HOST_IMAGE})


def describe_pull(pull: ImagePull) -> str:
    if pull.error is not None and pull.retry_at is not None:
        at = format_utc_time(pull.retry_at)
        return msg("{error}. The next try is at {at}.", error=pull.error.message.removesuffix("."), at=at)
    if pull.is_check:
        return msg("The access to its image {image} is being checked.", image=pull.image)
    if pull.progress.phase is PullPhase.UNPACKING:
        return msg("Its image {image} is being unpacked.", image=pull.image)
    if not pull.progress.total:
        return msg("Its image {image} is being pulled.", image=pull.image)
    return msg(
        "Its image {image} is being pulled: {percent} % of {total}.",
        image=pull.image,
        percent=100 * pull.progress.done // pull.progress.total,
        total=format_bytes(pull.progress.total),
    )
