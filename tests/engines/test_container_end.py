"""How a task in a container ended, from its runner's report and the daemon's answer; and what the container gets."""

from __future__ import annotations

import pytest

from holdfast.core.job import GIB, MIB, Resources
from holdfast.engines.container.daemon import ContainerImage, shorten_image_name
from holdfast.engines.container.limitations import (
    DaemonDescription,
    find_task_warning,
    is_remote,
    list_limitations,
    parse_description,
)
from holdfast.engines.container.names import ContainerNames
from holdfast.engines.container.render import ContainerLimits, render_create_body
from holdfast.engines.container.task_end import ContainerState, EndKind, TaskEnd, decide_end
from holdfast.engines.runner_report import RunnerReport, parse_report
from tests.contracts.engine_contract import launch

CLAIMED = RunnerReport(claimed=True, started=100)
ARGV = ("/bin/sh", "/run/holdfast/runner")
LIMITS = ContainerLimits(pids_max=100, default_shm=64 * MIB, network="host")


def exited(code: int, *, oom: bool = False, started: bool = True) -> ContainerState:
    return ContainerState(id="c", status="exited", code=code, oom=oom, started=started)


@pytest.mark.parametrize(
    ("data", "report"),
    [
        (b"", RunnerReport()),
        (b"run 7 100", RunnerReport()),  # unfinished: nothing has run
        (b"run 7 100\n", CLAIMED),
        (b"run 7 100\nend 3 2.50 0\n", RunnerReport(claimed=True, started=100, code=3, ended=2.5, oom=False)),
        (b"run 7 100\nend 137 2.50 2\n", RunnerReport(claimed=True, started=100, code=137, ended=2.5, oom=True)),
        (b"run 7 100\nend 3 2.50 -\n", RunnerReport(claimed=True, started=100, code=3, ended=2.5, oom=None)),
        (b"run 7 100\nend 3 nan 0\n", CLAIMED),
        (b"run 7 100\nend 999 2.5 0\n", CLAIMED),
        (b"run 7 100\nend -1 1e300 0\n\xff\0\n", CLAIMED),
        (b"end 3 2.50 0\n", RunnerReport()),
    ],
)
def test_the_runners_report_is_read_strictly(data: bytes, report: RunnerReport) -> None:
    assert parse_report(data) == report


@pytest.mark.parametrize(
    ("report", "container", "facts", "end"),
    [
        (RunnerReport(claimed=True, code=3), exited(137), {}, TaskEnd(EndKind.EXITED, 3)),  # the report comes first
        (RunnerReport(claimed=True, code=0), exited(0, oom=True), {}, TaskEnd(EndKind.EXITED, 0)),
        (RunnerReport(claimed=True, code=9, oom=True), None, {}, TaskEnd(EndKind.EXITED, 9, True)),
        (CLAIMED, None, {}, TaskEnd(EndKind.REMOVED)),
        (RunnerReport(), None, {"started": True}, TaskEnd(EndKind.REMOVED)),  # though the task deleted its claim
        (RunnerReport(), None, {}, TaskEnd(EndKind.ABSENT)),
        (RunnerReport(), exited(0, started=False), {}, TaskEnd(EndKind.ABSENT)),
        (CLAIMED, exited(0, started=False), {}, TaskEnd(EndKind.KILLED)),  # never a success that nobody saw
        (CLAIMED, exited(0, started=False), {"stopped": True}, TaskEnd(EndKind.EXITED, 137)),
        (RunnerReport(claimed=True, code=3), exited(0, started=False), {}, TaskEnd(EndKind.EXITED, 3)),
        (RunnerReport(), exited(127), {}, TaskEnd(EndKind.NO_SHELL, 127)),
        (RunnerReport(), exited(127), {"started": True}, TaskEnd(EndKind.NO_SHELL, 127)),  # its init was seen
        (RunnerReport(), exited(1), {"started": True}, TaskEnd(EndKind.NO_SHELL, 1)),  # Podman's init
        (RunnerReport(), exited(125), {}, TaskEnd(EndKind.NOT_RUN, 125)),
        (RunnerReport(), exited(125), {"started": True}, TaskEnd(EndKind.EXITED, 125)),  # it deleted its claim
        (RunnerReport(), exited(3), {"started": True}, TaskEnd(EndKind.EXITED, 3)),
        (RunnerReport(), exited(0), {"started": True}, TaskEnd(EndKind.NO_SHELL)),  # its shell may have run nothing
        (CLAIMED, exited(137), {}, TaskEnd(EndKind.KILLED, 137)),
        (CLAIMED, exited(137), {"stopped": True}, TaskEnd(EndKind.EXITED, 137)),
        (CLAIMED, exited(137, oom=True), {}, TaskEnd(EndKind.EXITED, 137, True)),
        (CLAIMED, exited(137), {"oom": True}, TaskEnd(EndKind.EXITED, 137, True)),
        (CLAIMED, exited(4), {}, TaskEnd(EndKind.EXITED, 4)),  # its disk was full: no report
    ],
)
def test_an_end_is_decided(
    report: RunnerReport, container: ContainerState | None, facts: dict[str, bool], end: TaskEnd
) -> None:
    known = {"started": False, "stopped": False, "oom": False, **facts}
    assert decide_end(report, container, **known) == end


