"""Notifications by command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.webhook_receiver import Hook

from .cli_runner import Cli


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def test_a_recipient_from_beginning_to_end(cli: Cli, hook: Hook) -> None:
    assert "holdfast notifications add" in cli.ok("notifications").err
    made = cli.ok("notifications", "add", "webhook", hook.url, "--on", "failed, held", "--json").json
    assert made["events"] == ["failed", "held"]
    assert cli.ok("notifications", "secret", "-", stdin=hook.url.encode()).text.strip() == made["secret"]
    assert "receives started" in cli.ok("notifications", "choose", made["id"], "started").text
    assert cli.ok("notifications", "recipients").text.splitlines()[1].split()[:2] == [made["id"], "webhook"]
    short = made["id"].removeprefix("to-")[:6]
    assert cli.ok("notifications", "test", short).text == "Delivered: responded with 200.\n"
    job = cli.ok("submit", "--notify", "failed", "--json", "--", "exit 3").json
    cli("wait", job["id"])
    (post,) = [post for post in hook.seen.wait(lambda posts: any(_fails(post) for post in posts)) if _fails(post)]
    assert post.body["job"]["id"] == job["id"]
    listed = cli.ok("notifications", "ls", "--json").json["items"]
    assert {"failed", "started", "test"} == {each["event"] for each in listed}
    assert f"{post.body['subject'][:20]}" in cli.ok("notifications").text
    hook.close()
    gone = cli("notifications", "test", made["id"])
    assert (gone.code, gone.text) == (1, "Not delivered: the connection was refused.\n")
    assert cli("notifications", "rm", made["id"]).code == 1  # there is no terminal to ask on
    assert cli.ok("notifications", "rm", made["id"], "--yes").text == f"Deleted {made['id']}.\n"


def _fails(post: object) -> bool:
    return bool(getattr(post, "body", {}).get("event") == "failed")


def test_what_is_wrong_is_said(cli: Cli) -> None:
    assert cli("notifications", "add", "pigeon", "https://example.org").code == 2
    assert "must begin with https://" in cli("notifications", "add", "webhook", "ftp://example.org").err
    assert "is not a notification event" in cli("notifications", "add", "webhook", "https://a.b", "--on", "fail").err
    assert "Mail is disabled on this server" in cli("notifications", "add", "mail", "ann@example.org").err
    assert "is not a notification event" in cli("submit", "--notify", "hold", "--", "true").err
    assert cli("notifications", "rm", "none", "--yes").code == 1
