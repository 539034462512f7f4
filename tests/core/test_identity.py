from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import identity

ROLES = st.lists(st.text("aAbB12_.~", min_size=1, max_size=4), unique=True, max_size=12)


def test_names_as_openpai_makes_them() -> None:
    assert identity.build_framework_name("alice", "mnist_5f3a21") == "alice~mnist_5f3a21"
    assert identity.build_debug_id("alice", "mnist") == "cb67373d13bb9717539657205143c372"
    assert identity.normalize_role("ps_Server.2") == "psserver2"


def test_plain_names_in_everyday_jobs_are_just_that() -> None:
    assert identity.build_unique_role_names(["worker", "ps_a"]) == {"worker": "worker", "ps_a": "psa"}


def test_roles_that_come_out_the_same_are_told_apart() -> None:
    assert identity.build_unique_role_names(["ps_a", "psA", "psa2", "_"]) == {
        "ps_a": "psa",
        "psA": "psa3",
        "psa2": "psa2",
        "_": "role2",
    }
    assert identity.build_unique_role_names(["ps_a", "psa"]) == {"ps_a": "psa2", "psa": "psa"}


@given(ROLES)
def test_plain_names_are_never_shared(roles: list[str]) -> None:
    plain = identity.build_unique_role_names(roles)
    assert list(plain) == roles
    assert len(set(plain.values())) == len(roles)
    assert all(name == role or name not in roles for role, name in plain.items())
    assert all(name and name == identity.normalize_role(name) for name in plain.values())


def test_ids_are_uuids_that_stay_and_differ() -> None:
    ids = [
        identity.build_framework_uid("j1"),
        identity.build_attempt_uid("j1", 0),
        identity.build_attempt_uid("j1", 1),
        identity.build_role_uid("j1", 0, "a"),
        identity.build_task_uid("j1", 0, "a", 1),
        identity.build_task_uid("j1", 0, "a1", 1),
        identity.build_container_uid("j1.0.a-1.0"),
    ]
    assert len(set(ids)) == len(ids)
    assert all(str(UUID(each)) == each for each in ids)
    assert identity.build_framework_uid("j1") == "0de4d9a5-cc5b-5c3c-a907-de5c88f8e71f"
