"""Texts that nobody would call anything: refused or not found, and never an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .hub import Hub

pytestmark = pytest.mark.anyio

TEXTS = ["\ud800", "a\0b", "x" * 5000, "", "../..", "é", "1" * 400]


def asks(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in ("user", "group", "image", "instanceType", "dataset", "secret"):
        noun = field[0].upper() + field[1:]
        prefix = "image-" if field == "secret" else ""
        yield f"query ($in: {noun}WhereUniqueInput!) {{ {field}(where: $in) {{ id }} }}", {"id": prefix + text}
    for noun, data in forms(text):
        yield f"mutation ($in: {noun}CreateInput!) {{ create{noun}(data: $in) {{ id }} }}", data
    yield 'mutation ($in: GroupUpdateInput!) { updateGroup(where: {id: "red"}, data: $in) { id } }', {"admins": text}
    wish = {"groups": {"connect": [{"id": text}]}}
    yield 'mutation ($in: UserUpdateInput!) { updateUser(where: {id: "ann"}, data: $in) { id } }', wish


def forms(text: str) -> list[tuple[str, dict[str, Any]]]:
    git_secret = {"connect": {"id": f"gitsync-secret-{text}"}}
    return [
        ("User", {"username": text}),
        ("User", {"username": "u", "email": text, "firstName": text, "groups": {"connect": [{"id": text}]}}),
        ("Group", {"name": text}),
        ("Group", {"name": "g", "displayName": text, "users": {"connect": [{"id": text}]}}),
        ("Image", {"name": text, "url": "x"}),
        ("Image", {"name": "i", "url": text, "urlForGpu": text}),
        ("Image", {"name": "i", "url": "x", "useImagePullSecret": f"image-{text}", "groupName": text}),
        ("InstanceType", {"name": "t", "description": text, "nodeSelector": {text: text}}),
        ("InstanceType", {"name": "t", "tolerations": {"set": [{"key": text, "value": text}]}}),
        ("Dataset", {"name": text, "type": "pv"}),
        ("Dataset", {"name": "e", "type": "env", "variables": {"A": text}}),
        ("Dataset", {"name": "f", "type": "env", "variables": {text: "x"}}),
        ("Dataset", {"name": "h", "type": "hostPath", "hostPath": text}),
        ("Dataset", {"name": "n", "type": "nfs", "nfsServer": text, "nfsPath": text}),
        ("Dataset", {"name": "c", "type": "git", "url": text, "secret": git_secret}),
        ("Dataset", {"name": "p", "type": text, "mountRoot": text, "volumeSize": -1}),
        ("Secret", {"name": "s", "type": "opaque", "secret": text}),
        ("Secret", {"name": text, "type": "kubernetes", "registryHost": text, "username": text, "password": text}),
    ]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:10]))
async def test_strange_texts(hub: Hub, text: str) -> None:
    for query, given in asks(text):
        answered = await hub.admin.ask(query, **{"in": given})
        codes = [error["extensions"]["code"] for error in answered.get("errors", ())]
        assert "INTERNAL_SERVER_ERROR" not in codes, (query, answered)
        assert "GRAPHQL_VALIDATION_FAILED" not in codes, (query, answered)
