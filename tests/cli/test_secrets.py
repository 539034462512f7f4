"""Secrets by command line: their values come from where nobody looks on."""

from __future__ import annotations

import os
import pty
import select
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from .cli_runner import TIMEOUT, Cli, run_program, start


def test_a_secret_from_beginning_to_end(cli: Cli, tmp_path: Path) -> None:
    assert "holdfast secret add" in cli.ok("secret", "ls").err
    (tmp_path / "key").write_text("hush-hush\n")
    made = cli.ok("secret", "add", "key", "--file", str(tmp_path / "key"), "--display-name", "Deploy", "--json")
    assert made.json == {"name": "key", "display_name": "Deploy", "kind": "opaque", "registry_host": "", "username": ""}
    added = cli.ok(
        "secret", "add", "reg", "--registry", "ghcr.io", "--username", "ann", "--stdin", stdin=b"hush-hush\n"
    )
    assert added.text == "Added reg, for pulling images.\n"
    assert cli.ok("secret", "ls").text.split()[:6] == ["SECRET", "FOR", "REGISTRY", "USER", "key", "git"]
    assert "registry  ghcr.io" in cli.ok("secret", "show", "reg").text
    assert cli.ok("secret", "show", "key", "--json").json == made.json
    assert cli.ok("secret", "set", "reg", "--username", "bob", "--json").json["username"] == "bob"
    assert cli.ok("secret", "set", "key", "--stdin", stdin=b"new").text == "Changed key, for git.\n"
    for shown in (cli.ok("secret", "ls", "--json"), cli.ok("secret", "show", "key"), made, added):
        assert "hush-hush" not in shown.text + shown.err
    refused = cli("secret", "rm", "key")  # there is no terminal to ask on
    assert "Cannot ask for confirmation to delete secret key: stdin is not a terminal" in refused.err
    for name in ("key", "reg"):
        assert "Deleted" in cli.ok("secret", "rm", name, "--yes").text
    assert cli("secret", "show", "key").code == 1


def test_where_values_come_from(cli: Cli, tmp_path: Path) -> None:
    assert "--file FILE or --stdin" in cli("secret", "add", "key").err
    assert "--file FILE or --stdin" in cli("secret", "set", "key").err
    assert "Cannot read" in cli("secret", "add", "key", "--file", str(tmp_path / "none")).err
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in cli("secret", "add", "key", "--file", str(tmp_path / "binary")).err
    assert "empty" in cli("secret", "add", "key", "--stdin", stdin=b"\n").err
    assert cli("secret", "add", "key", "hush-hush").code == 2  # no argument takes one


def test_a_value_that_is_typed_is_not_shown(place: Mapping[str, str]) -> None:
    ours, theirs = pty.openpty()
    process = start("secret", "add", "typed", env=place, stdin=theirs, stdout=theirs, stderr=theirs)
    deadline = time.monotonic() + TIMEOUT
    while termios.tcgetattr(theirs)[3] & termios.ECHO:  # until it listens without showing
        assert time.monotonic() < deadline
        assert process.poll() is None
        select.select([], [], [], 0.01)
    os.write(ours, b"hush-hush\n")
    assert process.wait(TIMEOUT) == 0
    seen = os.read(ours, 65536)
    os.close(theirs)
    os.close(ours)
    assert b"Added typed" in seen
    assert b"hush-hush" not in seen
    assert run_program("secret", "rm", "typed", "--yes", env=place).code == 0
