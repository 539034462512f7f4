"""`primehub config generate-token`: a person logs in on a page, and types the code that it shows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from .place import GROUP, PASSWORD, Place, User


def code_for(user: User, password: str = PASSWORD) -> str:
    """From the page that the command sends people to."""
    with httpx.Client(base_url=user.server.url, follow_redirects=True, timeout=30) as browser:
        page = browser.get("/oidc/auth-flow/request")
        action = re.search(r'<form method="post" action="([^"]+)"', page.text)
        assert action is not None
        shown = browser.post(action[1], data={"username": user.name, "password": password})
    code = re.search(r"<pre>(.+)</pre>", shown.text)
    return "" if code is None else code[1]


@pytest.mark.release
def test_from_nothing_to_a_working_command(hub: Place, tmp_path: Path) -> None:
    bob = replace(hub.bob, home=tmp_path)
    printed = bob.run("config", "generate-token", f"{bob.server.url}/console", given=f"{code_for(bob)}\n")
    assert f"Go to this URL in the browser {bob.server.url}/oidc/auth-flow/request" in printed
    config = json.loads((tmp_path / ".primehub/config.json").read_text())
    assert config["endpoint"] == bob.endpoint
    assert config["api-token"] != bob.token
    assert bob.json("me")["username"] == "bob"
    tokens = replace(bob, token=config["api-token"]).rest("/tokens")["items"]
    assert "primehub command" in [token["name"] for token in tokens]
    bob.run("config", "set-group", GROUP)
    assert bob.json("jobs", "list", "--page", "999") == []


@pytest.mark.release
def test_what_was_there_is_kept_aside(hub: Place, tmp_path: Path) -> None:
    zoe = replace(hub.zoe, home=tmp_path)
    (tmp_path / ".primehub").mkdir()
    (tmp_path / ".primehub/config.json").write_text('{"endpoint": "http://old.example/api/graphql"}')
    zoe.run("config", "generate-token", zoe.server.url, given=f"{code_for(zoe)}\n")
    (aside,) = (tmp_path / ".primehub").glob("config-*.json")
    assert "old.example" in aside.read_text()
    assert zoe.json("me")["username"] == "zoe"


@pytest.mark.release
def test_a_code_works_once_and_a_wrong_one_not_at_all(hub: Place, tmp_path: Path) -> None:
    bob = replace(hub.bob, home=tmp_path)
    assert code_for(bob, "not-the-password") == ""
    bob.run("config", "generate-token", bob.server.url, given="guessed\n")
    assert not (tmp_path / ".primehub/config.json").exists()
    code = code_for(bob)
    exchange = f"{bob.server.url}/oidc/auth-flow/exchange"
    assert httpx.post(exchange, data={"code": code}, timeout=30).is_success
    bob.run("config", "generate-token", bob.server.url, given=f"{code}\n")
    assert not (tmp_path / ".primehub/config.json").exists()
