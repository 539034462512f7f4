from __future__ import annotations

import json

from holdfast.sdk import Dataset

from .conftest import Ask
from .scripted import Say, ScriptedServer, json_say

WIKI = {"name": "wiki", "path": "/data", "groups": ["red"], "per_user": True, "kind": "nfs", "data": {"server": "s"}}


def test_reads_datasets(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/datasets", json_say({"items": [WIKI]}))
    server.on("GET", "/datasets/wiki", json_say(WIKI))
    (found,) = ask("list_datasets")
    assert found == ask("get_dataset", "wiki")
    assert found == Dataset(name="wiki", path="/data", groups=("red",), per_user=True, kind="nfs", data={"server": "s"})


def test_sends_what_is_given(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/datasets", json_say(WIKI, 201))
    server.on("PATCH", "/datasets/wiki", json_say(WIKI))
    ask("add_dataset", "wiki", "/data", groups=("red",), read_only=False)
    ask("change_dataset", "wiki", everyone=False, data={})
    assert [json.loads(asked.body) for asked in server.asked] == [
        {"name": "wiki", "path": "/data", "groups": ["red"], "read_only": False},
        {"everyone": False, "data": {}},
    ]


def test_grants_and_removes(server: ScriptedServer, ask: Ask) -> None:
    server.on("PUT", "/datasets/wiki/groups/a%2Fb", json_say(WIKI))
    server.on("DELETE", "/datasets/wiki/groups/red", Say(status=204))
    server.on("DELETE", "/datasets/wiki", Say(status=204))
    assert ask("grant_dataset", "wiki", "a/b").name == "wiki"
    ask("revoke_dataset", "wiki", "red")
    ask("remove_dataset", "wiki")
    assert len(server.asked) == 3


def test_more_kinds(server: ScriptedServer, ask: Ask) -> None:
    state = {"commit": "abc", "synced_at": "2026-01-31T12:00:00Z", "error": "", "error_at": None, "busy": False}
    code = {"name": "code", "kind": "git", "data": {"url": "u"}, "sync": state, "writable_groups": ["red"]}
    server.on("POST", "/datasets", json_say(code, 201))
    server.on("POST", "/datasets/code/sync", json_say(state))
    server.on("GET", "/datasets/env/variables", json_say({"variables": {"A": "1"}}))
    server.on("PUT", "/datasets/code/groups/red", json_say(code))
    server.on("DELETE", "/datasets/code", Say(status=204))
    made = ask("add_dataset", "code", kind="git", data={"url": "u"}, variables={"A": "1"}, adopt=True)
    assert (made.path, made.writable_groups) == ("", ("red",))
    assert made.sync == ask("sync_dataset", "code")
    assert made.sync.commit == "abc"
    assert "1" not in repr(ask("get_dataset_variables", "env"))
    assert ask("get_dataset_variables", "env").variables == {"A": "1"}
    ask("grant_dataset", "code", "red", writable=True)
    ask("remove_dataset", "code", purge=True)
    assert json.loads(server.asked[0].body) == {
        "name": "code",
        "kind": "git",
        "data": {"url": "u"},
        "variables": {"A": "1"},
        "adopt": True,
    }
    assert [asked.params for asked in server.asked[-2:]] == [{"writable": "true"}, {"purge": "true"}]
