"""`primehub admin users` and `primehub admin groups` against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from primehub.utils import GraphQLException, PrimeHubException

from .place import GROUP, Place, User

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def boss(hub: Place) -> User:
    return hub.boss


@pytest.fixture(scope="module")
def admin(boss: User) -> Any:
    """The SDK's admin part."""
    return boss.library().admin


@pytest.fixture
def lab(hub: Place) -> Iterator[str]:
    """A group that is gone afterwards."""
    hub.admin("POST", "/groups", name="lab")
    yield "lab"
    hub.admin("DELETE", "/groups/lab")


def names(hub: Place, path: str) -> list[str]:
    """As our API lists them."""
    return [each["name"] for each in hub.admin("GET", path)["items"]]


def can_log_in(user: User, name: str, password: str) -> bool:
    body = {"user": name, "password": password}
    return httpx.post(f"{user.server.url}/api/v1/login", json=body, timeout=30).is_success


# -- users


def test_a_user_from_the_first_day_to_the_last(hub: Place, boss: User, lab: str) -> None:
    given = {
        "username": "new.one",
        "email": "new@example.org",
        "firstName": "New",
        "lastName": "One",
        "enabled": True,
        "isAdmin": False,
        "volumeCapacity": 5,
        "groups": {"connect": [{"id": lab}]},
    }
    assert boss.json("admin", "users", "create", given=given) == {"id": "new.one", "username": "new.one"}
    told = hub.admin("GET", "/users/new.one")
    assert (told["email"], told["admin"], told["disabled"]) == ("new@example.org", False, False)
    assert list(told["groups"]) == [lab]
    assert not can_log_in(boss, "new.one", "new.one")

    found = boss.json("admin", "users", "get", "new.one")
    groups = [{"id": lab, "name": lab, "displayName": lab, "quotaCpu": None, "quotaGpu": None}]
    assert found == {**given, "id": "new.one", "groups": groups}

    assert boss.json("admin", "users", "reset-password", "new.one", "a-good-Pass-1") == {"id": "new.one"}
    assert can_log_in(boss, "new.one", "a-good-Pass-1")
    changed = {"firstName": "Old", "email": "old@example.org", "enabled": False}
    assert boss.json("admin", "users", "update", "new.one", given=changed) == {"id": "new.one", "username": "new.one"}
    assert not can_log_in(boss, "new.one", "a-good-Pass-1")
    found = boss.json("admin", "users", "get", "new.one")
    assert (found["firstName"], found["lastName"], found["volumeCapacity"]) == ("Old", "One", 5)
    assert (found["email"], found["enabled"]) == ("old@example.org", False)

    assert boss.json("admin", "users", "delete", "new.one") == {"id": "new.one", "username": "new.one"}
    assert "new.one" not in names(hub, "/users")
    boss.fails("admin", "users", "get", "new.one")
    assert "USER_NOT_EXIST" in boss.fails("--json", "admin", "users", "delete", "new.one")


def test_groups_of_a_user(hub: Place, boss: User, admin: Any, lab: str) -> None:
    admin.admin_users.create({"username": "eve"})
    before = [group["id"] for group in admin.admin_users.list_groups("eve")]
    boss.run("admin", "users", "add-group", "eve", lab)
    assert [group["id"] for group in boss.json("admin", "users", "list-groups", "eve")] == [*before, lab]
    assert "eve" in hub.admin("GET", f"/groups/{lab}")["members"]
    boss.run("admin", "users", "remove-group", "eve", lab)
    assert "eve" not in hub.admin("GET", f"/groups/{lab}")["members"]
    admin.admin_users.remove_group("eve", lab)  # once more
    with pytest.raises(PrimeHubException, match="Group not found"):
        admin.admin_users.add_group("eve", "nowhere")
    admin.admin_users.delete("eve")


def test_all_users_are_listed_page_by_page(hub: Place, boss: User, admin: Any) -> None:
    made = [f"page-{number:02}" for number in range(12)]
    for name in made:
        admin.admin_users.create({"username": name})
    known = names(hub, "/users")
    assert [user["id"] for user in admin.admin_users.list()] == known
    first, second = (list(admin.admin_users.list(page=page)) for page in (1, 2))
    assert [user["id"] for user in (*first, *second)] == known[:20]
    assert len(first) == 10
    assert list(admin.admin_users.list(page=99)) == []
    listed = boss.run("admin", "users", "list", "--page", "1")
    assert listed.splitlines()[0].split() == ["id", "username", "email", "firstName", "lastName", "enabled", "isAdmin"]
    for name in made:
        admin.admin_users.delete(name)


