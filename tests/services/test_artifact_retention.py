"""Artifacts go some days after their job's end, whatever a job writes beside them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import Forbidden
from holdfast.core.job import Job, Role
from holdfast.core.records import NewEvent
from holdfast.services.jobs.artifact_retention import ArtifactCleanup
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows
from holdfast.store.vault import Vault

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ADMIN = Actor(name="admin", admin=True)


class World:
    def __init__(self, home: Path, keep: timedelta | None = timedelta(days=7)) -> None:
        self.store = Store.open(f"sqlite:///{home / 'test.db'}", vault=Vault.open(home / "key"))
        self.shared = SharedFolders(home / "shared")
        self.now = NOW
        self.sweep = ArtifactCleanup(self.store, self.shared, keep, clock=lambda: self.now)

    async def job(self, *, finished: datetime | None, kept: datetime = NOW, group: str = "default") -> str:
        """A job that has artifacts."""
        event = NewEvent(kind="submitted", message="", at=NOW)
        job = Job(name="sample", group=group, roles=(Role(name="main", commands=("true",)),))
        new = job_rows.NewJob(job=job, user="ann", source="", submitted_at=NOW, event=event)
        id = (await self.store.write(job_rows.insert_job, new=new)).summary.id
        if finished is not None:
            await self.store.write(_finish, id, finished)
        self.keep(group, id, kept)
        return id

    def keep(self, group: str, id: str, kept: datetime) -> None:
        folder = self.shared.create_folder(self.shared.get_artifacts_folder(group, id) / ".metadata").parent
        (folder / "model.bin").write_text("weights")
        note = self.shared.create_folder(self.shared.get_artifact_markers_folder(group)) / id
        note.touch()
        os.utime(note, (kept.timestamp(), kept.timestamp()))

    def there(self, id: str, group: str = "default") -> bool:
        return self.shared.get_artifacts_folder(group, id).exists()


def _finish(conn, id: str, at: datetime) -> None:  # type: ignore[no-untyped-def]
    from sqlalchemy import text

    micros = int(at.timestamp() * 1_000_000)
    conn.execute(
        text("UPDATE jobs SET finished_at = :at, state = 'Succeeded' WHERE id = :id"), {"at": micros, "id": id}
    )


def play(story: Callable[[World], Awaitable[None]], world: World) -> None:
    async def go() -> None:
        try:
            await story(world)
        finally:
            await world.store.close()

    asyncio.run(go())


def test_artifacts_go_when_their_time_has_come_and_not_before(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        old = await world.job(finished=NOW)
        other = await world.job(finished=NOW, group="team")
        new = await world.job(finished=NOW + timedelta(days=3), kept=NOW + timedelta(days=3))
        runs_on = await world.job(finished=None)
        ended_late = await world.job(finished=NOW + timedelta(days=6))
        world.now = NOW + timedelta(days=8)
        assert await world.sweep.run() == 2
        assert not world.there(old)
        assert not world.there(other, "team")
        assert all(map(world.there, (new, runs_on, ended_late)))
        assert not list(world.shared.get_removed_folder("default").iterdir())
        world.now = NOW + timedelta(days=30)
        assert await world.sweep.delete_expired_artifacts(ADMIN) == 2
        assert world.there(runs_on)
        assert [path.name for path in world.shared.get_artifact_markers_folder("default").iterdir()] == [runs_on]

    play(story, World(tmp_path))


def test_what_a_job_writes_beside_them_changes_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("unharmed")

    async def story(world: World) -> None:
        put_off = await world.job(finished=NOW)
        (world.shared.get_artifacts_folder("default", put_off) / ".metadata" / "expiredAt").write_text("99999999999")
        hurried = await world.job(finished=NOW + timedelta(days=6), kept=NOW + timedelta(days=6))
        (world.shared.get_artifacts_folder("default", hurried) / ".metadata" / "expiredAt").write_text("1")
        linked = await world.job(finished=NOW)
        place = world.shared.get_artifacts_folder("default", linked)
        place.rename(place.with_name("mine"))
        place.symlink_to(victim)
        inside = await world.job(finished=NOW)
        (world.shared.get_artifacts_folder("default", inside) / "link").symlink_to(victim)
        gone = await world.job(finished=NOW)
        world.shared.get_artifacts_folder("default", gone).rename(world.shared.get_files_folder("default") / "taken")
        world.now = NOW + timedelta(days=8)
        assert await world.sweep.run() == 3
        assert not world.there(put_off)
        assert world.there(hurried)
        assert not os.path.lexists(place)
        assert (victim / "precious").read_text() == "unharmed"
        assert (world.shared.get_files_folder("default") / "taken" / "model.bin").exists()
        assert [path.name for path in world.shared.get_artifact_markers_folder("default").iterdir()] == [hurried]

    play(story, World(tmp_path))


def test_a_folder_of_artifacts_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await world.job(finished=NOW)
        jobs = world.shared.get_artifacts_folder("default", id).parent
        jobs.rename(tmp_path / "moved")
        jobs.symlink_to(tmp_path / "moved")
        world.now = NOW + timedelta(days=8)
        assert await world.sweep.run() == 0
        assert (tmp_path / "moved" / id / "model.bin").exists()

    play(story, World(tmp_path))


def test_one_groups_trouble_is_not_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        broken = await world.job(finished=NOW, group="a-broken")
        fine = await world.job(finished=NOW, group="fine")
        world.shared.get_removed_folder("a-broken").write_text("no folder")
        world.now = NOW + timedelta(days=8)
        assert await world.sweep.run() == 1
        assert world.there(broken, "a-broken")
        assert not world.there(fine, "fine")
        assert "could not remove old artifacts" in caplog.text
        world.shared.get_removed_folder("a-broken").unlink()
        assert await world.sweep.run() == 1  # it was not forgotten

    play(story, World(tmp_path))


def test_those_of_jobs_that_nobody_knows_go_too_and_drafts_that_were_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.keep("default", "job-of-a-lost-database", NOW)
        draft, fresh = (
            world.shared.create_folder(world.shared.get_artifact_drafts_folder("default") / name)
            for name in ("left", "fresh")
        )
        os.utime(draft, (NOW.timestamp(),) * 2)
        world.now = NOW + timedelta(days=8)
        os.utime(fresh, (world.now.timestamp(),) * 2)
        assert await world.sweep.run() == 1
        assert not world.there("job-of-a-lost-database")
        assert [path.name for path in world.shared.get_artifact_drafts_folder("default").iterdir()] == ["fresh"]

    play(story, World(tmp_path))


def test_for_ever_is_for_ever_and_others_than_admins_cannot_ask(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await world.job(finished=NOW)
        world.now = NOW + timedelta(days=3650)
        assert await world.sweep.run() == 0
        assert world.there(id)
        with pytest.raises(Forbidden):
            await world.sweep.delete_expired_artifacts(Actor(name="ann", groups={"default": True}))

    play(story, World(tmp_path, keep=None))


def test_without_any_group_there_is_nothing_to_do(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert await world.sweep.run() == 0

    play(story, World(tmp_path))
