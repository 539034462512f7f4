"""PostgreSQL going away and coming back under a running store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, event

from holdfast.core.errors import UserError
from holdfast.core.records import JobFilter
from holdfast.store.database import Store
from holdfast.store.errors import StoreError
from holdfast.store.jobs import records as jobs
from holdfast.store.tables import metadata
from tests.postgres import Postgres

from .open_store import VAULT, Opened, a_new_job


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> str:
    name = postgres.new_database()
    Opened(postgres.url(name)).close()
    return name


@pytest.fixture
def opened(postgres: Postgres, database: str) -> Iterator[Opened]:
    postgres.empty(database, (table.name for table in reversed(metadata.sorted_tables)))
    store = Opened(postgres.url(database))
    yield store
    store.close()


def cut(postgres: Postgres, database: str) -> int:
    """End every connection to the database."""
    query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    return len(postgres.execute(query))


def test_connections_lost_while_idle_are_not_noticed(opened: Opened, postgres: Postgres, database: str) -> None:
    opened.submit("before")
    opened.names(JobFilter())
    assert cut(postgres, database) >= 2
    assert opened.submit("after").name == "after"
    assert opened.names(JobFilter()) == ["after", "before"]


def test_a_connection_lost_during_a_write_is_mended(opened: Opened, postgres: Postgres, database: str) -> None:
    cuts: list[int] = []

    def unlucky(conn: Connection) -> jobs.InsertedJob:
        inserted = jobs.insert_job(conn, new=a_new_job("unlucky"))
        if not cuts:
            cuts.append(cut(postgres, database))
        jobs.load_active_jobs(conn)
        return inserted

    assert opened.write(unlucky).created
    assert opened.names(JobFilter()) == ["unlucky"]


def test_a_connection_lost_during_the_commit_is_told(opened: Opened, postgres: Postgres, database: str) -> None:
    def at_commit(conn: Connection) -> None:
        cut(postgres, database)

    event.listen(opened.store._engine, "commit", at_commit)
    with pytest.raises(StoreError, match="connection to the database was lost"):
        opened.submit("lost")
    event.remove(opened.store._engine, "commit", at_commit)
    assert opened.submit("after").name == "after"
    assert opened.names(JobFilter()) == ["after"]


def test_an_outage_is_told_and_ends_by_itself(opened: Opened, postgres: Postgres, database: str) -> None:
    opened.submit("before")
    postgres.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
    cut(postgres, database)
    for _ in range(2):
        with pytest.raises(StoreError):
            opened.submit("during")
        with pytest.raises(StoreError):
            opened.names(JobFilter())
    postgres.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    opened.submit("after")
    assert opened.names(JobFilter()) == ["after", "before"]


def test_the_lock_is_taken_again_with_the_connection(opened: Opened, postgres: Postgres, database: str) -> None:
    opened.store.acquire_exclusive_lock()
    cut(postgres, database)
    opened.submit()
    second = Store.open(opened.url, vault=VAULT)
    with pytest.raises(UserError, match="Another server"):
        second.acquire_exclusive_lock(timeout=0)
    second.close_sync()


def test_a_server_that_lost_its_lock_writes_no_more(opened: Opened, postgres: Postgres, database: str) -> None:
    opened.store.acquire_exclusive_lock()
    cut(postgres, database)
    second = Store.open(opened.url, vault=VAULT)
    second.acquire_exclusive_lock()
    with pytest.raises(StoreError, match="Another server is now using this database"):
        opened.submit()
    second.close_sync()
    assert opened.submit().name == "hello"


def test_search_works_without_the_trigram_index(opened: Opened, postgres: Postgres, database: str) -> None:
    (index,) = postgres.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'ix_jobs_search'", database)
    postgres.execute("DROP INDEX ix_jobs_search", database)
    opened.submit("100% train")
    opened.submit("other")
    assert opened.names(JobFilter(text="% tr")) == ["100% train"]
    opened.store.close_sync()
    postgres.execute(str(index[0]), database)


def test_a_database_of_another_encoding_is_refused(postgres: Postgres) -> None:
    postgres.execute("CREATE DATABASE old_letters TEMPLATE template0 ENCODING 'LATIN1'")
    with pytest.raises(UserError, match="UTF-8"):
        Store.open(postgres.url("old_letters"), vault=VAULT)
