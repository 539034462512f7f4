"""Images are pulled before a job is placed, and the job says what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.controller.images import pulls as image_pulls
from holdfast.core.catalogue import ImageAlias, Secret, SecretKind
from holdfast.core.exits.exit import Cause
from holdfast.core.job import Job, JobFormat
from holdfast.core.scheduling.blockers import BlockerKind
from holdfast.core.states import JobState
from holdfast.engines.base import ImageSummary, PullError, PullFailure, PullPhase, PullProgress, RegistryCredentials
from holdfast.store import image_aliases as alias_rows
from holdfast.store import secrets as secret_rows
from tests.fake_engine import FakeEngine, FakeMachine

from .test_loop import Place, a_job, run, running

IMAGE = "ghcr.io/team/train:1"


class PullingEngine(FakeEngine):
    """Pulls end when the test says so."""

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__(machine)
        self.present: set[str] = set()
        self.private: set[str] = set()
        self.pulls: list[tuple[str, RegistryCredentials | None]] = []
        self.checks: list[tuple[str, RegistryCredentials | None]] = []
        self.progress: Callable[[PullProgress], None] = lambda _: None
        self.end: asyncio.Future[None] | None = None

    def has_image(self, name: str) -> bool:
        return name in self.present

    async def pull_image(
        self,
        name: str,
        credentials: RegistryCredentials | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageSummary:
        self.pulls.append((name, credentials))
        self.progress = on_progress or self.progress
        if self.end is None or self.end.done():
            self.end = asyncio.get_running_loop().create_future()
        await asyncio.shield(self.end)
        self._images = (*self._images, name)
        return ImageSummary(name=name, size=1 << 20, created_at=None, source=name)

    def is_private_image(self, name: str) -> bool:
        return name in self.private

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None = None) -> None:
        self.checks.append((name, credentials))
        if credentials is None:
            raise PullError(PullFailure.DENIED, f"Access to {name} is denied.")

    async def remove_image(self, name: str) -> bool:
        return False

    async def wait_for_pull(self, count: int = 1) -> asyncio.Future[None]:
        async with asyncio.timeout(20):
            while len(self.pulls) < count or self.end is None or self.end.done():
                await asyncio.sleep(0.001)
        return self.end


@asynccontextmanager
async def pulling(home: Path, machine: FakeMachine | None = None) -> AsyncIterator[tuple[Place, PullingEngine]]:
    async with running(home, machine, engine=PullingEngine, pulls_images=True) as place:
        assert isinstance(place.engine, PullingEngine)
        yield place, place.engine


def job_on(image: str = IMAGE, script: str = "exit 0", **fields: object) -> Job:
    job = a_job(script, **fields)
    return replace(job, roles=tuple(replace(role, image=image) for role in job.roles))


def make_error(kind: PullFailure, **fields: object) -> PullError:
    return PullError(kind, "The image is out of reach", hint="Wait.", **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_pulls, "MIN_RETRY_DELAY", 0.01)
    monkeypatch.setattr(image_pulls, "NOTIFY_INTERVAL", 0.0)


def test_a_job_waits_for_its_image_and_says_how_far_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            id = await place.submit(job_on())
            end = await engine.wait_for_pull()
            assert await place.reasons(id) == (f"Its image {IMAGE} is being pulled.",)
            engine.progress(PullProgress(phase=PullPhase.DOWNLOADING, done=3 << 20, total=4 << 20))
            assert await place.reasons(id) == (f"Its image {IMAGE} is being pulled: 75 % of 4 MiB.",)
            engine.progress(PullProgress(phase=PullPhase.UNPACKING, done=4 << 20, total=4 << 20))
            assert await place.reasons(id) == (f"Its image {IMAGE} is being unpacked.",)
            assert not engine.machine.tasks
            wait = await place.controller.explain_wait(id, lambda _: True, no_durations, 1.0)
            assert wait is not None
            assert [blocker.kind for blocker in wait.blockers] == [BlockerKind.IMAGE]
            end.set_result(None)
            await place.until(id, JobState.SUCCEEDED)
            assert (await place.kinds(id))[:4] == ["submitted", "image", "image", "placed"]
            texts = [event.message for event in await place.events(id) if event.kind == "image"]
            assert texts[0] == f"Pulling image {IMAGE}"
            assert texts[1].startswith(f"Pulled image {IMAGE} (1 MiB) in ")

    run(story)


async def no_durations(_: object) -> dict[str, float]:
    return {}


def test_others_start_meanwhile_and_an_image_that_is_there_is_not_pulled(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            engine.present.add("here:1")
            engine._images = (*engine._images, "here:1")
            waiting = await place.submit(job_on())
            await engine.wait_for_pull()
            for image in ("here:1", "host"):
                await place.until(await place.submit(job_on(image)), JobState.SUCCEEDED)
            assert [image for image, _ in engine.pulls] == [IMAGE]
            assert place.controller.get_active_job(waiting) is not None

    run(story)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (PullFailure.NOT_FOUND, Cause.IMAGE_MISSING),
        (PullFailure.DENIED, Cause.NOT_ALLOWED),
        (PullFailure.NO_SHELL, Cause.NO_SHELL),
    ],
)
def test_a_job_whose_image_can_never_be_pulled_fails_before_it_is_placed(
    tmp_path: Path, kind: PullFailure, cause: Cause
) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            id = await place.submit(job_on())
            (await engine.wait_for_pull()).set_exception(make_error(kind))
            end = await place.until(id, JobState.FAILED)
            assert end.exit is not None
            assert end.exit.cause == cause
            assert "The image is out of reach" in end.message
            assert "placed" not in await place.kinds(id)

    run(story)


def test_a_pull_that_fails_for_a_while_is_retried(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            id = await place.submit(job_on())
            (await engine.wait_for_pull()).set_exception(make_error(PullFailure.UNREACHABLE))
            (await engine.wait_for_pull(2)).set_result(None)
            await place.until(id, JobState.SUCCEEDED)

    run(story)


def test_a_rate_limit_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            at = datetime.now(UTC) + timedelta(hours=1)
            id = await place.submit(job_on())
            error = make_error(PullFailure.RATE_LIMITED, retry_at=at)
            (await engine.wait_for_pull()).set_exception(error)
            async with asyncio.timeout(20):
                while "The next try is at" not in (await place.reasons(id))[0]:
                    await asyncio.sleep(0.001)
            assert f"{at:%H:%M}" in (await place.reasons(id))[0]
            assert len(engine.pulls) == 1

    run(story)


def test_a_stopped_job_ends_at_once_and_a_restarted_server_pulls_again(tmp_path: Path) -> None:
    async def story() -> None:
        machine = FakeMachine()
        async with pulling(tmp_path, machine) as (place, engine):
            stopped, stays = await place.submit(job_on()), await place.submit(job_on())
            await engine.wait_for_pull(2)
            await place.controller.stop_job(stopped, "ann")
            await place.until(stopped, JobState.CANCELLED)
        async with pulling(tmp_path, machine) as (place, engine):
            (await engine.wait_for_pull()).set_result(None)
            await place.until(stays, JobState.SUCCEEDED)
            assert len(engine.pulls) == 1

    run(story)


def test_the_pull_secret_of_an_alias_is_sent_to_its_registry_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            secret = Secret(name="pulls", kind=SecretKind.REGISTRY, registry_host="https://GHCR.io/v2/", username="bot")
            await place.store.write(secret_rows.create_secret, secret, "token")
            for name, url in (("train", IMAGE), ("foreign", "evil.example/x:1")):
                alias = ImageAlias(name=name, url=url, pull_secret="pulls", everyone=True)
                await place.store.write(alias_rows.create_image_alias, alias)
            for name, url in (("train", IMAGE), ("foreign", "evil.example/x:1")):
                job = a_job("exit 0")
                await place.submit(replace(job, roles=(replace(job.roles[0], image=name, image_url=url),)))
            await engine.wait_for_pull(2)
            bot = RegistryCredentials(username="bot", password="token")
            assert dict(engine.pulls) == {IMAGE: bot, "evil.example/x:1": None}

    run(story)


def test_a_private_image_needs_access_where_pulls_are_disabled(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, None, engine=PullingEngine, pulls_images=False) as place:
            engine = place.engine
            assert isinstance(engine, PullingEngine)
            engine.private.add(IMAGE)
            engine._images = (*engine._images, IMAGE, "here:1")
            secret = Secret(name="pulls", kind=SecretKind.REGISTRY, registry_host="ghcr.io", username="bot")
            await place.store.write(secret_rows.create_secret, secret, "token")
            alias = ImageAlias(name="train", url=IMAGE, pull_secret="pulls", everyone=True)
            await place.store.write(alias_rows.create_image_alias, alias)
            owner = a_job("exit 0")
            owner = replace(owner, roles=(replace(owner.roles[0], image="train", image_url=IMAGE),))
            await place.until(await place.submit(owner), JobState.SUCCEEDED)
            await place.until(await place.submit(job_on("here:1")), JobState.SUCCEEDED)
            other = await place.until(await place.submit(job_on()), JobState.FAILED)
            assert other.exit is not None
            assert other.exit.cause == Cause.NOT_ALLOWED
            assert [credentials is None for _, credentials in engine.checks] == [False, True]
            assert not engine.pulls

    run(story)


def test_credentials_of_an_openpai_file_are_used(tmp_path: Path) -> None:
    async def story() -> None:
        async with pulling(tmp_path) as (place, engine):
            openpai = {
                "registries": {"img": {"registryuri": "ghcr.io", "username": "ann", "password": "<% $secrets.key %>"}},
                "config": {"prerequisites": [{"type": "dockerimage", "name": "img", "uri": IMAGE}]},
            }
            fields = {"dialect": JobFormat.OPENPAI_V2, "secrets": {"key": "s3cret"}, "extras": {"openpai": openpai}}
            await place.submit(job_on(**fields))
            await engine.wait_for_pull()
            assert engine.pulls == [(IMAGE, RegistryCredentials(username="ann", password="s3cret"))]

    run(story)
