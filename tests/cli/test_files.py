"""Shared files, artifacts and usage by command line."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from holdfast.cli.transfers import resolve_path_below
from holdfast.core.errors import UserError

from .cli_runner import Cli
from .test_users import url_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_go_up_and_come_down(cli: Cli, here: Path) -> None:
    (here / "a.bin").write_bytes(b"\0\1" * 300_000)
    assert "Uploaded one/a.bin" in cli.ok("files", "put", "a.bin", "one/").text
    cli.ok("files", "put", "a.bin", "one/b.bin", "--group", "default")
    assert cli.ok("files", "ls", "one", "--json").json["items"][0]["size"] == 600_000
    assert "b.bin" in cli.ok("files", "ls", "/one/").text
    (here / "there").mkdir()
    cli.ok("files", "get", "one/a.bin", "there")
    assert (here / "there/a.bin").read_bytes() == (here / "a.bin").read_bytes()
    cli.ok("files", "get", "one/a.bin", "named")
    assert (here / "named").stat().st_size == 600_000
    assert cli.ok("files", "rm", "one/a.bin").text == "Deleted 1 file.\n"
    missing = cli("files", "get", "one/a.bin", "gone")
    assert (missing.code, "File one/a.bin not found" in missing.err) == (1, True)
    assert not (here / "gone").exists()
    assert cli("files", "rm", "-r", "one").code == 1  # there is no terminal to ask on
    assert cli.ok("files", "rm", "-r", "one", "--yes", "--json").json == {"removed": 1}


def test_folders_go_up_and_come_down(cli: Cli, here: Path) -> None:
    (here / "data/deep").mkdir(parents=True)
    for name in ("data/a", "data/deep/b", "data/deep/line\nbreak"):
        (here / name).write_text(name)
    (here / "data/link").symlink_to("/etc/passwd")
    assert "is a folder" in cli("files", "put", "data").err
    assert "Uploaded 3 files" in cli.ok("files", "put", "-r", "data").text
    assert len(cli.ok("files", "ls", "-r", "data", "--json").json["items"]) == 3
    assert "line\\nbreak" in cli.ok("files", "ls", "-r", "data").text
    assert cli.ok("files", "ls", "-r", "-n", "1", "data", "--json").json["complete"] is False
    assert "Only the first" in cli.ok("files", "ls", "-r", "-n", "1", "data").err
    cli.ok("files", "get", "-r", "data", "copy")
    assert (here / "copy/deep/line\nbreak").read_text() == "data/deep/line\nbreak"
    assert "is a folder" in cli("files", "rm", "data").err
    cli.ok("files", "rm", "-r", "data", "-y")


def test_who_is_no_admin_gets_code_into_a_job(
    cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, place: dict[str, str]
) -> None:
    """As the refusal of a mount advises."""
    if cli.ok("status", "--json").json["status"]["engine"]["isolation"] == "none":
        pytest.skip("tasks see folders at other paths only in a sandbox")
    cli.ok("user", "add", "coder", "--password-stdin", stdin=b"long-enough-1\n")
    monkeypatch.setenv("HOLDFAST_HOME", str(here / "nothing"))
    cli.ok("login", url_of(place), "--user", "coder", "--password-stdin", stdin=b"long-enough-1\n")
    (here / "train.py").write_text("open('/phfs/model', 'w').write('trained')\nprint('hello from /phfs')\n")
    small = ("--cpu", "0.1", "--memory", "128Mi")
    refused = cli("submit", *small, "--mount", f"{here}:/code", "--", "python3", "/code/train.py")
    assert "--mount: " in refused.err
    assert "holdfast files put" in refused.err
    cli.ok("files", "put", "train.py")
    assert "files: true\n" in cli.ok("plan", "--yaml", "--files", *small, "--", "true").text
    ran = cli.ok("submit", "--follow", "--files", *small, "--", "python3", "/phfs/train.py")
    assert "hello from /phfs" in ran.text
    cli.ok("files", "get", "model")
    assert (here / "model").read_text() == "trained"
    assert "only valid with a command" in cli("submit", "--files", "train.py").err


def test_whose_files_is_told(cli: Cli, here: Path) -> None:
    assert "Group nobody not found" in cli("files", "ls", "-g", "nobody").err
    assert "Cannot read none" in cli("files", "put", "none").err


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/passwd", "", "a//b", "a/\0"])
def test_names_that_lead_elsewhere_are_not_saved(name: str) -> None:
    with pytest.raises(UserError, match="unsafe file name"):
        resolve_path_below(Path("here"), name)


def test_artifacts_are_listed_and_copied(cli: Cli, here: Path) -> None:
    job = cli.ok("submit", "--json", "--", "true").json
    assert "has no artifacts" in cli.ok("artifacts", "ls", job["id"]).err
    (here / "plot.png").write_bytes(b"png")
    cli.ok("files", "put", "plot.png", f"jobArtifacts/{job['id']}/plots/plot.png")
    assert "plots/plot.png" in cli.ok("artifacts", "ls", job["id"]).text
    assert cli.ok("artifacts", "ls", job["id"], "--json").json["items"][0]["size"] == 3
    assert "Saved 1 file" in cli.ok("artifacts", "get", job["id"]).text
    assert (here / job["id"] / "plots/plot.png").read_bytes() == b"png"
    cli.ok("artifacts", "get", job["id"], "plots/plot.png", "--to", "out", "--json")
    assert (here / "out/plots/plot.png").exists()
    assert "has no artifact none" in cli("artifacts", "get", job["id"], "none").err


def test_usage_is_csv(cli: Cli) -> None:
    cli.ok("submit", "--wait", "--", "true")
    month = cli.ok("usage").text.split()[0]
    rows = list(csv.DictReader(io.StringIO(cli.ok("usage", month).text)))
    assert ("default", "admin", "job") in {(row["group"], row["user"], row["component"]) for row in rows}
    assert cli.ok("usage", month, "--json").json["items"] == rows
    assert cli.ok("usage", month, "--details").text.startswith("group,user,component,job,name,task,")
    assert int(cli.ok("usage", "--json").json["items"][0]["year"]) >= 2026
    assert cli("usage", "soon").code == 2
    assert cli("usage", "2026-13").code == 1


def test_what_was_left_out_of_the_artifacts_is_told(cli: Cli, here: Path) -> None:
    made = "mkdir -p ~/artifacts && echo hi > ~/artifacts/kept && mkfifo ~/artifacts/pipe"
    ended = cli.ok("submit", "--wait", "--", made)
    assert re.search(r"warning: 1 file \(.*\) saved as artifacts; skipped: 1", ended.err)
    job = cli.ok("ls", "--limit", "1", "--json").json["items"][0]["id"]
    assert "  artifacts   1 file" in cli.ok("show", job).text
    assert "skipped: 1" in cli.ok("artifacts", "ls", job).err
    assert "skipped: 1" in cli.ok("artifacts", "get", job).err


def test_getting_none_says_so(cli: Cli, here: Path) -> None:
    job = cli.ok("submit", "--wait", "--json", "--", "true").json["id"]
    got = cli.ok("artifacts", "get", job)
    assert "has no artifacts" in got.err
    assert got.text == ""


def test_a_path_that_leads_out_is_refused(cli: Cli, here: Path) -> None:
    (here / "x").write_bytes(b"x")
    assert "'..' is not allowed" in cli("files", "put", "x", "../../etc/passwd").err
