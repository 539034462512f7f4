"""What every store must do when many write at once, when one of them fails, and when the process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text

from holdfast.core.errors import UserError
from holdfast.core.records import JobFilter
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import records as jobs
from holdfast.store.vault import Vault
from tests.store.open_store import VAULT, Opened, a_new_job, a_user


class Odd(Exception):
    """Raised by a write of a test."""


class WritingContract:
    # -- groups

    def test_what_waits_shares_one_commit(self, opened: Opened) -> None:
        commits = self._count_commits(opened.store)

        async def crowd() -> list[jobs.InsertedJob]:
            async with self._busy(opened.store):
                writes = [self._start(opened.store, number) for number in range(50)]
                await asyncio.sleep(0)  # let each of them queue
            return await asyncio.gather(*writes)

        made = opened.run(crowd())
        assert len({inserted.summary.id for inserted in made}) == 50
        assert len(commits) == 2  # the busy one, and all the others
        assert len(opened.read(jobs.load_active_jobs)) == 50

    def test_only_the_guilty_fails(self, opened: Opened) -> None:
        def guilty(conn: Connection) -> None:
            jobs.insert_job(conn, new=a_new_job("half-written"))
            raise Odd

        async def crowd() -> list[object]:
            async with self._busy(opened.store):
                writes = [self._start(opened.store, number) for number in range(3)]
                writes.insert(1, asyncio.ensure_future(opened.store.write(guilty)))
                await asyncio.sleep(0)
            return await asyncio.gather(*writes, return_exceptions=True)

        results = opened.run(crowd())
        assert [type(result) for result in results] == [jobs.InsertedJob, Odd, jobs.InsertedJob, jobs.InsertedJob]
        assert opened.names(JobFilter()) == ["2", "1", "0"]

    def test_a_broken_statement_fails_alone_too(self, opened: Opened) -> None:
        """A failed statement spoils the whole transaction on some databases."""

        def twice(conn: Connection) -> None:
            for _ in range(2):
                conn.execute(text("INSERT INTO meta (key, value) VALUES ('k', 'v')"))

        async def crowd() -> list[object]:
            async with self._busy(opened.store):
                writes = [self._start(opened.store, 0), asyncio.ensure_future(opened.store.write(twice))]
                await asyncio.sleep(0)
            return await asyncio.gather(*writes, return_exceptions=True)

        first, second = opened.run(crowd())
        assert isinstance(first, jobs.InsertedJob)
        assert isinstance(second, Exception)
        assert len(opened.read(jobs.load_active_jobs)) == 1

    @pytest.mark.parametrize("error", [StopIteration, SystemExit, MemoryError])
    def test_the_writer_survives_whatever_is_raised(self, opened: Opened, error: type[BaseException]) -> None:
        def guilty(conn: Connection) -> None:
            raise error

        with pytest.raises((StoreError, RuntimeError, MemoryError)):
            opened.write(guilty)
        assert opened.submit("after").name == "after"

    def test_writes_happen_in_the_order_they_came(self, opened: Opened) -> None:
        async def crowd() -> None:
            await asyncio.gather(*(self._start(opened.store, number) for number in range(30)))

        opened.run(crowd())
        assert opened.names(JobFilter()) == [str(number) for number in reversed(range(30))]

    def test_a_cancelled_caller_harms_nobody(self, opened: Opened) -> None:
        async def crowd() -> list[object]:
            async with self._busy(opened.store):
                writes = [self._start(opened.store, number) for number in range(3)]
                await asyncio.sleep(0)
                writes[1].cancel()
            return await asyncio.gather(*writes, return_exceptions=True)

        results = opened.run(crowd())
        assert [type(result) for result in results] == [jobs.InsertedJob, asyncio.CancelledError, jobs.InsertedJob]
        assert opened.names(JobFilter()) == ["2", "0"]

    def test_closing_waits_for_what_was_queued(self, opened: Opened) -> None:
        async def crowd() -> list[jobs.InsertedJob]:
            async with self._busy(opened.store):
                writes = [self._start(opened.store, number) for number in range(10)]
                await asyncio.sleep(0)
                closing = asyncio.ensure_future(opened.store.close())
                await asyncio.sleep(0)
            await closing
            return await asyncio.gather(*writes)

        assert len(opened.run(crowd())) == 10
        with pytest.raises(StoreError, match="closed"):
            opened.submit()
        with pytest.raises(StoreError, match="closed"):
            opened.read(jobs.load_active_jobs)
        opened.store.close_sync()
        again = Opened(opened.url)
        assert len(again.read(jobs.load_active_jobs)) == 10
        again.close()

    # -- reading

    def test_readers_cannot_write(self, opened: Opened) -> None:
        with pytest.raises(Exception, match=r"(?i)read.?only|only be read"):
            opened.read(jobs.insert_job, new=a_new_job())
        assert opened.submit().name == "hello"

    def test_a_reader_sees_one_moment(self, opened: Opened) -> None:
        began, written = threading.Event(), threading.Event()

        def look_twice(conn: Connection) -> tuple[int, int]:
            first = len(people.list_users(conn))
            began.set()
            assert written.wait(30)
            return first, len(people.list_users(conn))

        async def both() -> tuple[int, int]:
            looking = asyncio.ensure_future(opened.store.read(look_twice))
            await asyncio.to_thread(began.wait, 30)
            await opened.store.write(people.create_user, user=a_user("ann"), password_hash=None)
            written.set()
            return await looking

        assert opened.run(both()) == (0, 0)
        assert len(opened.read(people.list_users)) == 1

    def test_a_failed_read_leaves_the_reader_usable(self, opened: Opened) -> None:
        for _ in range(10):  # more often than there are readers
            with pytest.raises(Exception, match="nonsense"):
                opened.read(lambda conn: conn.execute(text("SELECT nonsense")))
        assert opened.read(jobs.load_active_jobs) == []

    # -- one server

    def test_one_server_to_a_database(self, opened: Opened) -> None:
        opened.store.acquire_exclusive_lock()
        opened.store.acquire_exclusive_lock()  # its own lock is no obstacle
        second = Store.open(opened.url, vault=VAULT)
        try:
            with pytest.raises(UserError, match="Another server") as caught:
                second.acquire_exclusive_lock(timeout=0)
            assert caught.value.hint
            opened.store.close_sync()
            second.acquire_exclusive_lock(timeout=0)
        finally:
            second.close_sync()

    def test_the_wrong_key_is_refused_at_once(self, opened: Opened) -> None:
        with pytest.raises(UserError, match=r"the key in .* does not match"):
            Store.open(opened.url, vault=Vault(b"x" * 32, "other.key"))

    # -- killed

    def test_every_acknowledged_write_survives_a_kill(self, opened: Opened) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "tests.store.submit_until_killed", opened.url]
        root = Path(__file__).parents[2]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root) as child:
            assert child.stdout is not None
            acknowledged = [child.stdout.readline().strip() for _ in range(200)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        snapshots = {snapshot.id: snapshot for snapshot in opened.read(jobs.load_active_jobs)}
        assert len(acknowledged) >= 200
        assert set(acknowledged) <= set(snapshots)
        for id in acknowledged:
            assert len(opened.read(jobs.load_job_detail, id).source) > 0
        assert opened.submit().name == "hello"

    # -- helpers

    @staticmethod
    def _start(store: Store, number: int) -> asyncio.Task[jobs.InsertedJob]:
        return asyncio.ensure_future(store.write(jobs.insert_job, new=a_new_job(str(number))))

    @staticmethod
    @asynccontextmanager
    async def _busy(store: Store) -> AsyncIterator[None]:
        """The writing thread is in the middle of something, so that all that comes now has to wait."""
        started, release = threading.Event(), threading.Event()

        def hold(conn: Connection) -> None:
            started.set()
            release.wait(30)

        holding = asyncio.ensure_future(store.write(hold))
        try:
            await asyncio.to_thread(started.wait, 30)
            yield
        finally:
            release.set()
            await holding

    @staticmethod
    def _count_commits(store: Store) -> list[None]:
        commits: list[None] = []
        event.listen(store._engine, "commit", lambda conn: commits.append(None))
        return commits