def test_what_is_refused_of_users(hub: Place, boss: User, admin: Any) -> None:
    assert "USER_CONFLICT_USERNAME" in boss.fails("--json", "admin", "users", "create", given={"username": "ann"})
    for payload, said in (
        ({"username": "me"}, "reserved"),
        ({"username": "x", "groups": {"connect": [{"id": "nowhere"}]}}, "Group nowhere not found"),
    ):
        with pytest.raises(GraphQLException, match=said):
            admin.admin_users.create(payload)
    with pytest.raises(GraphQLException, match="password"):
        admin.admin_users.reset_password("ann", "x")
    with pytest.raises(GraphQLException, match="Temporary passwords are not supported"):
        admin.admin_users.reset_password("ann", "a-good-Pass-1", temporary=True)
    assert "x" not in names(hub, "/users")


# -- groups


def test_a_group_from_beginning_to_end(hub: Place, boss: User) -> None:
    given = {
        "name": "Fresh_1",
        "displayName": "Fresh",
        "quotaCpu": 2.5,
        "quotaMemory": 4,
        "projectQuotaCpu": 10,
        "projectQuotaGpu": 1,
        "projectQuotaMemory": 8.5,
        "enabledSharedVolume": True,
        "sharedVolumeCapacity": 7,
        "launchGroupOnly": False,
        "enabledDeployment": True,
        "maxDeploy": 3,
        "users": {"connect": [{"id": "ann"}, {"id": "bob"}]},
    }
    made = boss.json("admin", "groups", "create", given=given)
    assert made == {
        "id": "Fresh_1",
        "name": "Fresh_1",
        "displayName": "Fresh",
        "quotaCpu": 2.5,
        "quotaGpu": 0,
        "quotaMemory": 4,
        "projectQuotaCpu": 10,
        "projectQuotaGpu": 1,
        "projectQuotaMemory": 8.5,
        "sharedVolumeCapacity": 7,
    }
    told = hub.admin("GET", "/groups/Fresh_1")
    assert told["user_quota"] == {"cpu": 2.5, "gpu": 0, "memory": 4 * 2**30}
    assert told["quota"] == {"cpu": 10, "gpu": 1, "memory": 17 * 2**29}
    assert (told["display_name"], told["shared_volume"], told["launch_only"]) == ("Fresh", True, False)
    assert told["members"] == {"ann": False, "bob": False}

    found = boss.json("admin", "groups", "get", "Fresh_1")
    assert {key: found[key] for key in made} == made
    assert (found["enabledDeployment"], found["maxDeploy"], found["launchGroupOnly"]) == (True, 3, False)
    assert found["users"] == [{"id": "ann", "username": "ann"}, {"id": "bob", "username": "bob"}]
    assert (found["admins"], found["volumes"]) == ([], [])
    assert found["resourceStatus"] == {"cpuUsage": 0, "memUsage": 0, "gpuUsage": 0}

    changed = {"displayName": "Fresher", "quotaCpu": 1, "projectQuotaMemory": None}
    after = boss.json("admin", "groups", "update", "Fresh_1", given={**changed, "jobDefaultActiveDeadlineSeconds": 60})
    assert {key: after[key] for key in changed} == changed
    assert after["quotaMemory"] == 4
    told = hub.admin("GET", "/groups/Fresh_1")
    assert (told["quota"]["memory"], told["time_limit"], told["shared_volume"]) == (None, 60, True)
    assert told["members"] == {"ann": False, "bob": False}

    row = next(line for line in boss.run("admin", "groups", "list").splitlines() if "Fresh_1" in line)
    assert "Fresher" in row
    assert boss.json("admin", "groups", "delete", "Fresh_1") == {"id": "Fresh_1"}
    assert "Fresh_1" not in names(hub, "/groups")
    boss.fails("admin", "groups", "get", "Fresh_1")


def test_defaults_of_a_group_are_those_of_the_sdk(hub: Place, admin: Any) -> None:
    admin.admin_groups.create({"name": "plain"})
    told = hub.admin("GET", "/groups/plain")
    assert told["user_quota"] == {"cpu": 0.5, "gpu": 0, "memory": None}
    assert told["quota"] == {"cpu": None, "gpu": None, "memory": None}
    assert (told["shared_volume"], told["members"]) == (False, {})
    admin.admin_groups.delete("plain")


