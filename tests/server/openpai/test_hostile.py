"""Names and bodies that nobody means well with, on every address: refused in OpenPAI's shape, never our mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.server.openpai.endpoints import ENDPOINTS

from .pai import Pai, open_pai

pytestmark = pytest.mark.anyio

NAMES = [
    "%00",
    "a%00b",
    "%ED%A0%80",
    "%FF",
    "a" * 5000,
    "..",
    "%2e%2e%2f",
    "a~b~c",
    "~",
    "%F0%9F%92%A9",
    "-1",
    "9" * 50,
]
TEXT = "\ud800\0\n"
VALUES: list[Any] = [TEXT, [TEXT], {TEXT: TEXT}, 10**400, -1, None, True, [[[]]], {"a": {"b": None}}, ""]
FIELDS = (
    "username", "password", "email", "virtualCluster", "admin", "extension", "grouplist", "groupname", "newPassword",
    "oldPassword", "value", "data", "description", "externalName", "patch", "jobName", "image", "taskRoles",
)  # fmt: skip


@pytest.fixture
async def unlimited(tmp_path: Path) -> Any:
    limits = {"requests_per_minute": 0, "lists_per_minute": 0, "submits_per_hour": 0}
    async with open_pai(tmp_path / "home", {"openpai": limits}) as opened:
        yield opened


def bodies() -> list[bytes]:
    found = []
    for value in VALUES:
        inner = dict.fromkeys(FIELDS, value)
        found += [json.dumps(inner), json.dumps({"data": inner, "patch": True})]
    named = {"username": "alice", "groupname": "default"}
    found += [json.dumps({"data": {**dict.fromkeys(FIELDS, value), **named}, "patch": True}) for value in VALUES]
    return [body.encode() for body in found]


async def test_names(unlimited: Pai) -> None:
    for each in ENDPOINTS:
        for name in NAMES if "{" in each.path else ():
            answered = await unlimited.admin.request(each.method, re.sub(r"\{[^}]*\}", name, each.path), json={})
            _check((each, name), answered)


@pytest.mark.release
async def test_bodies(unlimited: Pai) -> None:
    for each in ENDPOINTS:
        if each.method == "GET" or "login" in each.path or each.path in ("/v1/token", "/v2/tokens"):
            continue  # logins are held up after some tries
        client = unlimited.guest if "logout" in each.path else unlimited.admin
        path = each.path.replace("{user}", "alice").replace("{group}", "default")
        for body in bodies():
            _check(each, await client.request(each.method, re.sub(r"\{[^}]*\}", "x", path), content=body))


async def test_logins(unlimited: Pai) -> None:
    for value in VALUES:
        for body in ({"username": value, "password": "a password"}, {"username": "alice", "password": value}):
            answered = await unlimited.guest.post("/v1/token", content=json.dumps(body))
            assert answered.status_code == 400, answered.text
            _check(body, answered)


def _check(asked: Any, answered: Any) -> None:
    assert answered.status_code < 500, (asked, answered.text)
    if answered.status_code >= 400:
        assert {"code", "message"} <= set(answered.json()), (asked, answered.text)
