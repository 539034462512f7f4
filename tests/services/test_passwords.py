"""Passwords at rest."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.services.people.passwords import Passwords

pytestmark = pytest.mark.anyio


async def test_users_passwords_cost_those_who_guess_what_they_should() -> None:
    """Other tests take a cheaper kind; this is the one that servers use."""
    hashed = await Passwords().hash_password("correct horse battery", user="alice")
    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await Passwords(memory_kib=64).verify_password(hashed, "correct horse battery", user="alice")


async def test_new_passwords_of_one_user_do_not_hold_up_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    passwords, together = Passwords(), threading.Barrier(2, timeout=30)

    class Hasher:
        def hash(self, password: str) -> str:
            together.wait()  # until both are at it
            return password

    monkeypatch.setattr(passwords, "_hasher", Hasher())
    made = await asyncio.gather(
        passwords.hash_password("one", user="alice"), passwords.hash_password("two", user="bob")
    )
    assert made == ["one", "two"]
