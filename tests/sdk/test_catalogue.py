from __future__ import annotations

import json

from holdfast.sdk import ImageAlias, InstanceType, Mlflow

from .conftest import Ask
from .scripted import Say, ScriptedServer, json_say

TYPE = {"name": "gpu-1", "cpu": 2.0, "memory": 4, "gpu": 1, "cpu_request": 1.5, "groups": ["red"], "everyone": False}
ALIAS = {"name": "torch", "url": "torch:2", "gpu_url": "torch:2-cuda", "owner": "red", "groups": ["red"]}


def test_reads_what_there_is(server: ScriptedServer, ask: Ask) -> None:
    for path, item in (("instance-types", TYPE), ("image-aliases", ALIAS)):
        server.on("GET", f"/{path}", json_say({"items": [item]}))
        server.on("GET", f"/{path}/{item['name']}", json_say(item))
    (type,) = ask("list_instance_types")
    assert type == ask("get_instance_type", "gpu-1")
    assert type == InstanceType(name="gpu-1", cpu=2.0, memory=4, gpu=1, cpu_request=1.5, groups=("red",))
    (alias,) = ask("list_image_aliases", "red")
    assert alias == ask("get_image_alias", "torch")
    assert alias == ImageAlias(name="torch", url="torch:2", gpu_url="torch:2-cuda", owner="red", groups=("red",))


def test_sends_what_is_given(server: ScriptedServer, ask: Ask) -> None:
    server.on("POST", "/instance-types", json_say(TYPE, 201))
    server.on("PATCH", "/instance-types/gpu-1", json_say(TYPE))
    server.on("POST", "/image-aliases", json_say(ALIAS, 201))
    server.on("PATCH", "/image-aliases/torch", json_say(ALIAS))
    ask("add_instance_type", "gpu-1", cpu=2.0, memory=4, groups=("red",))
    ask("change_instance_type", "gpu-1", gpu=0, cpu_request=None)
    ask("add_image_alias", "torch", "torch:2", owner="red")
    ask("change_image_alias", "torch", pull_secret=None, everyone=False)
    assert [json.loads(request.body) for request in server.asked] == [
        {"name": "gpu-1", "cpu": 2.0, "memory": 4, "groups": ["red"]},
        {"gpu": 0, "cpu_request": None},
        {"name": "torch", "url": "torch:2", "owner": "red"},
        {"everyone": False, "pull_secret": None},
    ]


def test_grants_and_removes(server: ScriptedServer, ask: Ask) -> None:
    for path, name, item in (("instance-types", "gpu-1", TYPE), ("image-aliases", "torch", ALIAS)):
        server.on("PUT", f"/{path}/{name}/groups/red", json_say(item))
        server.on("DELETE", f"/{path}/{name}/groups/red", Say(status=204))
        server.on("DELETE", f"/{path}/{name}", Say(status=204))
    assert ask("grant_instance_type", "gpu-1", "red").groups == ("red",)
    assert ask("revoke_instance_type", "gpu-1", "red") is None
    assert ask("remove_instance_type", "gpu-1") is None
    assert ask("grant_image_alias", "torch", "red").groups == ("red",)
    assert ask("revoke_image_alias", "torch", "red") is None
    assert ask("remove_image_alias", "torch") is None


def test_where_experiments_go(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/groups/red/mlflow", json_say({"tracking_uri": "http://m", "tracking_envs": {"A": "b"}}))
    server.on("GET", "/groups/blue/mlflow", json_say(None))
    server.on("PUT", "/groups/red/mlflow", Say(status=204))
    server.on("DELETE", "/groups/red/mlflow", Say(status=204))
    assert ask("get_mlflow", "red") == Mlflow(tracking_uri="http://m", tracking_envs={"A": "b"})
    assert ask("get_mlflow", "blue") is None
    ask("set_mlflow", "red", "http://m", tracking_envs={"A": "b"})
    assert json.loads(server.asked[-1].body) == {"tracking_uri": "http://m", "tracking_envs": {"A": "b"}}
    assert ask("remove_mlflow", "red") is None