def test_users_of_a_group(hub: Place, boss: User, admin: Any, lab: str) -> None:
    def members() -> dict[str, bool]:
        return dict(hub.admin("GET", f"/groups/{lab}")["members"])

    assert boss.json("admin", "groups", "connect-user", lab, "ann", "--enable_group_admin") == {"id": lab}
    assert boss.json("admin", "groups", "connect-user", lab, "bob") == {"id": lab}
    assert members() == {"ann": True, "bob": False}
    assert boss.json("admin", "groups", "list-users", lab) == [
        {"id": "ann", "username": "ann", "group_admin": True},
        {"id": "bob", "username": "bob", "group_admin": False},
    ]
    assert admin.admin_groups.update(lab, {"admins": ["ann", "bob"]})["admins"] == [
        {"id": "ann", "username": "ann"},
        {"id": "bob", "username": "bob"},
    ]
    boss.run("admin", "groups", "disconnect-user", lab, "ann", "--disable_group_admin")
    assert members() == {"ann": False, "bob": True}
    boss.run("admin", "groups", "disconnect-user", lab, "bob")
    assert members() == {"ann": False}
    with pytest.raises(GraphQLException, match="User nobody not found"):
        admin.admin_groups.update(lab, {"displayName": "half", "users": {"connect": [{"id": "nobody"}]}})
    assert hub.admin("GET", f"/groups/{lab}")["display_name"] == ""  # all of it or nothing


def test_all_groups_are_listed_page_by_page(hub: Place, admin: Any) -> None:
    made = [f"page-{number:02}" for number in range(11)]
    for name in made:
        admin.admin_groups.create({"name": name})
    known = names(hub, "/groups")
    assert [group["id"] for group in admin.admin_groups.list()] == known
    assert [group["id"] for group in admin.admin_groups.list(page=2)] == known[10:20]
    for name in made:
        admin.admin_groups.delete(name)


def test_what_is_refused_of_groups(hub: Place, boss: User, admin: Any) -> None:
    assert "GROUP_CONFLICT_NAME" in boss.fails("--json", "admin", "groups", "create", given={"name": GROUP})
    for change, said in (
        ({"quotaCpu": 4, "projectQuotaCpu": None, "quotaMemory": 2e9}, "quotaMemory must be between"),
        ({"enabledSharedVolume": True, "sharedVolumeCapacity": 0}, "volume_capacity"),
    ):
        with pytest.raises(GraphQLException, match=said):
            admin.admin_groups.update("others", change)
    with pytest.raises(GraphQLException, match="reserved"):
        admin.admin_groups.create({"name": "everyone"})
    with pytest.raises(GraphQLException, match="contains all users"):
        admin.admin_groups.delete("everyone")


def test_a_group_with_unfinished_jobs_stays(hub: Place, boss: User) -> None:
    hub.admin("POST", "/groups", name="busy")
    job = boss.server.submit("name: long\ngroup: busy\ncommand: sleep 1000\nresources: {cpu: 0.1, memory: 64Mi}\n")
    said = json.loads(boss.fails("--json", "admin", "groups", "delete", "busy"))
    assert said[0]["extensions"]["code"] == "RESOURCE_CONFLICT"
    assert "busy has unfinished jobs" in said[0]["message"]
    hub.admin("POST", f"/jobs/{job['id']}/stop")
    boss.server.wait(job["id"])
    assert boss.json("admin", "groups", "delete", "busy") == {"id": "busy"}


# -- who may


def test_those_who_are_no_admins_are_refused(hub: Place) -> None:
    ann = hub.ann.library().admin
    for refused in (
        lambda: list(ann.admin_users.list()),
        lambda: list(ann.admin_groups.list()),
        lambda: ann.admin_users.create({"username": "x"}),
        lambda: ann.admin_users.update("ann", {"isAdmin": True}),
        lambda: ann.admin_users.delete("bob"),
        lambda: ann.admin_users.reset_password("bob", "a-good-Pass-1"),
        lambda: ann.admin_groups.create({"name": "mine"}),
        lambda: ann.admin_groups.delete(GROUP),
        lambda: ann.admin_groups.update("others", {"displayName": "mine"}),
    ):
        with pytest.raises(GraphQLException, match="user not auth"):
            refused()
    with pytest.raises(GraphQLException, match="NOT_AUTH"):
        ann.admin_groups.update(GROUP, {"projectQuotaCpu": 1000})
    assert "user not auth" in hub.ann.fails("admin", "users", "list")
