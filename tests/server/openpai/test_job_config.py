"""A job's file, as it can be read and submitted again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from .job_files import job, role
from .pai import Pai

pytestmark = pytest.mark.anyio

SECRET = "tell-nobody-5c1f"


async def config(pai: Pai, name: str) -> dict[str, Any]:
    response = await pai.user.get(f"/v2/jobs/alice~{name}/config")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/yaml")
    assert SECRET not in response.text
    body: dict[str, Any] = json.loads(response.text)
    assert yaml.safe_load(response.text) == body
    return body


async def test_as_it_was_written(pai: Pai) -> None:
    await pai.house.run(job(parameters={"lr": 1}), pai.alice)
    assert await config(pai, "train") == json.loads(job(parameters={"lr": 1}))


@pytest.mark.parametrize("layout", ["flow", "json", "block", "indented"])
async def test_secrets_are_masked_in_every_layout(pai: Pai, layout: str) -> None:
    written = json.loads(job(roles={"worker": role("echo <% $secrets.a %>")}, secrets={"a": SECRET, "b": [SECRET]}))
    text = {
        "flow": yaml.safe_dump(written, default_flow_style=True),
        "json": json.dumps(written),
        "block": yaml.safe_dump(written, default_flow_style=False),
        "indented": json.dumps(written, indent=4),
    }[layout]
    await pai.house.run(text, pai.alice)
    assert await config(pai, "train") == {**written, "secrets": "******"}


async def test_other_dialects_come_as_v2(pai: Pai) -> None:
    await pai.house.run(json.dumps({"name": "ours", "command": "true", "secrets": {"a": SECRET}}), pai.alice)
    found = await config(pai, "ours")
    assert (found["protocolVersion"], found["secrets"]) == (2, "******")
    assert found["taskRoles"]["main"]["commands"] == ["true"]
    old = {"jobName": "old", "image": "host", "taskRoles": [{"name": "w", "command": "true"}]}
    await pai.house.run(json.dumps(old), pai.alice)
    found = await config(pai, "old")
    assert (found["name"], found["taskRoles"]["w"]["commands"]) == ("old", ["true"])
    again = await pai.house.run(json.dumps({**found, "name": "old_again"}), pai.alice)
    assert again.exit_code == 0


async def test_the_probe_of_the_editor_plugin(pai: Pai) -> None:
    """It asks without login, and takes any code but NoApiError for a server that knows v2."""
    for client in (pai.guest, pai.user):
        body = (await client.get("/v2/jobs/protocolversion/config")).json()
        assert body["code"] != "NoApiError"
