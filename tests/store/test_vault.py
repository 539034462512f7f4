"""Secrets at rest."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from holdfast.core.errors import UserError
from holdfast.store.vault import Vault


def test_what_is_sealed_opens_again(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "new folder" / "key")
    sealed = vault.seal(b"secret", about="job-1")
    assert b"secret" not in sealed
    assert Vault.open(tmp_path / "new folder" / "key").unseal(sealed, about="job-1") == b"secret"


def test_the_same_secret_looks_different_each_time(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "key")
    assert vault.seal(b"secret", about="x") != vault.seal(b"secret", about="x")


def test_only_its_owner_may_read_the_key_file(tmp_path: Path) -> None:
    Vault.open(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_makers_at_the_same_time_get_the_same_key(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    prints: list[str] = []

    def make() -> None:
        start.wait()
        prints.append(Vault.open(tmp_path / "key").fingerprint)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(prints) == 8
    assert len(set(prints)) == 1


def test_what_is_derived_stays_the_same_and_differs_by_purpose_and_key(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "key")
    derived = vault.derive_key(b"job 1")
    assert len(derived) == 32
    assert Vault.open(tmp_path / "key").derive_key(b"job 1") == derived
    assert derived not in (vault.derive_key(b"job 2"), Vault.open(tmp_path / "other").derive_key(b"job 1"))


def test_another_key_does_not_open_it(tmp_path: Path) -> None:
    sealed = Vault.open(tmp_path / "one").seal(b"secret", about="job-1")
    with pytest.raises(UserError, match="two does not match") as caught:
        Vault.open(tmp_path / "two").unseal(sealed, about="job-1")
    assert caught.value.hint


def test_a_secret_moved_to_another_job_does_not_open(tmp_path: Path) -> None:
    vault = Vault.open(tmp_path / "key")
    sealed = vault.seal(b"secret", about="job-1")
    with pytest.raises(UserError):
        vault.unseal(sealed, about="job-2")


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02" + b"x" * 40, b"\x01" + b"x" * 40])
def test_a_damaged_secret_is_an_error_not_a_crash(tmp_path: Path, damage: bytes) -> None:
    with pytest.raises(UserError):
        Vault.open(tmp_path / "key").unseal(damage, about="job-1")


@pytest.mark.parametrize("content", [b"", b"short", b"\xff\xfe", b"A" * 2000])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UserError, match="is not a key file"):
        Vault.open(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == content


def test_a_key_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(UserError, match="Cannot read the key file"):
        Vault.open(tmp_path / "key")


def test_an_open_key_file_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Vault.open(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    Vault.open(tmp_path / "key")
    assert "can be read by others" in caplog.text
