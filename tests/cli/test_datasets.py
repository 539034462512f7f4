"""Datasets by command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.catalogue.datasets import complete_dataset
from tests.services.repositories import Repository

from .cli_runner import Cli


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "data").mkdir()
    return str(tmp_path / "data")


def test_a_dataset_from_beginning_to_end(cli: Cli, data: str) -> None:
    made = cli.ok("dataset", "add", "wiki", data, "--rw", "--nfs", "fe80::1:/export", "--json").json
    assert (made["path"], made["read_only"], made["groups"], made["everyone"]) == (data, False, [], False)
    assert (made["kind"], made["data"]) == ("nfs", {"server": "fe80::1", "path": "/export"})
    assert "read-write, for admins" in cli.ok("dataset", "set", "wiki", "--description", "pages").text
    shown = cli.ok("dataset", "show", "wiki").text
    assert shown.startswith("dataset wiki\n  description  pages\n")
    assert "fe80::1:/export" in shown
    changed = cli.ok("dataset", "set", "wiki", "--ro", "--per-user", "--default", "--nfs", "none", "--json").json
    assert (changed["read_only"], changed["per_user"], changed["default"]) == (True, True, True)
    assert (changed["kind"], changed["data"], changed["description"]) == ("folder", {}, "pages")
    assert "read-only, per user  yes" in cli.ok("dataset", "ls").text
    assert cli.ok("dataset", "show", "wiki", "--json").json == cli.ok("dataset", "ls", "--json").json["items"][0]
    assert complete_dataset("wi") == ["wiki"]
    assert complete_dataset("x") == []
    assert cli("dataset", "rm", "wiki").code == 1  # there is no terminal to ask on
    assert "Its folder is kept." in cli.ok("dataset", "rm", "wiki", "--yes").text
    assert cli("dataset", "show", "wiki").code == 1


def test_granting_and_taking_back(cli: Cli, data: str) -> None:
    for group in ("reds", "blues"):
        cli.ok("group", "add", group)
    made = cli.ok("dataset", "add", "shared", data, "-g", "reds,blues", "--group", "default", "--json").json
    assert made["groups"] == ["blues", "default", "reds"]
    assert cli.ok("dataset", "revoke", "shared", "reds", "--json").json["groups"] == ["blues", "default"]
    assert cli.ok("dataset", "grant", "shared", "reds", "--json").json["groups"] == ["blues", "default", "reds"]
    assert "for everyone" in cli.ok("dataset", "grant", "shared", "--everyone").text
    assert "for blues, default, reds" in cli.ok("dataset", "revoke", "shared", "--everyone").text
    assert cli.ok("dataset", "revoke", "shared", "--everyone").text.startswith("No change to shared: ")
    assert cli.ok("dataset", "revoke", "shared", "reds").text.startswith("Changed shared: ")
    assert "not granted to reds" in cli("dataset", "revoke", "shared", "reds").err
    assert cli("dataset", "grant", "shared", "nobody").code == 1
    for wrong in (("grant", "shared"), ("grant", "shared", "reds", "--everyone"), ("revoke", "shared")):
        assert cli("dataset", *wrong).code == 2
    cli.ok("dataset", "rm", "shared", "-y")


def test_what_cannot_be_a_dataset(cli: Cli, data: str) -> None:
    assert "does not exist" in cli("dataset", "add", "none", f"{data}/none").err
    assert cli("dataset", "add", "../x", data).code == 1
    for wrong in ("files", "files:export", ":/export"):
        assert cli("dataset", "add", "a", data, "--nfs", wrong).code == 2
    assert cli.ok("dataset", "ls", "--json").json["items"] == []
    none = cli.ok("dataset", "ls")
    assert (none.out, "holdfast dataset add NAME PATH" in none.err) == (b"", True)
    assert "holdfast dataset add" not in cli("dataset", "add", "../x", data, "--json").err


def test_completion_is_silent_without_a_server(alone: Cli) -> None:
    assert complete_dataset("") == []


def test_a_job_reads_a_dataset_by_its_name(cli: Cli, data: str, tmp_path: Path) -> None:
    Path(data, "page").write_text("hello from wiki\n")
    cli.ok("dataset", "add", "pages", data, "--everyone")
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: read\nresources: {cpu: 0.1, memory: 64Mi}\ncommand: cat /datasets/pages/page\ndatasets: [pages]\n"
    )
    assert cli.ok("submit", str(file), "--follow").out == b"hello from wiki\n"
    cli.ok("dataset", "rm", "pages", "-y")


def test_a_job_that_asks_for_a_dataset_there_is_not(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: read\ncommand: ls\ndatasets: [nothing]\n")
    for command in ("submit", "plan"):
        said = cli(command, str(file)).err
        assert f"error: {file}: datasets[0]: Dataset nothing not found\n" in said
        assert "hint: Run `holdfast dataset ls` to list your datasets" in said


def test_help_names_values_in_words(alone: Cli) -> None:
    for command in ("add", "set", "grant", "revoke"):
        text = alone.ok("dataset", command, "--help").text
        assert "<" not in text
        assert "list[" not in text
    assert "bash|zsh|fish" in alone.ok("completion", "--help").text


def test_a_volume(cli: Cli) -> None:
    cli.ok("group", "add", "writers")
    made = cli.ok("dataset", "add", "vol", "--kind", "volume", "--writable", "writers", "--size", "5", "--json").json
    assert (made["kind"], made["writable_groups"], made["data"]) == ("volume", ["writers"], {"size": "5"})
    assert made["path"].endswith("/volumes/vol")
    shown = cli.ok("dataset", "show", "vol").text
    assert "writable by  writers" in shown
    assert "read-only, writable by writers" in cli.ok("dataset", "ls").text
    assert "size         5 GB" in shown
    assert cli.ok("dataset", "grant", "vol", "default", "--rw", "--json").json["writable_groups"] == [
        "default",
        "writers",
    ]
    assert cli("dataset", "grant", "vol", "--everyone", "--rw").code == 2
    Path(made["path"], "note").write_text("x")
    assert "Its data is kept" in cli.ok("dataset", "rm", "vol", "--yes").text
    refused = cli("dataset", "add", "vol", "--kind", "volume")
    assert "--adopt" in refused.err
    cli.ok("dataset", "add", "vol", "--kind", "volume", "--adopt")
    assert "and all its data" in cli("dataset", "rm", "vol", "--purge").err
    assert "data is deleted" in cli.ok("dataset", "rm", "vol", "--purge", "--yes").text
    assert not Path(made["path"]).exists()


def test_variables(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "variables"
    file.write_text("# comment\n\nTOKEN=a=b \nEMPTY=\n")
    made = cli.ok("dataset", "add", "env", "--variables", str(file), "--everyone")
    assert "a=b" not in made.text
    assert "a=b" not in cli.ok("dataset", "show", "env").text
    assert cli.ok("dataset", "variables", "env", "--json").json == {"variables": {"TOKEN": "a=b ", "EMPTY": ""}}
    cli.ok("dataset", "set", "env", "--variables", "-", stdin=b"NEW=1\n")
    assert cli.ok("dataset", "variables", "env").text == "NEW=1\n"
    wrong = cli("dataset", "set", "env", "--variables", "-", stdin=b"NEW=1\nhush-hush\n")
    assert wrong.code == 1
    assert "Line 2" in wrong.err
    assert "hush-hush" not in wrong.err
    assert cli("dataset", "add", "more", "--kind", "git", "--variables", str(file)).code == 2
    assert cli.ok("dataset", "rm", "env", "--yes").text == "Deleted env. Its variables are deleted.\n"
    assert cli("dataset", "rm", "env", "--yes").code == 1


def test_git(cli: Cli, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "code")
    commit = repository.commit(readme="one")
    cli.ok("secret", "add", "key", "--stdin", stdin=b"hush-hush\n")
    assert "Added code: read-only" in cli.ok("dataset", "add", "code", "--git", repository.url, "--secret", "key").text
    assert cli.ok("dataset", "sync", "code").text == f"code is at {commit}.\n"
    shown = cli.ok("dataset", "show", "code").text
    assert f"commit       {commit}, checked " in shown
    assert "secret       key" in shown
    assert repository.url in cli.ok("dataset", "ls").text
    changed = cli.ok("dataset", "set", "code", "--branch", "none-such", "--secret", "none", "--json").json
    assert changed["data"] == {"url": repository.url, "branch": "none-such"}
    failed = cli("dataset", "sync", "code")
    assert failed.code == 1
    assert "Branch or tag none-such not found" in failed.err
    assert "error" in cli.ok("dataset", "show", "code").text
    back = cli.ok("dataset", "set", "code", "--branch", "none", "--json").json
    assert back["data"] == {"url": repository.url}
    assert cli.ok("dataset", "sync", "code", "--json").json["commit"] == commit
    assert "Its checkout is deleted" in cli.ok("dataset", "rm", "code", "--yes").text
    cli.ok("secret", "rm", "key", "--yes")
