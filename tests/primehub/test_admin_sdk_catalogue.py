"""`primehub admin images`, `instancetypes`, `volumes` and `secrets`, and what `admin groups` does with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from primehub.utils import GraphQLException, PrimeHubException, ResourceNotFoundException

from .place import FORM, GROUP, Place, User

pytestmark = pytest.mark.release

GIB = 2**30


@pytest.fixture(scope="module")
def boss(hub: Place) -> User:
    return hub.boss


@pytest.fixture(scope="module")
def admin(boss: User) -> Any:
    """The SDK's admin part."""
    return boss.library().admin


@pytest.fixture(scope="module")
def lab(hub: Place) -> Iterator[str]:
    """A group that is gone afterwards."""
    hub.admin("POST", "/groups", name="workshop")
    yield "workshop"
    hub.admin("DELETE", "/groups/workshop")


def names(hub: Place, path: str) -> list[str]:
    return [each["name"] for each in hub.admin("GET", path)["items"]]


def code_of(said: str) -> str:
    return str(json.loads(said)[0]["extensions"]["code"])


# -- images


def test_an_image_from_beginning_to_end(hub: Place, boss: User) -> None:
    hub.admin("POST", "/secrets", name="docker", kind="registry", registry_host="r.io", username="me", value="geheim")
    given = {
        "name": "base",
        "displayName": "Base image",
        "description": "with Python",
        "type": "both",
        "url": "host",
        "urlForGpu": "base:gpu",
        "useImagePullSecret": "image-docker",
        "global": False,
        "groups": {"connect": [{"id": GROUP}]},
    }
    assert boss.json("admin", "images", "create", given=given) == {"id": "base"}
    told = hub.admin("GET", "/image-aliases/base")
    assert (told["url"], told["gpu_url"], told["pull_secret"], told["groups"]) == (
        "host", "base:gpu", "docker", [GROUP],
    )  # fmt: skip
    linked = [{"id": GROUP, "name": GROUP, "displayName": GROUP}]
    shown = {**given, "id": "base", "groups": linked, "isReady": True}
    shown |= {"imageSpec": None, "jobStatus": None, "logEndpoint": None}
    assert boss.json("admin", "images", "get", "base") == shown
    job = boss.json("jobs", "submit", given={**FORM, "image": "base"})
    assert boss.json("jobs", "wait", job["id"])["phase"] == "Succeeded"

    after = boss.json("admin", "images", "update", "base", given={"description": "newer", "useImagePullSecret": None})
    assert after == {**shown, "description": "newer", "useImagePullSecret": None}
    assert "newer" in boss.run("admin", "images", "list")
    assert boss.json("admin", "images", "delete", "base") == {"id": "base"}
    assert "base" not in names(hub, "/image-aliases")
    boss.fails("admin", "images", "get", "base")
    hub.admin("DELETE", "/secrets/docker")


def test_groups_of_an_image(hub: Place, boss: User, admin: Any, lab: str) -> None:
    admin.admin_images.create({"name": "shared", "url": "host", "type": "cpu"})
    boss.run("admin", "images", "add-group", "shared", lab)
    linked = [{"id": lab, "name": lab, "displayName": lab}]
    assert boss.json("admin", "images", "list-groups", "shared") == linked
    assert hub.admin("GET", "/image-aliases/shared")["groups"] == [lab]
    assert [each["id"] for each in boss.json("admin", "groups", "list-images", lab)] == ["shared"]
    boss.run("admin", "images", "remove-group", "shared", lab)
    assert admin.admin_images.list_groups("shared") == []
    assert boss.json("admin", "groups", "connect-image", lab, "shared")["groups"] == linked
    assert boss.json("admin", "groups", "disconnect-image", lab, "shared")["groups"] == []
    admin.admin_images.add_group("shared", "everyone")
    assert hub.admin("GET", "/image-aliases/shared")["everyone"] is True
    assert admin.admin_images.get("shared")["global"] is True
    admin.admin_images.remove_group("shared", "everyone")
    assert hub.admin("GET", "/image-aliases/shared")["everyone"] is False
    made = boss.json("admin", "groups", "create-image", lab, given={"name": "of-lab", "url": "host"})
    assert made == {"id": "of-lab"}
    assert hub.admin("GET", "/image-aliases/of-lab")["groups"] == [lab]
    for name in ("shared", "of-lab"):
        admin.admin_images.delete(name)


