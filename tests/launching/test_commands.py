"""How the commands of OpenPAI jobs run, on a real engine."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.identity import build_container_uid
from holdfast.core.job import Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.images.image_store import ImageStore
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.archives import config, docker_archive, shell_entries, tar
from tests.engines.scenarios import need, play

from .scene import Ran, launch_of, placed, run, v1_job, v2_job

CONTAINER = build_container_uid("j1.0.worker-0.0")
PLAIN = EmbeddedOptions(isolation="off")


# -- what the commands are run with


@pytest.mark.release_after(3)
@pytest.mark.parametrize(
    ("commands", "code", "out"),
    [
        (["echo a", "false", "echo b"], 1, "a\n"),
        (["echo a", "exit 7", "echo b"], 7, "a\n"),
        (["echo a", 'echo "$NOT_SET"', "echo b"], 1, "a\n"),
        (["false | true", "echo b"], 1, ""),
        (["kill -9 $$"], 137, ""),
        (["cd /tmp; x=1", 'echo "$PWD $x"'], 0, "/tmp 1\n"),
        (["echo $0 $#"], 0, "{place}/runtime.d/user.sh 0\n"),
    ],
)
def test_the_first_command_that_fails_ends_the_task(tmp_path: Path, commands: list[str], code: int, out: str) -> None:
    ran = run(tmp_path, v2_job(commands))
    place = "/usr/local/pai" if os.geteuid() == 0 else f"/home/jovyan/.pai/{CONTAINER}"
    assert (ran.code, ran.out) == (code, out.format(place=place)), ran.err


@pytest.mark.parametrize(
    ("command", "code", "out"),
    [
        ('false; echo "[$NOT_SET]"; false | true; echo b', 0, "[]\nb\n"),
        ("echo a; false", 1, "a\n"),
        ("echo a; exit 9", 9, "a\n"),
    ],
)
def test_commands_of_the_first_age_go_on_after_a_failure(tmp_path: Path, command: str, code: int, out: str) -> None:
    ran = run(tmp_path, v1_job(command))
    assert (ran.code, ran.out) == (code, out), ran.err


def test_deployment_commands_are_part_of_one_script(tmp_path: Path) -> None:
    around = {"preCommands": ["cd /tmp", "x=1"], "postCommands": ["echo after $x $PWD"]}
    more = {"deployments": [{"name": "d", "taskRoles": {"worker": around}}], "defaults": {"deployment": "d"}}
    assert run(tmp_path / "a", v2_job(["echo $PWD"], **more)).out == "/tmp\nafter 1 /tmp\n"
    failed = run(tmp_path / "b", v2_job(["false"], **more))
    assert (failed.code, failed.out) == (1, "")


NASTY = [
    "cat <<'EOF'\n'single' \"double\" \\ $HOME `x` $(y)\nEOF\necho done",
    "printf '%s' 'no newline at the end'",
    "echo 'a\rb\r\r'; echo 'tab\there'",
    "echo '\\'; echo \"'\"; echo '$'\\''x'",
    "# EOF\nEOF=1\necho EOF\n: <<EOF\nHOLDFAST\nEOF",
    "echo 'ünï¢ode 🚀 \u2028'",
    "x='" + "long " * 200_000 + "'; echo ${#x}",
]


@pytest.mark.release_after(3)
@pytest.mark.parametrize("command", NASTY)
def test_commands_arrive_byte_for_byte(tmp_path: Path, command: str) -> None:
    job = v2_job([command, 'cat "$PAI_RUNTIME_DIR/runtime.d/user.sh" >&2; printf "\\1END\\1" >&2'])
    job = replace(job, roles=(replace(job.roles[0], commands=(command, job.roles[0].commands[1])),))
    ran = run(tmp_path, job)
    assert ran.code == 0, ran.err[-500:]
    shown = ran.err.partition("\1END")[0]
    assert shown == "\n".join(job.roles[0].commands) + "\n"


@pytest.mark.release_after(2)
@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -TERM $$", "kill -KILL $$"])
def test_the_log_is_the_commands_own(tmp_path: Path, end: str) -> None:
    ran = run(tmp_path, v2_job(["echo mine", "echo mine too >&2", end]))
    assert (ran.out, ran.err) == ("mine\n", "mine too\n")


# -- what they find


def test_files_are_where_scripts_look_for_them(tmp_path: Path) -> None:
    need(Isolation.FULL)
    script = "cd /usr/local/pai; ls; cat job_config.yaml; env -i bash -c '. ./runtime_env.sh; echo $PAI_TASK_INDEX'"
    job = v2_job([script], secrets={"token": "hunter2"}, parameters={"it": "isn't"})
    ran = run(tmp_path, job)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("job_config.yaml\nlogs\nruntime.d\nruntime_env.sh\n{")
    assert ran.out.endswith("}\n0\n")
    config = json.loads(ran.out[ran.out.index("{") : ran.out.rindex("}") + 1])
    assert (config["parameters"], config["secrets"]) == ({"it": "isn't"}, "******")
    assert "hunter2" not in ran.out


def test_it_starts_where_the_image_says_and_knows_it(tmp_path: Path) -> None:
    ran = run(tmp_path, v2_job(['[ "$PAI_WORK_DIR" = "$PWD" ]', '. "$PAI_RUNTIME_DIR/runtime_env.sh"', "pwd"]))
    assert (ran.code, ran.out) == (0, "/home/jovyan\n"), ran.err


def test_without_a_sandbox_nothing_of_the_machine_is_touched(tmp_path: Path) -> None:
    before = Path("/usr/local/pai").exists()
    ran = run(tmp_path, v2_job(['echo "$PAI_RUNTIME_DIR"; echo "$PAI_JOB_NAME"; exit 4']), PLAIN, isolated=False)
    assert ran.code == 4, ran.err
    assert ran.out.splitlines() == [f"{tmp_path}/tasks/j1.0.worker-0.0/scratch/.pai/{CONTAINER}", "alice~job"]
    assert Path("/usr/local/pai").exists() is before


@pytest.mark.parametrize("target", ["/usr/local/pai", "/usr/local/", "/usr/local/pai/runtime.d/x"])
def test_nothing_is_written_into_what_is_mounted(tmp_path: Path, target: str) -> None:
    need(Isolation.FULL)
    (tmp_path / "data").mkdir()
    mount = Mount(volume=HostFolder(str(tmp_path / "data")), target=target, read_only=False)
    job = v2_job(['echo "$PAI_RUNTIME_DIR"'])
    ran = run(tmp_path / "home", replace(job, roles=(replace(job.roles[0], mounts=(mount,)),)))
    assert (ran.code, ran.out) == (0, f"/root/.pai/{CONTAINER}\n"), ran.err
    assert not list((tmp_path / "data").iterdir())


def test_variables_beyond_the_environment_reach_programs_too(tmp_path: Path) -> None:
    job = v2_job(["env | grep -c ^PAI_HOST_IP_", "python3 -c 'import os; print(len(os.environ))' >&2"])
    job = replace(job, roles=(replace(job.roles[0], instances=900),))
    ran = run(tmp_path, launch_of(placed(job, ports_from=1)))
    assert (ran.code, ran.out) == (0, "900\n"), ran.err[-500:]


def test_names_no_shell_can_set_reach_programs_too(tmp_path: Path) -> None:
    look = "import os; print(os.environ['PAI_HOST_IP_a.b~c_0'], os.environ['PAI_HOST_IP_abc_0'])"
    ran = run(tmp_path, v1_job(f'python3 -c "{look}"', role={"name": "a.b~c"}))
    assert (ran.code, ran.out) == (0, "10.0.0.11 10.0.0.11\n"), ran.err


def test_a_jobs_own_variables_do_not_disturb_the_runtime(tmp_path: Path) -> None:
    envs = {"code": "1", "dir": "2", "name": "3", "SHELLOPTS": "errexit:nounset", "IFS": "x", "quote": "it's"}
    ran = run(tmp_path, v1_job('echo "$code $dir $name $quote"', jobEnvs=envs))
    assert (ran.code, ran.out) == (0, "1 2 3 it's\n"), ran.err


@pytest.mark.parametrize(
    ("secrets", "out"),
    [({"a": "<&>'\"$HOME`x`"}, "[<&>'\"$HOME`x`][]\n"), (None, "[<% $secrets.a %>][<% $nowhere %>]\n")],
)
def test_secrets_are_put_in_as_they_are(tmp_path: Path, secrets: dict[str, str] | None, out: str) -> None:
    commands = ["cat <<'EOT'\n[<% $secrets.a %>][<% $nowhere %>]\nEOT"]
    ran = run(tmp_path, v2_job(commands, **({"secrets": secrets} if secrets else {})))
    assert (ran.code, ran.out) == (0, out), ran.err


# -- stopping


@pytest.mark.parametrize("options", [None, PLAIN], ids=["sandbox", "plain"])
def test_a_stop_reaches_the_commands_and_their_traps_have_time(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    found: list[Ran] = []
    commands = ["trap 'sleep 0.3; echo cleaned; exit 5' TERM", "echo up", "while :; do sleep 0.1; done"]

    async def scenario(rig: Rig) -> None:
        launch = replace(launch_of(v2_job(commands), isolated=options is None), ports={})
        await rig.engine.start(launch)
        log = rig.log(launch.attempt_id)
        while b"up" not in await read_all(log):
            await log.wait_for_growth(await log.get_size(), 1.0)
        await rig.engine.stop(launch.attempt_id, 50.0)
        end = await rig.end_of(launch.attempt_id)
        err = await read_all(rig.log(launch.attempt_id, LogStream.STDERR))
        found.append(Ran(end.code, await read_all(log), err))

    play(tmp_path, scenario, options)
    assert (found[0].code, found[0].out) == (5, "up\ncleaned\n"), found[0].err


def test_a_stop_ends_commands_without_traps_at_once(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        launch = replace(launch_of(v2_job(["echo up", "sleep 600"])), ports={})
        await rig.engine.start(launch)
        log = rig.log(launch.attempt_id)
        while b"up" not in await read_all(log):
            await log.wait_for_growth(await log.get_size(), 1.0)
        await rig.engine.stop(launch.attempt_id, 500.0)
        end = await asyncio.wait_for(rig.end_of(launch.attempt_id), 40)
        assert end.code == 143

    play(tmp_path, scenario)


# -- images without bash


def on_a_tiny_image(home: Path, *programs: str) -> Ran:
    """It has sh and cat, and what is named."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    archive = home / "tiny.tar"
    (home / "images").mkdir(parents=True)
    archive.write_bytes(docker_archive([tar(shell_entries(*programs))], config(WorkingDir="/work dir")))
    ImageStore(home / "images").add("tiny", archive)
    commands = [
        "echo $PAI_WORK_DIR $PAI_JOB_NAME",
        "false | true",
        'echo "$PAI_TASK_INDEX"',
        "echo $NOT_SET",
        "echo no",
    ]
    job = v2_job(commands)
    return run(home, replace(job, roles=(replace(job.roles[0], image="tiny"),)))


def test_without_bash_it_runs_with_sh(tmp_path: Path) -> None:
    ran = on_a_tiny_image(tmp_path / "home", "/bin/mkdir", "/bin/date")
    assert (ran.code, ran.out) == (2, "/work dir alice~job\n0\n"), ran.err
    assert "user.sh: 4: NOT_SET: parameter not set" in ran.err


def test_without_a_place_for_files_it_runs_and_says_so(tmp_path: Path) -> None:
    ran = on_a_tiny_image(tmp_path / "home")
    assert (ran.code, ran.out) == (2, "/work dir alice~job\n0\n"), ran.err
    assert "files of the runtime are missing" in ran.err
