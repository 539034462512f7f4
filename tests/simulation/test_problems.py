"""Each thing that would break in the real run, and beside it a job that is well and gets no alarm for it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.core.verdicts import Fault
from holdfast.simulation import RemarkLevel, RemarkTopic, SimulationEnding

from .simulations import Place

LISTEN = "import socket, sys, time; s = socket.socket(); s.bind(('', int(sys.argv[1]))); s.listen(); time.sleep(4)"


@dataclass(frozen=True)
class Pair:
    about: RemarkTopic
    says: str
    broken: dict[str, Any]
    healthy: dict[str, Any]
    level: RemarkLevel = RemarkLevel.PROBLEM
    hint: str = ""


def job(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "try", "command": command, **more}


def openpai(*commands: str, image: str = "host", **more: Any) -> dict[str, Any]:
    return {
        "protocolVersion": 2,
        "name": "try",
        "type": "job",
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": image}],
        "taskRoles": {
            "worker": {
                "instances": 2,
                "dockerImage": "i",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
                "commands": list(commands),
            }
        },
        **more,
    }


PAIRS = {
    "image": Pair(
        RemarkTopic.IMAGE,
        "The image tyny is not imported",
        job("echo", image="tyny"),
        job("echo", image="tiny:latest"),
        hint="Did you mean 'tiny'?",
    ),
    "program": Pair(
        RemarkTopic.COMMAND,
        "The image tiny has no program python3",
        job("echo a; python3 x.py", image="tiny"),
        job(
            'greet() { echo hi; }; greet; ls /; [ -z "" ] && echo; if command -v python3; then python3 -V; fi\n'
            "nosuch || true\nfor i in 1 2; do echo $i; done\ncase x in x) : ;; y) nosuch ;; esac\n"
            "cat <<END\nnosuch too\nEND\n",
            image="tiny",
        ),
        level=RemarkLevel.WARNING,
    ),
    "syntax": Pair(
        RemarkTopic.SYNTAX,
        "Shell syntax error in the commands",
        job("if true; then echo"),
        job("if true; then echo; fi"),
    ),
    "template": Pair(
        RemarkTopic.TEMPLATE,
        "<% $parameters.rat %> is not defined",
        openpai("echo '<% $parameters.rat %>'", parameters={"rate": 1}),
        openpai("echo '<% $parameters.rate %>'", parameters={"rate": 1}),
    ),
    "secret": Pair(
        RemarkTopic.TEMPLATE,
        "<% $secrets.pasword %> is not defined",
        job("echo '<% $secrets.pasword %>'", secrets={"password": "hunter22"}),
        job("echo '<% $secrets.password %>'", secrets={"password": "hunter22"}),
        hint="Did you mean <% $secrets.password %>?",
    ),
    "variable": Pair(
        RemarkTopic.VARIABLE,
        "$PAI_TASK_INDX is not set",
        openpai("echo $PAI_TASK_INDX"),
        openpai(
            "echo $PAI_TASK_INDEX ${PAI_NOWHERE:-none} $PAI_OF_IMAGE; PAI_OWN=1; echo $PAI_OWN",
            'set +u; if [ -n "$PAI_MAYBE" ]; then echo; fi',
            image="tiny",
        ),
        hint="Did you mean 'PAI_TASK_INDEX'?",
    ),
    "family of variables": Pair(
        RemarkTopic.VARIABLE,
        "$PAI_HOST_IP_worker_2 is not set",
        openpai("echo $PAI_HOST_IP_worker_2"),
        # the second instance is not run, but the real run has it
        openpai("echo $PAI_HOST_IP_worker_1", 'for i in 0 1; do eval "echo \\$PAI_HOST_IP_worker_$i"; done'),
    ),
    "variable in parts": Pair(
        RemarkTopic.VARIABLE,
        "$PAI_HOST_IP_worker_ is not set",
        openpai("i=0", "echo $PAI_HOST_IP_worker_$i"),
        openpai("name=PAI_HOST_IP_worker_0", "echo ${!name}"),
        hint="A shell does not join names",
    ),
    "of the other platform": Pair(
        RemarkTopic.VARIABLE,
        "$PAI_TASK_INDEX is not set",
        job("echo $PAI_TASK_INDEX"),
        job("echo $HOLDFAST_TASK_INDEX $PRIMEHUB_USER"),
    ),
    "mount": Pair(
        RemarkTopic.MOUNT,
        "/there/is/nothing, mounted at /data, does not exist on this machine",
        job("ls /data", mounts=[{"source": "/there/is/nothing", "target": "/data"}]),
        job("ls /data", mounts=[{"source": "/usr/share", "target": "/data"}]),
        level=RemarkLevel.WARNING,
    ),
    "script": Pair(
        RemarkTopic.FILE,
        "The commands use the file train.py",
        job("echo begin\npython3 -u train.py --rate 1"),
        job("echo 'print(1)' >train.py\npython3 -u train.py\n[ ! -f other.sh ] || sh other.sh\n"),
        level=RemarkLevel.WARNING,
    ),
    "folder": Pair(
        RemarkTopic.PATH,
        "The commands change to the folder /opt/project/src",
        job("cd /opt/project/src\necho"),
        job("mkdir -p work\ncd work\ncd /tmp\ncd\necho"),
        level=RemarkLevel.WARNING,
    ),
    "port not asked for": Pair(
        RemarkTopic.PORT,
        "listens on port 18097 without requesting it",
        job(f'python3 -c "{LISTEN}" 18097'),
        job(f'python3 -c "{LISTEN}" $HOLDFAST_PORT_WEB', ports={"web": 1}),
        level=RemarkLevel.WARNING,
        hint="Request it in ports, and listen on $HOLDFAST_PORT_NAME.",
    ),
    "another port than asked for": Pair(
        RemarkTopic.PORT,
        "listens on port 18098 without requesting it",
        job(f'python3 -c "{LISTEN}" 18098', ports={"my-web": 1}),
        job("echo quick", ports={"my-web": 1}),
        level=RemarkLevel.WARNING,
        hint="Listen on $HOLDFAST_PORT_MY_WEB, which it requests.",
    ),
    "port not used": Pair(
        RemarkTopic.PORT,
        "requests the port web",
        job("sleep 8", ports={"web": 1}),
        job("echo quick", ports={"web": 1}),  # too quick to tell
        level=RemarkLevel.WARNING,
        hint="Listen on $HOLDFAST_PORT_WEB. Or remove the port from the job.",
    ),
}


@pytest.mark.release_after(2)
@pytest.mark.parametrize("name", PAIRS)
def test_what_would_break_is_said_and_nothing_of_what_is_well(place: Place, name: str) -> None:
    pair = PAIRS[name]
    broken = place.run(pair.broken)
    found = [each for each in broken.remarks(pair.about) if pair.says in each.text]
    assert found, broken.report
    assert found[0].level is pair.level
    assert pair.hint in found[0].hint
    assert place.run(pair.healthy).alarms == []


@pytest.mark.release_after(1)
@pytest.mark.parametrize(
    ("command", "fault", "says"),
    [
        ("nosuch --at all", Fault.COMMAND_NOT_FOUND, "nosuch"),
        ("echo x >/data/new", Fault.READ_ONLY, "ead-only"),
        (f'python3 -c "{LISTEN}" $TAKEN', Fault.PORT_IN_USE, "in use"),
        ("exit 3", Fault.UNKNOWN, "without output"),
    ],
)
def test_a_bad_exit_is_judged(place: Place, command: str, fault: Fault, says: str) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        made = job(
            command, env={"TAKEN": str(taken.getsockname()[1])}, mounts=[{"source": "/usr/share", "target": "/data"}]
        )
        found = place.run(made).report
    assert found.has_problems
    assert found.diagnosis is not None
    assert found.diagnosis.fault is fault
    (remark,) = [each for each in found.remarks if each.about is RemarkTopic.EXIT and each.level is RemarkLevel.PROBLEM]
    assert says in f"{remark.text} {remark.evidence}"
    assert remark.hint


@pytest.mark.release
def test_what_runs_until_time_is_up_has_not_failed(place: Place) -> None:
    found = place.run(job("echo begun; trap 'exit 7' TERM; sleep 60 & wait"), timeout=1.5)
    assert found.report.ending is SimulationEnding.TIMEOUT
    assert not found.report.has_problems
    assert "without failing" in found.report.tasks[0].message
    assert found.lines == ("main-0 | begun",)


def test_a_failure_for_what_only_the_real_run_has_is_excused(place: Place) -> None:
    empty = place.run(job("cat /datasets/corpus/a.txt", datasets=["corpus"]))
    (remark,) = empty.remarks(RemarkTopic.EXIT)
    assert remark.level is RemarkLevel.WARNING
    assert "/datasets/corpus is empty in a simulation" in remark.text
    no_gpu = place.run(job("nvidia-smi-is-not-here-either", resources={"gpu": 500}))
    (remark,) = no_gpu.remarks(RemarkTopic.EXIT)
    assert remark.level is RemarkLevel.WARNING
    assert place.run(job("cat /there/is/none", datasets=["corpus"])).report.has_problems


def test_the_rules_of_the_job_decide(place: Place) -> None:
    """A role whose failures the job allows, beside one whose success ends the job."""
    allowed = {"command": "exit 3", "completion": {"min_failed": "none"}}
    enough = {"command": "sleep 1", "completion": {"min_succeeded": 1}}
    endless = {"command": "sleep 600"}
    found = place.run({"name": "rules", "roles": {"allowed": allowed, "enough": enough, "endless": endless}})
    assert found.report.ending is SimulationEnding.ENDED
    assert not found.report.has_problems
    assert [task.state for task in found.report.tasks] == ["Failed", "Succeeded", "Stopped"]
    assert "allowed-0 failed, which the job's completion rules allow" in found.remarks(RemarkTopic.EXIT)[0].text
    (stopped,) = [each for each in found.remarks(RemarkTopic.EXIT, RemarkLevel.NOTE) if each.role == "endless"]
    assert "Succeeded tasks of role enough: 1 (1 required)" in stopped.text
    assert "--role endless" in stopped.hint


@pytest.mark.release
def test_each_role_comes_to_its_own_fault(place: Place) -> None:
    """Though the first failure would end the real run, and one of them cannot run at all."""
    roles = {
        "late": {"command": "sleep 2; cat /there/is/none.csv"},
        "soon": {"command": "exit 3"},
        "nowhere": {"command": "echo", "image": "tyny"},
    }
    found = place.run({"name": "faults", "roles": roles})
    assert {task.task: task.state for task in found.report.tasks} == {
        "late-0": "Failed",
        "soon-0": "Failed",
        "nowhere-0": "Not run",
    }
    problems = " ".join(each.text for each in found.report.remarks if each.level is RemarkLevel.PROBLEM)
    assert "/there/is/none.csv" in problems
    assert "soon-0: Exit code 3 without output" in problems
    assert "The image tyny is not imported: role nowhere did not run" in problems
    (rule,) = found.remarks(RemarkTopic.EXIT, RemarkLevel.NOTE)
    assert rule.text == "The real run stops all tasks when soon fails; in the simulation late continued"


@pytest.mark.release
def test_what_failed_because_another_did_is_no_problem_of_its_own(place: Place) -> None:
    roles = {
        "server": {"command": "python3 -c 'import nosuch_module'"},
        "client": {"command": "sleep 2; echo 'ConnectionRefusedError: [Errno 111] Connection refused'; exit 1"},
    }
    found = place.run({"name": "chain", "roles": roles})
    first, second = found.remarks(RemarkTopic.EXIT)
    assert (first.level, second.level) == (RemarkLevel.PROBLEM, RemarkLevel.WARNING)
    assert "nosuch_module" in first.text
    assert "The failure of server-0 may have caused it" in second.text


def test_paths_in_what_is_empty_here_are_named(place: Place) -> None:
    form = {"displayName": "form", "instanceType": "any", "image": "host", "groupName": "vision"}
    found = place.run({**form, "command": "cat /datasets/imagenet/x || true\nmkdir -p /phfs/out; ls /phfs/out"})
    (named,) = found.remarks(RemarkTopic.PATH)
    assert named.level is RemarkLevel.WARNING
    assert named.text == "/datasets/imagenet/x was not checked: /datasets is an empty folder in the simulation"
