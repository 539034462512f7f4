"""Instance types, image aliases and more of groups by command line, and jobs that are run with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.catalogue.image_aliases import complete_alias
from holdfast.cli.catalogue.instance_types import complete_instance_type

from .cli_runner import Cli

MIB = 2**20


def test_a_size_from_beginning_to_end(cli: Cli) -> None:
    made = cli.ok(
        "instance-type", "add", "tiny", "--cpu", "0.5", "--memory", "256Mi", "--cpu-request", "0.1",
        "--label", "disk=ssd", "--tolerate", "gpu=yes:NoSchedule", "--tolerate", "spot", "--json",
    ).json  # fmt: skip
    assert (made["cpu"], made["memory"], made["cpu_request"]) == (0.5, 256 * MIB, 0.1)
    assert (made["everyone"], made["node_selector"]) == (True, {"disk": "ssd"})
    equal = {"operator": "Equal", "key": "gpu", "value": "yes", "effect": "NoSchedule"}
    assert made["tolerations"] == [equal, {"operator": "Exists", "key": "spot"}]
    shown = cli.ok("instance-type", "show", "tiny").text
    assert shown.startswith("instance type tiny\n  limits        0.5 cores, 256 MiB\n  requests      0.1 cores\n")
    changed = cli.ok("instance-type", "set", "tiny", "--cpu-request", "none", "--memory-request", "64Mi", "--json").json
    assert (changed["cpu_request"], changed["memory_request"], changed["cpu"]) == (None, 64 * MIB, 0.5)
    more = ("--gpu", "1", "--slurm", "partition=gpu", "--slurm", "gres=gpu:a100:1")
    assert cli.ok("instance-type", "set", "tiny", *more, "--json").json["slurm"]["gres"] == "gpu:a100:1"
    cli.ok("instance-type", "set", "tiny", "--slurm", "partition=", "--slurm", "qos=high")
    assert "slurm         gres=gpu:a100:1, qos=high\n" in cli.ok("instance-type", "show", "tiny").text
    assert "gres has 1 GPUs, but gpu is 0" in cli("instance-type", "set", "tiny", "--gpu", "0").err
    cli.ok("instance-type", "set", "tiny", "--gpu", "0", "--slurm", "gres=")
    listed = cli.ok("instance-type", "ls").text
    assert "cpu-1" in listed
    assert "64 MiB" in listed
    assert (
        cli.ok("instance-type", "show", "tiny", "--json").json in cli.ok("instance-type", "ls", "--json").json["items"]
    )
    assert complete_instance_type("ti") == ["tiny"]
    assert cli("instance-type", "rm", "tiny").code == 1  # there is no terminal to ask on
    assert cli.ok("instance-type", "rm", "tiny", "-y").text == "Deleted tiny.\n"
    assert "Instance type tiny not found" in cli("instance-type", "show", "tiny").err


def test_an_alias_from_beginning_to_end(cli: Cli) -> None:
    made = cli.ok("image", "alias", "add", "torch", "torch:2", "--gpu-image", "torch:2-cuda", "--json").json
    assert (made["url"], made["gpu_url"], made["everyone"]) == ("torch:2", "torch:2-cuda", True)
    shown = cli.ok("image", "alias", "show", "torch").text
    assert shown.startswith("image alias torch\n  image       torch:2\n  with GPUs   torch:2-cuda\n")
    assert "torch:3" in cli.ok("image", "alias", "set", "torch", "--image", "torch:3", "--gpu-image", "none").text
    assert cli.ok("image", "alias", "show", "torch", "--json").json["gpu_url"] == ""
    assert "torch:3" in cli.ok("image", "alias", "ls").text
    assert complete_alias("to") == ["torch"]
    assert "images are kept" in cli.ok("image", "alias", "rm", "torch", "-y").text
    assert cli("image", "alias", "show", "torch").code == 1


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(("instance-type",), ("shared", "--cpu", "0.5")), (("image", "alias"), ("shared", "host"))],
)
def test_granting_and_taking_back(cli: Cli, command: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    for group in ("greens", "greys"):
        cli("group", "add", group)
    made = cli.ok(*command, "add", *arguments, "-g", "greens,greys", "--json").json
    assert (made["everyone"], made["groups"]) == (False, ["greens", "greys"])
    assert cli.ok(*command, "revoke", "shared", "greys", "--json").json["groups"] == ["greens"]
    assert "for everyone" in cli.ok(*command, "grant", "shared", "--everyone").text
    assert "for greens" in cli.ok(*command, "revoke", "shared", "--everyone").text
    assert cli.ok(*command, "grant", "shared", "greys", "--json").json["groups"] == ["greens", "greys"]
    assert "shared" in cli.ok(*command, "ls", "--group", "greys").text
    assert "shared" not in cli.ok(*command, "ls", "--group", "default").text
    assert cli(*command, "grant", "shared").code == 2
    assert cli(*command, "grant", "shared", "nobody").code == 1
    cli.ok(*command, "rm", "shared", "-y")


def test_what_cannot_be(cli: Cli) -> None:
    assert "is not a valid name for an instance type" in cli("instance-type", "add", "../x").err
    assert (
        "(2 cores) exceeds the limit of 1 core"
        in cli("instance-type", "add", "x", "--cpu", "1", "--cpu-request", "2").err
    )
    for option in (("--memory", "lots"), ("--cpu-request", "many"), ("--label", "novalue")):
        assert cli("instance-type", "add", "x", *option).code == 2
    assert cli("image", "alias", "add", "x", "a b").code == 1
    assert cli("image", "alias", "add", "x", "a", "--kind", "cheese").code == 1


def test_completion_is_silent_without_a_server(alone: Cli) -> None:
    assert complete_alias("") == []
    assert complete_instance_type("") == []


def test_a_job_runs_in_what_an_alias_stands_for_with_a_size_below_its_limits(cli: Cli, tmp_path: Path) -> None:
    cli.ok("image", "alias", "add", "here", "host")
    cli.ok("instance-type", "add", "slim", "--cpu", "0.5", "--memory", "128Mi", "--cpu-request", "0.1")
    file = tmp_path / "job.yaml"
    file.write_text("name: named\nimage: here\ncommand: echo ran as $HOLDFAST_TASK\ninstance_type: slim\n")
    assert cli.ok("submit", str(file), "--follow").out == b"ran as main-0\n"
    (job,) = cli.ok("ls", "--json", "--limit", "1").json["items"]
    detail = cli.ok("show", job["id"], "--json").json
    assert (detail["state"], detail["resources"]["memory"]) == ("Succeeded", 128 * MIB)
    (role,) = detail["job"]["roles"]
    assert (role["image"], role["image_url"], role["instance_type"]) == ("here", "host", "slim")
    assert role["resources"]["cpu_request"] == 0.1
    shown = [line.split(maxsplit=1) for line in cli.ok("show", job["id"]).text.splitlines()]
    assert ["image", "here (host)"] in shown
    assert ["type", "slim"] in shown
    assert cli.ok("clone", job["id"]).text == file.read_text()
    form = tmp_path / "form.json"
    form.write_text('{"displayName": "f", "image": "here", "instanceType": "slim", "command": "echo form"}')
    assert cli.ok("submit", str(form), "--follow").out == b"form\n"
    same = cli.ok("submit", "--image", "here", "--instance-type", "slim", "--follow", "--", "echo words")
    assert same.out == b"words\n"
    said = cli("submit", "--instance-type", "slimm", "--", "true").err
    assert "'slimm' is not an instance type" in said
    assert "Did you mean 'slim'?" in said
    cli.ok("instance-type", "rm", "slim", "-y")
    cli.ok("image", "alias", "rm", "here", "-y")
    assert "Instance type slim is not available to the group default" in cli("rerun", job["id"]).err


def test_more_of_a_group(cli: Cli) -> None:
    cli.ok("group", "add", "Plum_Team", "--display-name", "Plums", "--volume", "--volume-size", "50", "--all-jobs")
    shown = cli.ok("group", "show", "Plum_Team").text
    assert "  shown as    Plums\n" in shown
    assert "  in use      nothing\n" in shown
    assert "  volume      /project/plum-team, 50 GB, in all jobs of its members\n" in shown
    changed = cli.ok(
        "group", "set", "Plum_Team", "--no-volume", "--volume-size", "none", "--own-jobs", "--no-home-link", "--json"
    ).json
    assert (changed["shared_volume"], changed["volume_capacity"]) == (False, None)
    assert (changed["launch_only"], changed["home_symlink"], changed["display_name"]) == (True, False, "Plums")
    assert "too similar to the group Plum_Team" in cli("group", "add", "plum-team").err
    assert "reserved" in cli("group", "add", "everyone").err
    assert "must not exceed the group's quota" in cli("group", "set", "Plum_Team", "--gpu", "1", "--user-gpu", "2").err
    assert cli("group", "set", "Plum_Team", "--volume-size", "big").code == 2
    said = cli.ok("group", "set", "Plum_Team", "--slurm", "partition=gpu,long", "--slurm", "account=7").text
    assert "slurm partition=gpu,long, account=7" in said
    cli.ok("group", "set", "Plum_Team", "--slurm", "account=")
    assert "  slurm       partition=gpu,long\n" in cli.ok("group", "show", "Plum_Team").text
    assert "gres belongs to a size" in cli("group", "set", "Plum_Team", "--slurm", "gres=gpu:1").err
    assert cli("group", "set", "Plum_Team", "--slurm", "partition").code == 2
    assert "used" in cli.ok("group", "show", "Plum_Team", "--json").json
    cli.ok("group", "rm", "Plum_Team", "-y")


def test_what_is_in_use_by_whom(cli: Cli) -> None:
    job = cli.ok("submit", "--cpu", "0.3", "--memory", "64Mi", "--json", "--", "sleep 600").json
    try:
        cli.ok("events", job["id"])
        while "0.3 cores" not in (shown := cli.ok("group", "show", "default").text):
            assert cli.ok("show", job["id"], "--json").json["state"] in ("Pending", "Preparing", "Running")
        assert "  member      admin (admin)  0.3 cores, 64 MiB in use\n" in shown
    finally:
        cli.ok("stop", job["id"], "--wait")


def test_where_experiments_go(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No tracking server for default" in cli.ok("group", "mlflow", "show", "default").err
    monkeypatch.setenv("TRACKING_PASSWORD", "swordfish")
    cli.ok(
        "group", "mlflow", "set", "default", "http://mlflow:5000", "--ui-url", "http://mlflow/",
        "-e", "TRACKING_PASSWORD", "--artifact-env", "BUCKET=b=c",
    )  # fmt: skip
    shown = cli.ok("group", "mlflow", "show", "default").text
    assert shown.splitlines() == [
        "tracking server  http://mlflow:5000",
        "web UI           http://mlflow/",
        "variable         BUCKET=b=c",
        "variable         TRACKING_PASSWORD=swordfish",
    ]
    assert cli("group", "mlflow", "set", "default", "http://m", "-e", "NO_SUCH_VARIABLE_HERE").code == 2
    assert cli.ok("group", "mlflow", "show", "default", "--json").json["artifact_envs"] == {"BUCKET": "b=c"}
    cli.ok("group", "mlflow", "rm", "default", "-y")
    assert cli.ok("group", "mlflow", "show", "default", "--json").json is None
