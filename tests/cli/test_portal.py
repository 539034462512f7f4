"""From the command line into the browser: portal, key, audit."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import httpx
import pytest

from .cli_runner import TIMEOUT, Cli, clean_env, run_on_terminal, run_program

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3FOZgDx2DGuNLLzK4ydj1Hmh3Emr3SvNPXd7CGcTCU ann@home\n"


def test_a_link_logs_a_browser_in(cli: Cli) -> None:
    link = cli.ok("portal").text.strip()
    url, _, code = link.partition("/login?code=")
    with httpx.Client(headers={"Accept": "text/html"}, timeout=TIMEOUT) as browser:
        assert "Log in as admin" in browser.get(link).text
        assert browser.post(f"{url}/login/link", data={"code": code}).status_code == 303
        assert browser.get(f"{url}/me").status_code == 200
    told = cli.ok("portal", "--json").json
    assert (told["user"], told["expires_in"], told["opened"]) == ("admin", 600, False)


def test_opening_it_tells_other_users_of_the_machine_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{script} %s")
    told = cli.ok("portal", "--open", "--json").json
    assert told["opened"] is True
    opened = (tmp_path / "opened").read_text().strip()
    assert "code=" not in opened
    page = Path(opened.removeprefix("file://"))
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert told["url"] in page.read_text()


def test_a_token_for_programs_is_told_why_it_gets_no_link(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    token = cli.ok("token", "create", "x").text.strip()
    monkeypatch.setenv("HOLDFAST_TOKEN", token)
    result = cli("portal")
    assert result.code == 1
    assert "cannot be used to log in with a browser" in result.err


def test_keys_come_and_go(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(KEY)
    made = cli.ok("key", "add", str(file), "--title", "laptop", "--json").json
    assert made["fingerprint"].startswith("SHA256:")
    assert "laptop" in cli.ok("key", "ls").text
    assert "already" in cli("key", "add", "-", stdin=KEY.encode()).err
    assert "--yes" in cli("key", "rm", "laptop").err
    assert cli.ok("key", "rm", "laptop", "--yes", "--json").json == {"removed": made["id"]}
    assert cli.ok("key", "ls", "--json").json == {"items": []}
    assert cli("key", "rm", "laptop", "--yes").code == 1
    assert "Cannot read" in cli("key", "add", str(tmp_path / "none.pub")).err
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert "private key" in cli("key", "add", str(file)).err


def test_the_audit_tells_who_did_what(cli: Cli) -> None:
    cli.ok("group", "add", "audited", "--gpu", "3")
    shown = cli.ok("audit", "--kind", "group", "--subject", "audited").text
    assert "group created" in shown
    assert "gpu: 3" in shown
    page = cli.ok("audit", "--user", "admin", "--since", "1h", "-n", "1", "--json").json
    assert len(page["items"]) == 1
    older = cli.ok("audit", "--before", str(page["items"][0]["seq"]), "--json").json
    assert all(event["seq"] < page["items"][0]["seq"] for event in older["items"])
    assert cli.ok("audit", "--subject", "nothing-like-that").text == ""
    assert cli("audit", "--kind", "zebra").code == 2
    cli.ok("group", "rm", "audited", "--yes")


@pytest.mark.release
def test_up_ends_with_the_portal_and_only_a_terminal_sees_a_link(tmp_path: Path) -> None:
    env = clean_env(tmp_path, HOLDFAST_SERVER_PORT="0")
    try:
        seen = run_on_terminal("up", "--detach", env=env).out.decode()
        *_, portal, link = seen.strip().splitlines()
        assert re.search(r"Portal: http://127\.0\.0\.1:\d+", portal)
        found = re.search(r"for 10 minutes\): (http://127\.0\.0\.1:\d+)/login\?code=([\w-]+)", link)
        assert found
        log = Path(env["HOLDFAST_HOME"]) / "server.log"
        assert found[2] not in log.read_text()
        answer = httpx.post(f"{found[1]}/login/link", data={"code": found[2]}, timeout=TIMEOUT)
        assert answer.status_code == 303

        again = run_program("up", env=env)
        assert again.text.strip().splitlines()[-2:] == [f"Portal: {found[1]}", "Login link: run `holdfast portal`"]
        assert "code=" not in again.text + again.err
    finally:
        run_program("down", env=env)


@pytest.mark.release
def test_up_into_a_pipe_shows_the_portal_last_and_no_link(tmp_path: Path) -> None:
    env = clean_env(tmp_path, HOLDFAST_SERVER_PORT="0")
    job = tmp_path / "first.yaml"
    job.write_text("name: first\ncommand: echo it works\n")
    try:
        first = run_program("up", "--detach", "--first-job", os.fspath(job), env=env)
        portal, link = first.text.strip().splitlines()[-2:]
        assert re.fullmatch(r"Portal: http://127\.0\.0\.1:\d+", portal)
        assert link == "Login link: run `holdfast portal`"
        assert "code=" not in first.text + first.err
    finally:
        run_program("down", env=env)
