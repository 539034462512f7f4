"""Passwords at rest."""

from __future__ import annotations

import pytest

from holdfast.services.passwords import Passwords

pytestmark = pytest.mark.anyio


async def test_users_passwords_cost_those_who_guess_what_they_should() -> None:
    """Other tests take a cheaper kind; this is the one that servers use."""
    hashed = await Passwords().hash("correct horse battery")
    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await Passwords(memory_kib=64).verify(hashed, "correct horse battery")