def test_what_is_refused_of_images(boss: User, admin: Any) -> None:
    said = boss.fails("admin", "images", "update", "nowhere", given={"description": "x"})
    assert 'Cannot find resource type "images" with [id: nowhere]' in said
    assert "Resource already exist" in boss.fails("admin", "images", "create", given={"name": "host", "url": "x"})
    with pytest.raises(ResourceNotFoundException):
        admin.admin_images.add_group("nowhere", GROUP)
    with pytest.raises(PrimeHubException, match="Group not found"):
        admin.admin_images.add_group("host", "nowhere")
    for payload, why in (
        (
            {"name": "built", "imageSpec": {"baseImage": "b", "packages": {"pip": ["x"]}}},
            "Building images is not supported",
        ),
        ({"name": "empty"}, "needs a url"),
        ({"name": "x", "url": "x", "useImagePullSecret": "image-none"}, "Secret none of kind registry not found"),
    ):
        with pytest.raises(GraphQLException, match=why):
            admin.admin_images.create(payload)


def test_admins_of_a_group_look_after_its_images(hub: Place, boss: User) -> None:
    given = {"name": "ours", "displayName": "Ours", "url": "host", "type": "cpu"}
    assert hub.ann.json("images", "create", given=given) == {"id": "ours"}
    assert hub.admin("GET", "/image-aliases/ours")["owner"] == GROUP
    assert "ours" in [image["name"] for image in hub.bob.json("images", "list")]
    assert "ours" not in [image["id"] for image in boss.json("admin", "images", "list")]  # the place's own alone
    assert "Not authorise" in hub.bob.fails("images", "create", given={**given, "name": "bobs"})
    assert "Not authorise" in hub.bob.fails("images", "delete", "ours")
    assert "Not authorise" in hub.ann.fails("images", "delete", "host")
    assert hub.ann.json("images", "delete", "ours") == {"id": "ours"}
    assert "ours" not in names(hub, "/image-aliases")


# -- instance types


