"""What the command of a PrimeHub job finds when it really runs: folders, links, variables, the group's profile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.job import MIB, Job, Role
from holdfast.engines.base import Isolation
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.launching import PrimeHubSettings
from tests.engines.scenarios import need

from .primehub_scene import JOB_ID, Place, as_lines, echo, primehub_job
from .scene import launch_of

PLAIN = EmbeddedOptions(isolation="off")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Path(os.path.realpath(tmp_path)))


@pytest.fixture
def sandbox() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)


# -- how it runs


def test_the_command_runs_at_home_without_options_and_its_code_counts(place: Place, sandbox: None) -> None:
    ran = place.run('pwd; echo "$HOME"; false; echo "on: $-"; exit 7')
    assert ran.code == 7
    assert ran.out.splitlines()[:2] == ["/home/jovyan"] * 2
    assert "e" not in ran.out.splitlines()[2].removeprefix("on: ")


def test_a_command_of_many_lines_with_every_kind_of_quote(place: Place, sandbox: None) -> None:
    assert place.lines("a='it'\"'\"'s'\necho \"$a\" \\\n  'done'\ncat <<X\n$((1 + 1)) `echo ok`\nX") == [
        "it's done",
        "2 ok",
    ]


def test_shared_memory_is_as_large_as_the_memory(place: Place, sandbox: None) -> None:
    assert place.launch("true").resources.shm == 512 * MIB
    (size,) = place.lines("df -k /dev/shm | tail -n 1 | { read -r _ size _; echo $size; }")
    assert int(size) == 512 * 1024


@pytest.mark.parametrize(("limit", "scratch"), [(0, None), (5 * MIB, 5 * MIB)])
def test_how_much_the_home_may_hold(place: Place, limit: int, scratch: int | None) -> None:
    assert place.launch("true", platform=PrimeHubSettings(scratch=limit)).scratch == scratch


# -- folders


def test_the_groups_volume_and_files(place: Place, sandbox: None) -> None:
    (place.volume / "seen").write_text("volume\n")
    (place.files / "seen").write_text("files\n")
    command = """
    cat /project/team-a/seen /home/jovyan/team-a/seen /phfs/seen ~/phfs/seen "/project/$GROUP_NAME/seen"
    readlink ~/team-a ~/phfs ~/datasets
    echo kept >/project/team-a/new; echo kept >/phfs/new
    """
    assert place.lines(command) == [
        "volume", "volume", "files", "files", "volume", "/project/team-a", "/phfs", "/datasets",
    ]  # fmt: skip
    assert (place.volume / "new").read_text() == (place.files / "new").read_text() == "kept\n"


def test_a_group_without_a_volume(place: Place, sandbox: None) -> None:
    command = f"ls /project 2>&1; ls -A ~; {echo(['PRIMEHUB_GROUP_VOLUME_PATH', 'PRIMEHUB_PHFS_PATH'])}"
    ran = place.run(command, volume=False)
    assert "team-a" not in ran.out
    assert ran.out.splitlines()[-4:] == [
        "datasets",
        "phfs",
        "PRIMEHUB_GROUP_VOLUME_PATH=unset",
        "PRIMEHUB_PHFS_PATH=unset",
    ]
    assert "group profile" not in ran.err


def test_a_group_that_wants_no_link_in_the_home(place: Place, sandbox: None) -> None:
    assert place.lines("ls -A ~; ls -d /project/team-a", home_symlink=False) == ["datasets", "phfs", "/project/team-a"]


def test_volumes_of_the_users_other_groups_and_of_no_one_elses(place: Place, sandbox: None) -> None:
    (place.other("lab-b") / "seen").write_text("of b\n")
    (place.root / "lab-c/volume").mkdir(parents=True)
    command = f"""
    ls /project; cat /project/lab-b/seen; echo hi >/project/lab-b/new
    ls {place.root} || echo hidden
    """
    found = place.lines(command)
    assert [line for line in found if line != "Team_A"] == ["lab-b", "team-a", "of b", "hidden"]
    assert (place.root / "lab-b/volume/new").exists()


def test_of_two_groups_with_one_path_the_jobs_own_goes_first(place: Place, sandbox: None) -> None:
    (place.volume / "seen").write_text("own\n")
    (place.other("team-a") / "seen").write_text("other\n")
    assert place.lines("cat /project/team-a/seen") == ["own"]


def test_datasets(place: Place, sandbox: None) -> None:
    (place.dataset("mnist") / "seen").write_text("digits\n")
    (place.dataset("scratch.2", read_only=False) / "seen").write_text("paper\n")
    (place.dataset("code", target="/mnt/dataset-code/code") / "seen").write_text("lines\n")
    command = """
    for name in mnist scratch.2 code; do
        readlink /datasets/$name
        cat ~/datasets/$name/seen
        touch /datasets/$name/new 2>/dev/null && echo written || echo refused
    done
    ls /mnt /datasets
    """
    assert place.lines(command) == [
        "/mnt/dataset-mnist", "digits", "refused",
        "/mnt/dataset-scratch.2", "paper", "written",
        "/mnt/dataset-code/code", "lines", "refused",
        "/datasets:", "code", "mnist", "scratch.2", "",
        "/mnt:", "dataset-code", "dataset-mnist", "dataset-scratch.2",
    ]  # fmt: skip


def test_a_dataset_that_does_not_answer_is_left_out_aloud(place: Place, sandbox: None) -> None:
    place.dataset("there")
    place.dataset("gone").rmdir()
    ran = place.run("ls /datasets", unreachable=frozenset({"gone"}))
    assert (ran.code, ran.out) == (0, "there\n")
    assert "[primehub] The dataset gone is left out" in ran.err


def test_a_job_of_another_group_sees_nothing_of_it(place: Place, sandbox: None) -> None:
    (place.volume / "secret").write_text("ours\n")
    other = Place(place.root / "elsewhere")
    command = f"cat {place.volume}/secret /project/team-a/secret 2>/dev/null || echo nothing; ls /project"
    job = primehub_job(command, group="team-b")
    assert other.lines(job)[:2] == ["nothing", "team-b"]


# -- variables


def test_every_variable(place: Place, sandbox: None) -> None:
    values = {
        "PRIMEHUB_USER": "alice",
        "PRIMEHUB_GROUP": "Team_A",
        "GROUP_ID": "Team_A",
        "GROUP_NAME": "Team_A",
        "JUPYTERHUB_USER": "alice",
        "INSTANCE_TYPE": "cpu-1",
        "IMAGE_NAME": "host",
        "TZ": "Asia/Taipei",
        "PHJOB_NAME": JOB_ID,
        "PHJOB_ARTIFACT_ENABLED": "true",
        "PHJOB_ARTIFACT_LIMIT_SIZE_MB": "100",
        "PHJOB_ARTIFACT_LIMIT_FILES": "1000",
        "PHJOB_ARTIFACT_RETENTION_SECONDS": "604800",
        "PRIMEHUB_GROUP_VOLUME_PATH": "/project/team-a",
        "PRIMEHUB_PHFS_PATH": "/home/jovyan/phfs",
        "MLFLOW_TRACKING_URI": "http://mlflow:5000",
        "MY_ENV_KEY": "value with 'quotes'",
    }
    given = {name: values[name] for name in ("MLFLOW_TRACKING_URI", "MY_ENV_KEY")}
    assert place.lines(echo(list(values)), variables=given) == as_lines(values)


def test_without_artifacts_nothing_is_said_of_them(place: Place, sandbox: None) -> None:
    assert place.lines("env | grep PHJOB || echo none", platform=PrimeHubSettings()) == ["none"]


def test_names_that_no_shell_can_set_arrive_all_the_same(place: Place, sandbox: None) -> None:
    assert place.lines("env | grep '^MY-ENV_KEY='", variables={"MY-ENV_KEY": "x"}) == ["MY-ENV_KEY=x"]


def test_what_admins_give_takes_the_place_of_nothing(place: Place, sandbox: None) -> None:
    given = {"PRIMEHUB_USER": "mallory", "HOME": "/x", "HOLDFAST_JOB": "other", "TZ": "Mars/Base"}
    found = place.lines(echo([*given]), variables=given)
    assert found == ["PRIMEHUB_USER=alice", "HOME=/home/jovyan", f"HOLDFAST_JOB={JOB_ID}", "TZ=Asia/Taipei"]


def test_variables_of_admins_are_named_as_secret(place: Place) -> None:
    launch = place.launch("true", variables={"DB_PASS": "x"})
    assert launch.env["DB_PASS"] == "x"
    assert launch.secret_env == {"DB_PASS"}


def test_variables_that_cannot_be_are_left_out_aloud(place: Place, sandbox: None) -> None:
    given = {"A=B": "x", "": "y", "NUL": "a\0b", "LONG": "x" * 200_000, "FINE": "z"}
    ran = place.run(echo(["FINE"]), variables=given)
    assert (ran.code, ran.out) == (0, "FINE=z\n")
    assert ran.err.count("[primehub] The variable") == 4
    assert "x" * 1000 not in ran.err


# -- the group's profile


def profile(place: Place, text: str) -> None:
    (place.volume / ".primehub").mkdir()
    (place.volume / ".primehub/profile").write_text(text)


def test_the_groups_profile_is_read_before_the_command(place: Place, sandbox: None) -> None:
    profile(place, 'export MODEL=bert\nown=1\nset -e\ncd /tmp\necho "from $PRIMEHUB_GROUP_VOLUME_PATH"\n')
    ran = place.run('echo "$MODEL ${own-unset} $PWD"; false; echo on')
    assert (ran.code, ran.out.splitlines()) == (0, ["from /project/team-a", "bert unset /home/jovyan", "on"])
    assert "group profile: /project/team-a/.primehub/profile" in ran.err


@pytest.mark.parametrize(("text", "code"), [("no-such-program\nfalse\n", 0), ("exit 9\n", 9), ("if\n", 0)])
def test_a_profile_that_fails_or_ends_the_job(place: Place, sandbox: None, text: str, code: int) -> None:
    profile(place, text)
    ran = place.run("echo on")
    assert (ran.code, ran.out) == (code, "" if code else "on\n")


def test_no_profile_is_said_to_be_none(place: Place, sandbox: None) -> None:
    assert "group profile not found\n" in place.run("true").err


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_profile_holds_nothing_up(place: Place, sandbox: None, kind: str) -> None:
    """Any member can put anything there."""
    (place.volume / ".primehub").mkdir()
    path = place.volume / ".primehub/profile"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(place.root / "outside")
        (place.root / "outside").write_text("echo escaped\n")
    ran = place.run("echo on")
    assert (ran.code, ran.out) == (0, "on\n")
    assert "group profile not found" in ran.err


# -- where there is no sandbox


def test_without_a_sandbox_links_in_the_home_lead_to_the_machines_folders(place: Place) -> None:
    (place.dataset("mnist") / "seen").write_text("digits\n")
    (place.volume / "seen").write_text("volume\n")
    profile(place, "export MODEL=bert\n")
    names = ["PRIMEHUB_GROUP_VOLUME_PATH", "PRIMEHUB_PHFS_PATH", "MODEL"]
    found = place.lines(
        f'[ "$PWD" = "$HOME" ]; cat datasets/mnist/seen team-a/seen; echo kept >phfs/new; {echo(names)}', PLAIN
    )
    assert found[:3] == ["digits", "volume", f"PRIMEHUB_GROUP_VOLUME_PATH={place.volume}"]
    assert found[3].endswith("/phfs")
    assert found[4] == "MODEL=bert"
    assert (place.files / "new").read_text() == "kept\n"


def test_without_a_sandbox_the_machine_stays_as_it_was(place: Place) -> None:
    before = {path: os.path.lexists(path) for path in ("/datasets", "/phfs", "/project", "/usr/bin/sudo")}
    place.dataset("mnist")
    place.run("true", PLAIN)
    assert {path: os.path.lexists(path) for path in before} == before


# -- told to people


def test_every_variable_is_documented(place: Place) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/primehub-task.md").read_text()
    plain = Job(name="j", roles=(Role(name="main", commands=("a",)),))
    usual = {"HOME", *launch_of(plain).env} - {"PRIMEHUB_USER", "PRIMEHUB_GROUP"}
    ours = set(place.launch("true").env) - usual
    assert len(ours) > 10
    assert [name for name in sorted(ours) if f"`{name}`" not in page] == []
