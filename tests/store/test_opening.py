"""Opening a store: addresses, files, and how little it takes when all is there."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from holdfast.core.errors import UserError
from holdfast.store.connections import parse_database_url
from holdfast.store.database import Store
from holdfast.store.vault import Vault

from .open_store import VAULT, Opened, a_job

_OPEN_AGAIN = """
import sys
from holdfast.store.database import Store
from holdfast.store.vault import Vault
Store.open(sys.argv[1], vault=Vault(bytes(range(32)))).close_sync()
heavy = [name for name in ("alembic", "cryptography", "sqlalchemy.orm", "psycopg") if name in sys.modules]
print(heavy)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state' / 'holdfast.db'}"


def test_opening_again_loads_nothing_heavy(url: str) -> None:
    Opened(url).close()
    done = subprocess.run([sys.executable, "-c", _OPEN_AGAIN, url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_file_is_private_and_safe_from_power_cuts(url: str, tmp_path: Path) -> None:
    opened = Opened(url)
    opened.submit()

    def settings(conn):
        return [conn.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")]

    assert opened.write(settings) == ["wal", 2, 1]
    for name in ("holdfast.db", "holdfast.db-wal", "holdfast.db-shm"):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600
    opened.close()


@pytest.mark.parametrize("text", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x", "mysql://h/d"])
def test_addresses_that_are_not_ours_are_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_database_url(text)
    assert caught.value.field == "store.url"
    assert caught.value.hint


@pytest.mark.parametrize("text", ["postgres://u:p@h/d", "postgresql://u:p@h/d", "postgresql+psycopg2://u:p@h/d"])
def test_every_way_to_say_postgresql_is_understood(text: str) -> None:
    assert parse_database_url(text).drivername == "postgresql+psycopg"


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my precious notes\n" * 100)
    with pytest.raises(UserError, match=r"notes\.txt: The file is not a database"):
        Store.open(f"sqlite:///{path}", vault=VAULT)
    assert path.read_text() == "my precious notes\n" * 100


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot open the database file"):
        Store.open(f"sqlite:///{tmp_path}/file/holdfast.db", vault=VAULT)


def test_a_server_that_is_not_there_is_said_without_the_password() -> None:
    with pytest.raises(UserError, match="Cannot open the database") as caught:
        Store.open("postgresql://ann:hunter2@127.0.0.1:1/x", vault=VAULT)
    assert "hunter2" not in caught.value.message


def test_a_database_of_a_newer_release_is_left_alone(url: str) -> None:
    opened = Opened(url)
    opened.write(lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    opened.close()
    with pytest.raises(UserError, match="written by a newer Holdfast release"):
        Store.open(url, vault=VAULT)


def test_no_migration_under_a_running_server(url: str) -> None:
    opened = Opened(url)
    opened.store.acquire_exclusive_lock()
    opened.write(lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = '0000'")))
    with pytest.raises(UserError, match="Another server"):
        Store.open(url, vault=VAULT)
    opened.close()


def test_secrets_cannot_be_read_in_the_files(url: str, tmp_path: Path) -> None:
    opened = Opened(url, Vault.open(tmp_path / "key"))
    opened.submit(job=a_job(secrets={"token": "correct horse battery"}), source="token: ******")
    for path in (tmp_path / "state").iterdir():  # while open, so that the write-ahead log is among them
        assert b"correct horse" not in path.read_bytes()
    opened.close()
    for path in (tmp_path / "state").iterdir():
        assert b"correct horse" not in path.read_bytes()