def test_an_instance_type_from_beginning_to_end(hub: Place, boss: User) -> None:
    toleration = {"operator": "Equal", "key": "nvidia.com/gpu", "value": "v100", "effect": "NoSchedule"}
    given = {
        "name": "half-1",
        "displayName": "Half",
        "description": "half a core",
        "cpuLimit": 0.5,
        "memoryLimit": 0.25,
        "gpuLimit": 0,
        "cpuRequest": 0.25,
        "global": False,
        "groups": {"connect": [{"id": GROUP}]},
        "tolerations": {"set": [toleration]},
        "nodeSelector": {"zone": "east"},
    }
    assert boss.json("admin", "instancetypes", "create", given=given) == {"id": "half-1"}
    told = hub.admin("GET", "/instance-types/half-1")
    assert (told["cpu"], told["cpu_request"], told["memory"], told["gpu"]) == (0.5, 0.25, GIB // 4, 0)
    assert (told["groups"], told["tolerations"], told["node_selector"]) == ([GROUP], [toleration], {"zone": "east"})
    linked = [{"id": GROUP, "name": GROUP, "displayName": GROUP, "quotaCpu": None, "quotaGpu": None}]
    found = boss.json("admin", "instancetypes", "get", "half-1")
    assert found == {**given, "id": "half-1", "groups": linked, "tolerations": [toleration], "memoryRequest": None}
    job = boss.json("jobs", "submit", given={**FORM, "instanceType": "half-1"})
    assert job["instanceType"]["cpuLimit"] == 0.5

    changed = {"memoryLimit": 1, "memoryRequest": 0.5, "cpuRequest": None, "tolerations": {"set": []}}
    after = boss.json("admin", "instancetypes", "update", "half-1", given=changed)
    assert after == {
        "id": "half-1", "global": False, "cpuRequest": None, "memoryRequest": 0.5, "groups": linked,
        "nodeSelector": {"zone": "east"},
    }  # fmt: skip
    told = hub.admin("GET", "/instance-types/half-1")
    assert (told["memory"], told["memory_request"], told["cpu_request"], told["tolerations"]) == (
        GIB,
        GIB // 2,
        None,
        [],
    )
    row = next(line for line in boss.run("admin", "instancetypes", "list").splitlines() if "half-1" in line)
    assert "half a core" in row
    assert boss.json("admin", "instancetypes", "delete", "half-1") == {"id": "half-1"}
    assert "half-1" not in names(hub, "/instance-types")
    boss.fails("admin", "instancetypes", "get", "half-1")


def test_groups_of_an_instance_type(hub: Place, boss: User, admin: Any, lab: str) -> None:
    admin.admin_instancetypes.create({"name": "one"})
    told = hub.admin("GET", "/instance-types/one")
    assert (told["cpu"], told["memory"], told["everyone"]) == (1, GIB, False)
    boss.run("admin", "instancetypes", "add-group", "one", lab)
    linked = [{"id": lab, "name": lab, "displayName": lab}]
    assert boss.json("admin", "instancetypes", "list-groups", "one") == linked
    assert [each["id"] for each in boss.json("admin", "groups", "list-instancetypes", lab)] == ["one"]
    boss.run("admin", "instancetypes", "remove-group", "one", lab)
    assert hub.admin("GET", "/instance-types/one")["groups"] == []
    assert [each["id"] for each in boss.json("admin", "groups", "connect-instancetype", lab, "one")["groups"]] == [lab]
    assert boss.json("admin", "groups", "disconnect-instancetype", lab, "one")["groups"] == []
    admin.admin_instancetypes.update("one", {"global": True})
    assert hub.admin("GET", "/instance-types/one")["everyone"] is True
    assert admin.admin_instancetypes.list_groups("one") == []
    made = boss.json("admin", "groups", "create-instancetype", lab, given={"name": "of-lab", "gpuLimit": 1})
    assert made == {"id": "of-lab"}
    told = hub.admin("GET", "/instance-types/of-lab")
    assert (told["groups"], told["everyone"], told["gpu"]) == ([lab], False, 1)
    for name in ("one", "of-lab"):
        admin.admin_instancetypes.delete(name)


def test_what_is_refused_of_instance_types(hub: Place, boss: User, admin: Any) -> None:
    said = boss.fails("admin", "instancetypes", "update", "nowhere", given={"description": "x"})
    assert 'Cannot find resource type "instancetypes" with [id: nowhere]' in said
    assert (
        code_of(boss.fails("--json", "admin", "instancetypes", "create", given={"name": "cpu-1"}))
        == "RESOURCE_CONFLICT"
    )
    with pytest.raises(GraphQLException, match="is not a valid label"):
        admin.admin_instancetypes.create({"name": "labelled", "nodeSelector": {"x": "y"}})
    change = {"description": "half", "groups": {"connect": [{"id": "nowhere"}]}}
    with pytest.raises(GraphQLException, match="Group nowhere not found"):
        admin.admin_instancetypes.update("cpu-1", change)
    assert hub.admin("GET", "/instance-types/cpu-1")["description"] == ""  # all of it or nothing


# -- volumes


def test_volumes_of_every_kind(hub: Place, boss: User, lab: str, tmp_path: Path) -> None:
    hub.admin("POST", "/secrets", name="deploy-key", kind="opaque", value="geheim")
    common = {"displayName": "V", "description": "d", "global": False}
    forms: dict[str, dict[str, Any]] = {
        "hostPath": {"hostPath": str(tmp_path)},
        "pv": {"pvProvisioning": "auto", "volumeSize": 2},
        "git": {"url": "https://git.invalid/code.git", "secret": {"connect": {"id": "gitsync-secret-deploy-key"}}},
        "env": {"variables": {"KEY": "value"}},
    }
    for type, form in forms.items():
        name = f"v-{type.lower()}"
        given = {**common, "name": name, "type": type, **form}
        connect = [{"id": lab, "writable": True}]
        assert boss.json("admin", "volumes", "create", given={**given, "groups": {"connect": connect}}) == {"id": name}
        writable = type in ("hostPath", "pv")
        shown = {**given, "id": name}
        shown["groups"] = [{"id": lab, "name": lab, "displayName": lab, "writable": writable}]
        if type == "git":
            shown["secret"] = {"id": "gitsync-secret-deploy-key"}
        if writable:
            shown |= {"enableUploadServer": False, "uploadServerLink": None}
        assert boss.json("admin", "volumes", "get", name) == shown
        told = hub.admin("GET", f"/datasets/{name}")
        assert told["writable_groups"] == ([lab] if writable else [])
    assert hub.admin("GET", "/datasets/v-git")["data"]["secret"] == "deploy-key"
    assert hub.admin("GET", "/datasets/v-pv")["data"] == {"size": "2"}
    assert hub.admin("GET", "/datasets/v-env/variables")["variables"] == {"KEY": "value"}
    listed = boss.json("admin", "volumes", "list")
    assert [each["type"] for each in listed if each["id"].startswith("v-")] == ["env", "git", "hostPath", "pv"]
    for type in forms:
        assert boss.json("admin", "volumes", "delete", f"v-{type.lower()}") == {"id": f"v-{type.lower()}"}
    assert not [name for name in names(hub, "/datasets") if name.startswith("v-")]
    hub.admin("DELETE", "/secrets/deploy-key")


def test_changes_of_volumes(hub: Place, boss: User, admin: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    admin.admin_volumes.create({"name": "vol", "type": "hostPath", "hostPath": str(tmp_path / "a")})
    assert admin.admin_volumes.update("vol", {"hostPath": str(tmp_path / "b"), "description": "moved"}) == {"id": "vol"}
    told = hub.admin("GET", "/datasets/vol")
    assert (told["path"], told["description"], told["everyone"]) == (str(tmp_path / "b"), "moved", False)
    assert boss.json("admin", "volumes", "update", "vol", given={"global": True}) == {"id": "vol"}
    assert hub.admin("GET", "/datasets/vol")["everyone"] is True
    admin.admin_volumes.delete("vol")
    admin.admin_volumes.create({"name": "vars", "type": "env", "variables": {"A": "1"}})
    admin.admin_volumes.update("vars", {"variables": {"B": "2"}})
    assert admin.admin_volumes.get("vars")["variables"] == {"B": "2"}
    admin.admin_volumes.delete("vars")


def test_groups_of_a_volume(hub: Place, boss: User, admin: Any, lab: str) -> None:
    admin.admin_volumes.create({"name": "numbers", "type": "pv", "pvProvisioning": "auto"})
    boss.run("admin", "volumes", "add-group", "numbers", lab)
    shown = {"id": lab, "name": lab, "displayName": lab, "writable": False}
    assert boss.json("admin", "volumes", "list-groups", "numbers") == [shown]
    boss.run("admin", "volumes", "add-group", "numbers", lab, "--writable")
    assert boss.json("admin", "volumes", "list-groups", "numbers") == [{**shown, "writable": True}]
    (listed,) = boss.json("admin", "groups", "list-volumes", lab)
    assert (listed["id"], listed["type"], listed["writable"]) == ("numbers", "pv", True)
    told = hub.admin("GET", "/datasets/numbers")
    assert (told["groups"], told["writable_groups"], told["read_only"]) == ([lab], [lab], True)
    boss.run("admin", "volumes", "remove-group", "numbers", lab)
    assert hub.admin("GET", "/datasets/numbers")["groups"] == []
    nothing = {"id": "numbers", "uploadServerSecret": None}
    assert boss.json("admin", "groups", "connect-volume", lab, "numbers") == nothing
    assert hub.admin("GET", "/datasets/numbers")["groups"] == [lab]
    assert boss.json("admin", "groups", "disconnect-volume", lab, "numbers") == nothing
    assert hub.admin("GET", "/datasets/numbers")["groups"] == []
    admin.admin_volumes.add_group("numbers", "everyone", writable=True)
    told = hub.admin("GET", "/datasets/numbers")
    assert (told["everyone"], told["read_only"]) == (True, False)
    admin.admin_volumes.remove_group("numbers", "everyone")
    told = hub.admin("GET", "/datasets/numbers")
    assert (told["everyone"], told["read_only"]) == (False, True)
    form = {"name": "of-lab", "type": "pv", "pvProvisioning": "auto"}
    assert boss.json("admin", "groups", "create-volume", lab, "true", given=form) == {"id": "of-lab"}
    assert hub.admin("GET", "/datasets/of-lab")["writable_groups"] == [lab]
    for name in ("numbers", "of-lab"):
        admin.admin_volumes.delete(name)


def test_jobs_write_where_their_group_may(hub: Place, boss: User, admin: Any) -> None:
    if hub.admin("GET", "/capacity")["engine"]["isolation"] == "none":
        pytest.skip("tasks find volumes only in a sandbox")
    for name, writable in (("notes", True), ("books", False)):
        connect = [{"id": GROUP, "writable": writable}]
        form = {"name": name, "type": "pv", "pvProvisioning": "auto", "volumeSize": 1, "groups": {"connect": connect}}
        admin.admin_volumes.create(form)
    admin.admin_volumes.create({"name": "keys", "type": "env", "variables": {"ONE": "1"}, "global": True})
    command = "echo $KEYS_ONE; echo mine > /datasets/notes/x && echo kept; touch datasets/books/x || echo read-only"
    job = hub.submit(boss, command=command)
    assert boss.json("jobs", "wait", job)["phase"] == "Succeeded"
    printed = boss.run("jobs", "logs", job).splitlines()
    assert [line for line in printed if line in ("1", "kept", "read-only")] == ["1", "kept", "read-only"]
    for name in ("notes", "books", "keys"):
        admin.admin_volumes.delete(name)


def test_what_is_refused_of_volumes(boss: User, admin: Any, tmp_path: Path) -> None:
    admin.admin_volumes.create({"name": "there", "type": "hostPath", "hostPath": str(tmp_path)})
    assert "no upload server" in boss.fails("admin", "volumes", "regen-upload-secret", "there")
    said = boss.fails("--json", "admin", "volumes", "get", "nowhere")
    assert code_of(said) == "RESOURCE_NOT_FOUND"
    assert 'datasets.primehub.io \\"nowhere\\" not found' in said
    folder = {"type": "hostPath", "hostPath": str(tmp_path)}
    for payload, why in (
        ({"name": "there", **folder}, "Resource already exist"),
        ({"name": "x", **folder, "enableUploadServer": True}, "no upload server"),
        ({"name": "x", **folder, "mountRoot": "/data"}, "Volumes are mounted below /datasets"),
        ({"name": "x", "type": "pv", "pvProvisioning": "manual"}, "pvProvisioning: auto"),
        ({"name": "x", "type": "hostPath", "hostPath": str(tmp_path / "none")}, "none"),
        ({"name": "x", "type": "nfs", "nfsServer": "nas", "nfsPath": "/none"}, "/net/nas/none"),
        (
            {"name": "x", "type": "git", "url": "u", "secret": {"connect": {"id": "image-x"}}},
            "Git secret image-x not found",
        ),
        ({"name": "x", **folder, "groups": {"connect": [{"id": "no", "writable": True}]}}, "Group no not found"),
    ):
        with pytest.raises(GraphQLException, match=why):
            admin.admin_volumes.create(payload)
    admin.admin_volumes.delete("there")


# -- secrets


def test_secrets_keep_what_they_keep(hub: Place, boss: User, admin: Any) -> None:
    opaque = {"name": "git-key", "type": "opaque", "secret": "geheim-1", "displayName": "Git"}
    assert boss.json("admin", "secrets", "create", given=opaque) == {"id": "gitsync-secret-git-key"}
    registry = {"name": "pull", "type": "kubernetes", "registryHost": "r.io", "username": "me", "password": "geheim-2"}
    assert admin.admin_secrets.create(registry) == {"id": "image-pull"}
    shown = boss.json("admin", "secrets", "get", "gitsync-secret-git-key")
    assert shown == {"id": "gitsync-secret-git-key", "name": "git-key", "displayName": "Git", "type": "opaque"}
    assert boss.json("admin", "secrets", "get", "image-pull") == {
        "id": "image-pull", "name": "pull", "displayName": "pull", "type": "kubernetes", "registryHost": "r.io",
        "username": "me", "password": None,
    }  # fmt: skip
    assert hub.ann.json("secrets", "list") == [{"id": "image-pull", "name": "pull", "type": "kubernetes"}]
    assert hub.ann.json("secrets", "get", "image-pull")["name"] == "pull"

    assert boss.json("admin", "secrets", "update", "image-pull", given={"username": "you"}) == {"id": "image-pull"}
    admin.admin_secrets.update("gitsync-secret-git-key", {"secret": "geheim-3"})
    told = hub.admin("GET", "/secrets/pull")
    assert (told["kind"], told["registry_host"], told["username"]) == ("registry", "r.io", "you")
    listed = boss.run("admin", "secrets", "list")
    assert "gitsync-secret-git-key" in listed
    assert "geheim" not in listed

    assert "Resource already exist" in boss.fails("admin", "secrets", "create", given=opaque)
    assert "Secret image-git-key not found" in boss.fails("admin", "secrets", "get", "image-git-key")
    boss.fails("admin", "secrets", "delete", "image-pull")  # it asks whether one is sure
    for id in ("image-pull", "gitsync-secret-git-key"):
        assert boss.json("admin", "secrets", "delete", id, "--yes-i-really-mean-it") == {"id": id}
    assert names(hub, "/secrets") == []


def test_a_secret_in_use_stays(hub: Place, admin: Any) -> None:
    admin.admin_secrets.create(
        {"name": "used", "type": "kubernetes", "registryHost": "r", "username": "u", "password": "p"}
    )
    admin.admin_images.create({"name": "pulled", "url": "host", "useImagePullSecret": "image-used"})
    with pytest.raises(GraphQLException, match="in use by"):
        admin.admin_secrets.delete("image-used")
    admin.admin_images.delete("pulled")
    assert admin.admin_secrets.delete("image-used") == {"id": "image-used"}


# -- reports, and who may


def test_reports(hub: Place, boss: User, tmp_path: Path) -> None:
    hub.submit(boss)
    newest = boss.json("admin", "reports", "list")[0]
    assert set(newest) == {"id", "summaryUrl", "detailedUrl"}
    boss.run("admin", "reports", "download", newest["summaryUrl"], "--dest", str(tmp_path / "summary.csv"))
    assert GROUP in (tmp_path / "summary.csv").read_text()


def test_those_who_are_no_admins_are_refused(hub: Place, lab: str, tmp_path: Path) -> None:
    ann = hub.ann.library().admin
    for refused in (
        lambda: list(ann.admin_instancetypes.list()),
        lambda: ann.admin_instancetypes.get("cpu-1"),
        lambda: ann.admin_instancetypes.create({"name": "mine"}),
        lambda: ann.admin_instancetypes.delete("cpu-1"),
        lambda: list(ann.admin_volumes.list()),
        lambda: ann.admin_volumes.get("any"),
        lambda: ann.admin_volumes.create({"name": "mine", "type": "hostPath", "hostPath": str(tmp_path)}),
        lambda: ann.admin_volumes.regenerate_upload_server_secret("any"),
        lambda: list(ann.admin_secrets.list()),
        lambda: ann.admin_secrets.create({"name": "mine", "type": "opaque", "secret": "x"}),
        lambda: ann.admin_images.create({"name": "mine", "url": "x"}),
        lambda: ann.admin_images.update("host", {"url": "x"}),
    ):
        with pytest.raises(GraphQLException, match=r"user not auth|Not authorise"):
            refused()
    assert hub.admin("GET", "/image-aliases/host")["url"] == "host"
