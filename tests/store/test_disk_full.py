"""A write that meets a full disk is tried again once room was made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from holdfast.store.database import Store
from holdfast.store.errors import DiskFull
from holdfast.store.vault import Vault


def limit(conn: Connection, pages: int) -> None:
    conn.execute(text(f"PRAGMA max_page_count = {pages}"))


def fill(conn: Connection) -> None:
    conn.execute(text("INSERT INTO meta (key, value) VALUES ('filler', :value)"), {"value": "x" * 100_000})


async def open_full(tmp_path: Path) -> Store:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}", vault=Vault.open(tmp_path / "secret.key"))
    pages = await store.write(lambda conn: conn.scalar(text("PRAGMA page_count")))
    await store.write(limit, pages)
    return store


def test_it_succeeds_after_room_was_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_full(tmp_path)
        calls = 0

        async def make_room() -> None:
            nonlocal calls
            calls += 1
            if calls == 2:  # somebody else took what was made first
                await store.write(limit, 1_000_000)

        store.set_disk_full_handler(make_room)
        await store.write(fill)
        assert calls == 2
        assert await store.read(lambda conn: conn.scalar(text("SELECT count(*) FROM meta WHERE key = 'filler'"))) == 1
        await store.close()

    asyncio.run(scenario())


def test_it_is_given_up_where_no_room_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.database.DISK_FULL_TIMEOUT", 2.0)

    async def scenario() -> None:
        store = await open_full(tmp_path)
        calls: list[None] = []

        async def make_no_room() -> None:
            calls.append(None)

        with pytest.raises(DiskFull):
            await store.write(fill)
        store.set_disk_full_handler(make_no_room)
        with pytest.raises(DiskFull, match="the disk is full"):
            await store.write(fill)
        assert len(calls) > 1
        await store.close()

    asyncio.run(scenario())


def test_no_write_waits_for_room_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = await open_full(tmp_path)
        store.set_disk_full_handler(asyncio.Event().wait)  # type: ignore[arg-type]
        monkeypatch.setattr("holdfast.store.database.DISK_FULL_TIMEOUT", 0.01)
        with pytest.raises(DiskFull):
            await store.write(fill)
        await store.close()

    asyncio.run(scenario())


def test_a_note_of_use_does_not_wait_at_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await open_full(tmp_path)
        calls: list[None] = []

        async def make_no_room() -> None:
            calls.append(None)

        store.set_disk_full_handler(make_no_room)
        with pytest.raises(DiskFull):
            await store.write_without_retry(fill)
        assert calls == []
        await store.close()

    asyncio.run(scenario())
