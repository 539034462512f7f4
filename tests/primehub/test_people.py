"""me, config, groups, images, instancetypes, volumes, secrets, info, version, notebooks: what members use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from .place import GROUP, Place, User

pytestmark = pytest.mark.release


def test_me(ann: User) -> None:
    assert ann.json("me") == {
        "id": "ann",
        "username": "ann",
        "firstName": "",
        "lastName": "",
        "email": "ann@example.org",
        "isAdmin": False,
    }
    assert ann.library().me.me()["username"] == "ann"
    assert "username:       ann" in ann.run("me")


def test_config_is_written(ann: User) -> None:
    config = json.loads((ann.home / ".primehub" / "config.json").read_text())
    assert config["endpoint"] == ann.endpoint
    assert config["api-token"] == ann.token
    assert config["group"] == {"id": GROUP, "name": GROUP, "displayName": GROUP}
    said = ann.fails("config", "set-group", "others")
    assert "No group information for [others], please check the configuration again." in said


def test_options_in_place_of_a_config_file(ann: User, tmp_path: Path) -> None:
    bare = replace(ann, home=tmp_path)
    place, group = ("--endpoint", ann.endpoint), ("--group", GROUP)
    assert bare.json(*place, "--token", ann.token, *group, "me")["username"] == "ann"
    assert bare.run(*place, "--token", ann.token, *group, "images", "list") == ann.run("images", "list")
    assert bare.json(*place, "--token", ann.token, *group, "jobs", "list", "--page", "999") == []
    assert bare.json("--config", str(ann.home / ".primehub" / "config.json"), "me")["username"] == "ann"
    assert "Invalid API Token" in bare.fails(*place, "--token", "wrong", *group, "me")


def test_groups(hub: Place, ann: User) -> None:
    listed = {group["name"]: group for group in ann.json("groups", "list")}
    assert GROUP in listed
    assert "others" not in listed
    assert ann.json("groups", "get", GROUP) == listed[GROUP]
    assert listed[GROUP]["projectQuotaCpu"] is None
    assert 'Cannot find resource type "group" with [name: others]' in ann.fails("groups", "get", "others")
    users = {user["username"]: user["group_admin"] for user in ann.json("groups", "list-users", GROUP)}
    assert users == {"ann": True, "bob": False, "boss": False}


def test_a_group_admin_takes_in_and_lets_go(hub: Place, ann: User) -> None:
    ann.run("groups", "add-user", GROUP, "zoe", "--is_admin")
    assert hub.admin("GET", f"/groups/{GROUP}")["members"]["zoe"] is True
    users = {user["username"]: user["group_admin"] for user in ann.library().groups.list_users(GROUP)}
    assert users["zoe"]
    ann.run("groups", "remove-user", GROUP, "zoe")
    assert "zoe" not in hub.admin("GET", f"/groups/{GROUP}")["members"]
    assert hub.admin("GET", f"/groups/{GROUP}")["members"]["ann"] is True
    assert "user not auth" in hub.bob.fails("groups", "add-user", GROUP, "zoe")
    assert "User nobody not found" in ann.fails("groups", "add-user", GROUP, "nobody", "--is_admin")


def test_mlflow_of_a_group(hub: Place, ann: User) -> None:
    given = {"tracking_uri": "http://mlflow:5000", "tracking_envs": [{"name": "A", "value": "1"}]}
    ann.run("groups", "set-mlflow", GROUP, given=json.dumps(given))
    assert ann.rest(f"/groups/{GROUP}/mlflow")["tracking_uri"] == "http://mlflow:5000"
    assert "http://mlflow:5000" in ann.run("groups", "get-mlflow", GROUP)
    assert "user not auth" in hub.zoe.fails("groups", "get-mlflow", GROUP)
    ann.run("groups", "unset-mlflow", GROUP)
    assert ann.rest(f"/groups/{GROUP}/mlflow") is None


def test_instance_types(hub: Place, ann: User) -> None:
    listed = ann.json("instancetypes", "list")
    assert [each["name"] for each in listed] == ["cpu-1", "cpu-2", "gpu-1", "gpu-2"]
    found = ann.json("instancetypes", "get", "cpu-2")
    assert (found["cpuLimit"], found["memoryLimit"], found["gpuLimit"], found["global"]) == (2, 10, 0, True)
    assert found["tolerations"] == []
    ann.fails("instancetypes", "get", "cpu-99")


def test_images_of_a_group(hub: Place, ann: User) -> None:
    assert "host" in [each["name"] for each in ann.json("images", "list")]
    assert ann.json("images", "get", "host")["spec"]["url"] == "host"


def test_volumes(hub: Place, ann: User, tmp_path: Path) -> None:
    hub.admin("POST", "/datasets", name="numbers", path=str(tmp_path), everyone=True, description="from one to ten")
    (found,) = ann.json("volumes", "list")
    assert (found["name"], found["type"], found["description"]) == ("numbers", "hostPath", "from one to ten")
    assert ann.json("volumes", "get", "numbers") == found
    ann.fails("volumes", "get", "letters")
    hub.admin("DELETE", "/datasets/numbers")


def test_secrets(ann: User) -> None:
    assert ann.json("secrets", "list") == []
    assert ann.library().secrets.list() == []


def test_info_and_version(ann: User) -> None:
    shown = ann.run("info")
    assert shown.startswith(f"Endpoint: {ann.endpoint}\nUser:\n  Id: ann\n")
    assert f"Current Group:\n  Id: {GROUP}\n" in shown
    assert "InstanceTypes:\n  cpu-1\n  cpu-2\n" in shown
    assert ann.run("version").strip() == "0.4.2"


def test_there_are_no_notebooks(ann: User) -> None:
    assert "Notebooks are not supported" in ann.run("notebooks", "logs")


def test_what_there_is_none_of_is_empty(ann: User) -> None:
    for command in ("apps", "apptemplates", "deployments", "models"):
        assert ann.json(command, "list") == [], command
    assert 'Cannot find resource type "deployments" with [id: nope]' in ann.fails("deployments", "get", "nope")
