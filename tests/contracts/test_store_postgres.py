"""The store's contract on PostgreSQL: a real server, started for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store.tables import metadata
from tests.postgres import Postgres, postgres  # noqa: F401
from tests.store.open_store import Opened

from .store_audit_contract import AuditContract
from .store_catalogue_contract import CatalogueContract
from .store_contract import JobsContract
from .store_datasets_contract import DatasetsContract
from .store_insights_contract import InsightsContract
from .store_listing_contract import ListingContract
from .store_notifications_contract import NoticesContract
from .store_numbered_contract import NumberedContract
from .store_schedules_contract import SchedulesContract
from .store_secrets_contract import SecretsContract
from .store_tags_contract import TagsContract
from .store_task_pages_contract import TaskPagesContract
from .store_usage_contract import UsageContract
from .store_users_contract import PeopleContract
from .store_writing_contract import WritingContract


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> str:  # noqa: F811
    name = postgres.new_database()
    Opened(postgres.url(name)).close()
    return name


@pytest.fixture
def opened(postgres: Postgres, database: str) -> Iterator[Opened]:  # noqa: F811
    postgres.empty(database, (table.name for table in reversed(metadata.sorted_tables)))
    store = Opened(postgres.url(database))
    yield store
    store.close()


class TestJobs(JobsContract):
    pass


class TestListing(ListingContract):
    pass


@pytest.mark.release
class TestNumbered(NumberedContract):
    pass


class TestPeople(PeopleContract):
    pass


@pytest.mark.release
class TestTags(TagsContract):
    pass


@pytest.mark.release
class TestTaskPages(TaskPagesContract):
    pass


@pytest.mark.release
class TestCatalogue(CatalogueContract):
    pass


@pytest.mark.release
class TestDatasets(DatasetsContract):
    pass


@pytest.mark.release
class TestSecrets(SecretsContract):
    pass


@pytest.mark.release
class TestUsage(UsageContract):
    pass


@pytest.mark.release
class TestSchedules(SchedulesContract):
    pass


class TestWriting(WritingContract):
    pass


@pytest.mark.release
class TestAudit(AuditContract):
    pass


@pytest.mark.release
class TestInsights(InsightsContract):
    pass


@pytest.mark.release
class TestNotices(NoticesContract):
    pass
