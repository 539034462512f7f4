"""A whole server without HTTP: SQLite, the scripted engine, the controller and the services."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.controller.live_jobs import JobLimits
from holdfast.controller.loop import Controller
from holdfast.core.access import Actor
from holdfast.core.attempt import JobSnapshot
from holdfast.core.records import Group, JobSummary
from holdfast.core.states import JobState, TaskState
from holdfast.engines.base import Engine
from holdfast.engines.engine_set import EngineSet
from holdfast.services import Services, build_services
from holdfast.services.people.passwords import Passwords
from holdfast.settings import Settings
from holdfast.shared_folders import SharedFolders
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.vault import Vault
from tests.fake_engine import FakeEngine

CHEAP = 64  # KiB a password costs to check; what users have costs 300 times as much, which tests need not pay
LIMITS = JobLimits(time_limit=timedelta(days=1), grace=timedelta(seconds=5), max_grace=timedelta(seconds=60))
TIMEOUT = 20.0  # seconds; a test that needs them has failed


@dataclass
class Clock:
    """Moved by hand."""

    at: datetime = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    monotonic: float = 1000.0

    def now(self) -> datetime:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.monotonic += seconds


@dataclass
class House:
    services: Services
    engine: FakeEngine
    controller: Controller
    store: Store
    clock: Clock
    home: Path
    admin_password: str
    admin: Actor = field(default_factory=lambda: Actor(name="admin", admin=True, groups={"default": True}))

    async def user(self, name: str, *groups: str, password: str | None = None) -> Actor:
        """A user of these groups, which are made when they are missing."""
        for group in groups:
            if group not in {known.name for known in await self.services.groups.list(self.admin)}:
                await self.add_group(group)
        user = await self.services.users.create(
            self.admin, name=name, password=password, groups=dict.fromkeys(groups, False)
        )
        return Actor(name=name, groups=dict(user.groups))

    async def add_group(self, name: str) -> None:
        await self.services.groups.create(self.admin, Group(name=name))

    async def submit(self, text: str, actor: Actor | None = None, **more: Any) -> JobSummary:
        return (await self.services.jobs.submit(actor or self.admin, text, **more)).summary

    async def until(self, job_id: str, *states: JobState) -> JobSummary:
        """Once the job is in one of these states and no task is still being set up; without any, once it is final."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                live = self.controller.get_active_job(job_id)
                if live is None or (live.state in states and not _being_set_up(live)):
                    return await self.services.jobs.wait(self.admin, job_id, 0)
                await self.controller.wait_for_change(job_id, 1.0)

    async def run(self, text: str, actor: Actor | None = None) -> JobSummary:
        return await self.until((await self.submit(text, actor)).id)


def _being_set_up(job: JobSnapshot) -> bool:
    """It runs as soon as one of its tasks does."""
    return job.state is JobState.RUNNING and any(task.state is TaskState.PREPARING for task in job.tasks)


def _cheap() -> Passwords:
    return Passwords(memory_kib=CHEAP)


_templates: dict[bool, tuple[Path, str]] = {}


async def make_home(home: Path, *, seeded: bool) -> str:
    """A state folder after its first start, and the admin's password. Made once, then copied: it is quicker."""
    if seeded not in _templates:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-home-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        store = open_store(folder)
        fake = FakeEngine()
        services = build_services(store, fake, Controller(store, fake, LIMITS), Settings(), folder, passwords=_cheap())
        password = await services.users.ensure_first_admin()
        assert password is not None
        if seeded:
            await services.seed_catalogue()
        await store.close()
        _templates[seeded] = folder, password
    template, password = _templates[seeded]
    shutil.copytree(template, home)
    return password


def open_store(home: Path) -> Store:
    return Store.open(f"sqlite:///{home / 'holdfast.db'}", vault=Vault.open(home / "secret.key"))


@asynccontextmanager
async def open_house(
    home: Path, *, settings: Mapping[str, Any] | None = None, engine: Engine | EngineSet | None = None
) -> AsyncIterator[House]:
    password = await make_home(home, seeded="instance_types" not in (settings or {}).get("jobs", {}))
    clock = Clock()
    store = open_store(home)
    chosen: Any = engine or FakeEngine()
    known = Settings.model_validate(settings or {})
    controller = Controller(
        store,
        chosen,
        LIMITS,
        groups=await store.read(people.list_groups),
        folders=SharedFolders.from_setting(known.files.folder, home),
    )
    await controller.recover()
    looping = asyncio.create_task(controller.run())
    services = build_services(
        store,
        chosen,
        controller,
        known,
        home,
        clock=clock.now,
        monotonic=lambda: clock.monotonic,
        passwords=_cheap(),
        derive=Vault.open(home / "secret.key").derive_key,
    )
    await services.seed_catalogue()
    try:
        yield House(services, chosen, controller, store, clock, home, password)
    finally:
        looping.cancel()
        with suppress(asyncio.CancelledError):
            await looping
        await services.git_sync.close()
        await controller.close()
        await store.close()
