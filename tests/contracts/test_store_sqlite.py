"""The store's contract on SQLite."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

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
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store, to be copied: making one anew takes longer than most tests."""
    path = tmp_path_factory.mktemp("made") / "holdfast.db"
    Opened(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def opened(made: Path, tmp_path: Path) -> Iterator[Opened]:
    path = tmp_path / "holdfast.db"
    shutil.copy(made, path)
    store = Opened(f"sqlite:///{path}")
    yield store
    store.close()


class TestJobs(JobsContract):
    pass


class TestListing(ListingContract):
    pass


class TestNumbered(NumberedContract):
    pass


class TestPeople(PeopleContract):
    pass


class TestTags(TagsContract):
    pass


class TestTaskPages(TaskPagesContract):
    pass


class TestCatalogue(CatalogueContract):
    pass


class TestDatasets(DatasetsContract):
    pass


class TestSecrets(SecretsContract):
    pass


class TestUsage(UsageContract):
    pass


class TestSchedules(SchedulesContract):
    pass


class TestWriting(WritingContract):
    pass


class TestAudit(AuditContract):
    pass


class TestInsights(InsightsContract):
    pass


class TestNotices(NoticesContract):
    pass
