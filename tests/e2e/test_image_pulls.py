"""A job runs on the image that its file names: pulled from a real registry, by a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.archives import entry, shell_entries, tar
from tests.engines.registries import PASSWORD, USERNAME, RealRegistry, build_image, start_registry

from .server import Server

BASE = tar(shell_entries())
SMALL = "resources: {cpu: 0.2, memory: 64Mi}"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with start_registry(tmp_path_factory.mktemp("registry") / "private", password=True) as started:
        image = build_image([BASE, tar([entry("etc/issue", b"pulled\n")])], Env=["COLOUR=blue"])
        started.push_image("team/train:1", image)
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, registry: RealRegistry) -> Iterator[Server]:
    settings = {"HOLDFAST_IMAGES_UNKNOWN": "pull", "HOLDFAST_IMAGES_INSECURE_REGISTRIES": registry.host}
    running = Server(tmp_path_factory.mktemp("pulls") / "home", **settings)
    running.start()
    try:
        if running.get("/status").json()["engine"]["isolation"] == "none":
            pytest.skip("jobs are not isolated here, so only the image `host` can run")
        add_secret_and_alias(running, registry)
        yield running
    finally:
        running.stop()


def add_secret_and_alias(server: Server, registry: RealRegistry) -> None:
    secret = {"name": "team", "kind": "registry", "registry_host": registry.host, "username": USERNAME}
    alias = {"name": "train", "url": f"{registry.host}/team/train:1", "pull_secret": "team", "everyone": True}
    with server.client() as client:
        client.post("/secrets", json={**secret, "value": PASSWORD}).raise_for_status()
        client.post("/image-aliases", json=alias).raise_for_status()


def run_job(server: Server, image: str) -> tuple[dict[str, object], str]:
    command = "cat /etc/issue; echo $COLOUR"
    job = server.submit(f"name: pull\nimage: {image}\n{SMALL}\ncommand: {command}\n")
    end = server.wait(job["id"])
    reply = server.get(f"/jobs/{job['id']}/log")
    return end, reply.text if reply.is_success else ""


def list_image_events(server: Server, job_id: object) -> list[str]:
    found = server.get(f"/jobs/{job_id}/events").json()["items"]
    return [event["message"] for event in found if event["kind"] == "image"]


def test_a_private_image_is_pulled_with_the_secret_of_its_alias(server: Server, registry: RealRegistry) -> None:
    end, log = run_job(server, "train")
    assert (end["state"], log) == ("Succeeded", "pulled\nblue\n"), end
    events = list_image_events(server, end["id"])
    assert any(text.startswith(f"Pulled image {registry.host}/team/train:1 (") for text in events), events


def test_who_has_no_access_does_not_get_the_stored_image(server: Server, registry: RealRegistry) -> None:
    run_job(server, "train")
    end, log = run_job(server, f"{registry.host}/team/train:1")
    assert (end["state"], log) == ("Failed", "")
    assert end["started_at"] is None
    assert "denies access" in str(end["message"])


def test_a_tag_that_does_not_exist_fails_before_the_job_is_placed(server: Server, registry: RealRegistry) -> None:
    with server.client() as client:
        alias = {"name": "typo", "url": f"{registry.host}/team/train:2", "pull_secret": "team", "everyone": True}
        client.post("/image-aliases", json=alias).raise_for_status()
    end, _ = run_job(server, "typo")
    assert end["state"] == "Failed"
    assert f"Image {registry.host}/team/train:2 was not found in the registry" in str(end["message"])


def test_an_unreachable_registry_is_waited_for_and_the_job_says_so(server: Server) -> None:
    job = server.submit(f"name: pull\nimage: localhost:1/team/train:1\n{SMALL}\ncommand: 'true'\n")
    why = ""
    while "The next try is at" not in why:
        why = server.get(f"/jobs/{job['id']}/why").text
    assert "Cannot reach the registry localhost:1" in why
    with server.client() as client:
        client.post(f"/jobs/{job['id']}/stop").raise_for_status()
    assert server.wait(job["id"])["state"] == "Cancelled"


def test_an_admin_pulls_an_image_in_advance(server: Server, registry: RealRegistry, tmp_path: Path) -> None:
    registry.push_image("team/tools:1", build_image([BASE]))
    name = f"{registry.host}/team/tools:1"
    with server.client() as client:
        reply = client.post("/images/pull", params={"name": name, "secret": "team"})
        while reply.json().get("image") is None:
            assert reply.is_success, reply.text
            reply = client.post("/images/pull", params={"name": name, "secret": "team"})
        refused = client.post("/images/pull", params={"name": name})
    assert refused.json()["error"]["code"] == "image_pull_failed", refused.text
    listed = {image["name"]: image for image in server.get("/images").json()["items"]}
    assert listed[name]["source"].startswith(f"{registry.host}/team/tools@sha256:")
    assert json.loads(reply.text)["image"]["name"] == name
    noted = server.get("/audit", kind="image").json()["items"]
    assert [(entry["act"], entry["subject"]) for entry in noted] == [("created", name)]


def test_a_private_image_needs_access_where_pulls_are_disabled(server: Server, registry: RealRegistry) -> None:
    """It is there, but was pulled with credentials. This test changes the server's settings, so it is the last."""
    assert run_job(server, "train")[0]["state"] == "Succeeded"
    server.stop()
    server.settings["HOLDFAST_IMAGES_UNKNOWN"] = "fail"
    server.start()
    end, log = run_job(server, "train")
    assert (end["state"], log) == ("Succeeded", "pulled\nblue\n")
    end, _ = run_job(server, f"{registry.host}/team/train:1")
    assert (end["state"], end["started_at"]) == ("Failed", None)
    assert "denies access" in str(end["message"])
