from __future__ import annotations

import json

from holdfast.sdk import Secret

from .conftest import Ask
from .scripted import Say, ScriptedServer, json_say

REGISTRY = {"name": "reg", "kind": "registry", "registry_host": "ghcr.io", "username": "ann", "display_name": ""}


def test_secrets(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/secrets", json_say({"items": [REGISTRY]}))
    server.on("GET", "/secrets/reg", json_say(REGISTRY))
    server.on("POST", "/secrets", json_say(REGISTRY, 201))
    server.on("PATCH", "/secrets/reg", json_say(REGISTRY))
    server.on("DELETE", "/secrets/a%2Fb", Say(status=204))
    (found,) = ask("list_secrets")
    assert (
        found
        == ask("get_secret", "reg")
        == Secret(name="reg", kind="registry", registry_host="ghcr.io", username="ann")
    )
    ask("add_secret", "reg", "hush", kind="registry", registry_host="ghcr.io", username="ann")
    ask("change_secret", "reg", value="new")
    ask("remove_secret", "a/b")
    assert [json.loads(asked.body) for asked in server.asked[2:4]] == [
        {"name": "reg", "value": "hush", "kind": "registry", "registry_host": "ghcr.io", "username": "ann"},
        {"value": "new"},
    ]