def test_names_differ_by_installation_and_attempt() -> None:
    one, two = ContainerNames("abcdef0123"), ContainerNames("An odd/ID")
    names = {each.make_name(attempt) for each in (one, two) for attempt in ("J.0.Worker~0", "j.0.worker~0")}
    assert len(names) == 4
    assert one.make_name("a").startswith("hf-abcdef-")
    assert all(len(name) == 36 and name == name.lower() and name.replace("-", "").isalnum() for name in names)
    labels = one.make_labels("a", "j", "worker-0")
    assert one.is_own(labels)
    assert not two.is_own(labels)


def test_nothing_secret_is_in_the_containers_config() -> None:
    work = launch("a", "echo secret-script", env={"TOKEN": "secret-value"}, entry="secret-entry")
    body = render_create_body(work, ARGV, ContainerImage(env={"A": "b"}), None, {}, [], LIMITS)
    assert "secret" not in str(body)
    assert body["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]


def test_limits_and_devices_are_in_the_containers_config() -> None:
    work = launch("a", "", resources=Resources(cpu=1.5, memory=GIB, gpu=2, shm=MIB), gpus=(1, 3))
    body = render_create_body(work, ARGV, ContainerImage(workdir="/app"), None, {"l": "v"}, [], LIMITS)
    host = body["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, GIB, GIB)
    assert (host["PidsLimit"], host["ShmSize"], host["Init"]) == (100, MIB, True)
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["1", "3"]
    assert {"MKNOD", "NET_RAW"} <= set(host["CapDrop"])
    assert (body["WorkingDir"], body["Labels"], "Env" in body) == ("/app", {"l": "v"}, False)


@pytest.mark.parametrize(
    ("name", "info", "words"),
    [
        ("Engine", {"LiveRestoreEnabled": True, "SecurityOptions": ["name=seccomp,profile=default"]}, []),
        ("Engine", {"LiveRestoreEnabled": False, "SecurityOptions": None}, ["live-restore"]),
        ("Podman Engine", {"LiveRestoreEnabled": False}, ["GPUs"]),
        ("Engine", {"LiveRestoreEnabled": True, "SecurityOptions": ["name=rootless"]}, ["rootless"]),
        ("Engine", {"LiveRestoreEnabled": True, "SecurityOptions": ["name=userns"]}, ["Remapped users"]),
        ("Podman Engine", {"Rootless": True, "CgroupVersion": "1"}, ["GPUs", "rootless", "does not limit memory"]),
        ("Engine", {"LiveRestoreEnabled": True, "MemoryLimit": False}, ["does not limit memory"]),
    ],
)
def test_what_a_daemon_does_not_guarantee_is_noted(name: str, info: dict[str, object], words: list[str]) -> None:
    notes = list_limitations(parse_description({"Components": [{"Name": name}]}, info), has_root=True)
    assert len(notes) == len(words) + 1
    assert all(word in note for word, note in zip([*words, "Disk limits"], notes, strict=True))


@pytest.mark.parametrize(("rootless", "words"), [(False, ["shells", "home", "processes"]), (True, ["shells", "home"])])
def test_what_an_ordinary_user_cannot_do_is_noted(rootless: bool, words: list[str]) -> None:
    found = parse_description({}, {"LiveRestoreEnabled": True, "Rootless": rootless, "CgroupVersion": "2"})
    notes = list_limitations(found, has_root=False)
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_a_task_is_told_what_it_must_do_without() -> None:
    limited, unlimited = DaemonDescription(), DaemonDescription(memory_limits=False)
    plain, held = launch("a", ""), launch("a", "", hold=True)
    assert find_task_warning(limited, held, has_root=True) == ""
    assert find_task_warning(limited, plain, has_root=False) == ""
    assert "does not limit memory" in find_task_warning(unlimited, plain, has_root=True)
    assert "shells" in find_task_warning(limited, held, has_root=False)


@pytest.mark.parametrize(("kernel", "remote"), [("6.1.0-test", False), ("6.6.9-other", True), ("", False)])
def test_a_daemon_on_another_machine_is_recognized(kernel: str, remote: bool) -> None:
    assert is_remote(parse_description({}, {"KernelVersion": kernel}), "6.1.0-test") is remote


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("docker.io/library/base:latest", "base"),
        ("localhost/base:1", "base:1"),
        ("example.org/team/base:latest", "example.org/team/base"),
    ],
)
def test_image_names_are_as_users_write_them(tag: str, name: str) -> None:
    assert shorten_image_name(tag) == name
