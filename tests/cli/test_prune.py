"""`holdfast prune` against a real server that really keeps logs, artifacts and held files."""

from __future__ import annotations

from .cli_runner import Cli

SMALL = ("--cpu", "0.1", "--memory", "64Mi")


def test_what_takes_room_is_shown_and_removed_when_it_is_said(cli: Cli) -> None:
    kept = cli.ok("submit", "--wait", "--json", *SMALL, "--", "mkdir ~/artifacts; seq 100000 | tee ~/artifacts/x").json
    held = cli("submit", "--wait", "--json", "--hold-files", *SMALL, "--", "seq 100000 > ~/left; exit 3").json
    before = {item["kind"]: item for item in cli.ok("prune", "--json").json["items"]}
    for kind in ("logs", "artifacts", "held"):
        assert before[kind]["bytes"] > 100_000, kind
        assert before[kind]["count"] >= 1, kind
    table = cli.ok("prune").text
    assert "Logs of ended jobs" in table
    assert "--held" in table
    everything = ("prune", "--logs", "--artifacts", "--held", "--metrics")
    for nothing in (cli.ok(*everything, "--older-than", "30d", "--yes", "--json"), cli.ok(*everything, "--dry-run")):
        assert nothing.code == 0
    assert cli.ok("artifacts", "ls", kept["id"], "--json").json["items"]
    assert "not a terminal" in cli(*everything).err
    done = {item["kind"]: item for item in cli.ok(*everything, "--yes", "--json").json["items"]}
    for kind in ("logs", "artifacts", "held"):
        assert done[kind]["bytes"] > 100_000, kind
    assert "Nothing to remove" in cli.ok("prune", "--artifacts").text
    assert cli.ok("artifacts", "ls", kept["id"], "--json").json["items"] == []
    assert cli("logs", kept["id"]).code != 0
    assert cli("wait", held["id"], "--json").json["state"] == "Failed"
    assert "admin deleted the files of main-0 to free disk space" in cli.ok("events", held["id"]).text


def test_images_are_named_or_unused(cli: Cli) -> None:
    assert cli.ok("prune", "--unused-images", "--dry-run", "--json").json["items"][0]["kind"] == "images"
    assert "not found" in cli("prune", "--image", "nothing", "--yes").err
    assert cli("prune", "--image", "a", "--unused-images").code == 2
