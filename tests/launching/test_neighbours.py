"""Tasks that know each other by name: what ssh is told, in a real sandbox."""

from __future__ import annotations

import getpass
import json
import pwd
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.job import Job, JobFormat, Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Isolation, LaunchSpec
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.jobspec import parse_job
from holdfast.launching import GatewayAddress
from holdfast.launching.intra_job_ssh import MAX_WRITTEN_HOSTS
from holdfast.launching.keys import make_job_key_pair
from tests.engines.scenarios import need

from .scene import launch_of, placed, run, v1_job, v2_job, with_plugins
from .test_ssh import SEED, run_together, ssh

KEY = make_job_key_pair(bytes(32)).public.rpartition(" ")[0]
GATEWAY = GatewayAddress(host="127.0.0.1", port=2222, host_key=KEY)
SHUT = GatewayAddress(unavailable_reason="The SSH gateway is disabled on this server.")
HOME = pwd.getpwuid(0).pw_dir

needs_client = pytest.mark.skipif(not shutil.which("ssh"), reason="openssh-client is not installed")


def job_of(command: str, instances: int = 2, **more: Any) -> Job:
    roles = {"worker": {"commands": [command], "instances": instances}, **more.pop("roles", {})}
    return parse_job(json.dumps({"name": "job", "roles": roles, **more}), dialect=JobFormat.HOLDFAST).job


def launch(job: Job, gateway: GatewayAddress | None = GATEWAY, **surroundings: Any) -> LaunchSpec:
    seed = SEED if gateway and not gateway.unavailable_reason else None
    return launch_of(placed(job), gateway=gateway, job_seed=seed, **surroundings)


def settings(text: str) -> dict[str, str]:
    """Of `ssh -G`."""
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def resolved(tmp_path: Path, host: str, job: Job | None = None, mounts: tuple[Mount, ...] = ()) -> Mapping[str, str]:
    found = launch(job or job_of(f"ssh -G {host}"))
    ran = run(tmp_path, replace(found, mounts=mounts))
    assert ran.code == 0, ran.err
    return settings(ran.out)


# -- what ssh finds


@needs_client
def test_every_task_is_behind_the_gateway_under_its_name(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    more = {"Ps_1": {"commands": ["true"], "instances": 3}}
    for number, host in enumerate(("worker-1", "Ps_1-2", "ps1-2")):
        task = "worker-1" if host == "worker-1" else "ps1-2"
        found = resolved(tmp_path / str(number), host, job_of(f"ssh -G {host}", roles=more))
        assert (found["hostname"], found["port"], found["user"]) == ("127.0.0.1", "2222", f"j1.{task}")
        assert found["identityfile"] == "/run/holdfast/ssh/id_ed25519"
        assert (found["stricthostkeychecking"], found["identitiesonly"]) == ("true", "yes")


@pytest.mark.release_after(1)
@needs_client
@pytest.mark.parametrize("host", ["worker-2", "worker-1.example.org", "elsewhere"])
def test_other_hosts_are_none_of_its_business(tmp_path: Path, host: str) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    found = resolved(tmp_path, host)
    assert (found["hostname"], found["port"], found["user"]) == (host, "22", getpass.getuser())


@needs_client
def test_the_key_is_for_the_task_alone_and_in_no_variable(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    found = launch(job_of("stat -c '%a %n' /run/holdfast/ssh/*; stat -c %a /run/holdfast/entry; env"))
    assert "PRIVATE" not in str(found.env)
    said = run(tmp_path, found).out
    names = ("config", "gateway", "id_ed25519")
    assert said.startswith("".join(f"600 /run/holdfast/ssh/{name}\n" for name in names) + "500\n")
    assert "PRIVATE" not in said


def test_thousands_of_tasks_make_no_long_script() -> None:
    few, many = (launch(job_of("true", instances)).entry for instances in (2, 9000))
    assert len(many) - len(few) < 10


# -- the command runs as it would have


@pytest.mark.parametrize(("command", "code"), [("false; echo on", 1), ("true | false; exit 3", 1), ("exit 7", 7)])
def test_shell_options_and_exit_status_stay(tmp_path: Path, command: str, code: int) -> None:
    ran = run(tmp_path, launch(job_of(command)))
    assert (ran.code, ran.out, ran.err) == (code, "", "")


def test_options_that_come_with_the_environment_are_for_the_command(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    found = launch(job_of("echo ssh; echo $-"))
    broken = found.entry.replace("own=/run/holdfast/ssh", "own=/proc/none")
    ran = run(
        tmp_path,
        replace(found, entry=broken, env={**found.env, "SHELLOPTS": "errexit:noglob:nounset", "TMPDIR": "/proc/none"}),
    )
    assert (ran.code, ran.out.splitlines()[0]) == (0, "ssh"), ran.err
    assert {"e", "f", "u"} <= set(ran.out.splitlines()[1])
    assert "the ssh config is not writable in this image" in ran.err


def test_variables_of_the_setting_up_stay_in_it(tmp_path: Path) -> None:
    ran = run(tmp_path, launch(job_of("echo ${own-}${ssh-}${config-}${client-}; umask; pwd")))
    assert ran.out.splitlines()[:2] == ["", "0022"]


def test_a_job_of_one_task_pays_nothing_for_it() -> None:
    assert launch(job_of("ssh worker-0", instances=1)).entry == ""


def test_without_a_gateway_that_could_be_asked_there_is_no_word_of_it() -> None:
    assert launch(job_of("ssh worker-0"), gateway=None).entry == ""


# -- what is said where it cannot be


def test_a_job_that_uses_ssh_hears_why_there_is_none(tmp_path: Path) -> None:
    ran = run(tmp_path, launch(job_of("echo ssh; false"), SHUT))
    said = "SSH between the tasks of this job is not available. The SSH gateway is disabled on this server."
    assert (ran.code, ran.out, ran.err) == (1, "ssh\n", f"[holdfast] {said}\n")


def test_one_that_does_not_is_left_alone() -> None:
    assert launch(job_of("echo hello"), SHUT).entry == ""


def test_without_a_sandbox_nothing_of_the_machines_is_touched(tmp_path: Path) -> None:
    found = launch(job_of("echo ssh"), isolated=False)
    assert "PRIVATE KEY" not in found.entry
    ran = run(tmp_path, found, EmbeddedOptions(isolation="off"))
    assert (ran.code, ran.out) == (0, "ssh\n")
    assert "Jobs are not isolated on this machine." in ran.err


@pytest.mark.parametrize(("command", "said"), [("echo ssh", 1), ("echo hello", 0)])
def test_an_image_without_a_client_is_said_to_have_none(tmp_path: Path, command: str, said: int) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    found = launch(job_of(command))
    ran = run(tmp_path, replace(found, entry=found.entry.replace("$(ssh -V", "$(no-such-ssh -V")))
    assert (ran.code, ran.err.count("openssh-client is not in the image")) == (0, said), ran.err


# -- a config of the user's own


@needs_client
@pytest.mark.parametrize("old", [False, True], ids=["today", "before 2016"])
def test_a_home_that_is_mounted_keeps_what_it_has(tmp_path: Path, old: bool) -> None:
    """Two jobs have it at the same time."""
    need(Isolation.FULL)
    kept = tmp_path / "kept"
    (kept / ".ssh").mkdir(parents=True)
    (kept / "dotfiles").mkdir()
    mine = "User me\nHost mine\n    Port 1\n"
    (kept / "dotfiles" / "config").write_text(mine)
    (kept / ".ssh" / "config").symlink_to("../dotfiles/config")
    mounts = (Mount(volume=HostFolder(str(kept)), target=HOME, read_only=False),)
    found = launch(job_of("ssh -G worker-1; echo end; ssh -G mine"))
    if old:
        found = replace(found, entry=found.entry.replace("$(ssh -V 2>&1)", "'OpenSSH_7.2p2 Ubuntu-4'"))
    tasks = [replace(found, mounts=mounts, attempt_id=f"a{number}", ports={}) for number in range(4)]
    for ran in run_together(tmp_path / "home", tasks):
        assert ran.code == 0, ran.err
        ours, _, theirs = ran.out.partition("end\n")
        assert (settings(ours)["user"], settings(ours)["port"]) == ("j1.worker-1", "2222")
        assert (settings(theirs)["user"], settings(theirs)["port"]) == ("me", "1")
    config = (kept / "dotfiles" / "config").read_text()
    assert config.endswith(f"# job-ssh ends\n{mine}"), config
    assert config.count("# job-ssh begins") == 1, config
    assert (kept / ".ssh" / "config").is_symlink()
    assert sorted(path.name for path in (kept / "dotfiles").iterdir()) == ["config"]


# -- OpenPAI's jobs, without its plugin


def openpai(job: Job, number: int = 0, gateway: GatewayAddress = GATEWAY) -> LaunchSpec:
    return launch_of(placed(job), number, gateway=gateway, job_seed=None if gateway.unavailable_reason else SEED)


OWN_NAME = "$PAI_CURRENT_TASK_ROLE_NAME-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"


@pytest.mark.release_after(3)
@needs_client
@pytest.mark.parametrize("dialect", [JobFormat.OPENPAI_V1, JobFormat.OPENPAI_V2])
@pytest.mark.parametrize(("host", "task"), [("Ps_1-1", "ps1-1"), ("ps1-1", "ps1-1"), (OWN_NAME, "ps1-0")])
def test_openpais_tasks_know_each_other_without_a_plugin(
    tmp_path: Path, dialect: JobFormat, host: str, task: str
) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    if dialect is JobFormat.OPENPAI_V1:
        job = v1_job(f"ssh -G {host}", role={"name": "Ps_1", "taskNumber": 2})
    else:
        size = {"cpu": 1, "memoryMB": 1, "gpu": 0}
        role = {"dockerImage": "image", "resourcePerInstance": size, "commands": [f"ssh -G {host}"], "instances": 2}
        job = v2_job([], taskRoles={"Ps_1": role})
    ran = run(tmp_path, openpai(job))
    assert ran.code == 0, ran.err
    assert [settings(ran.out)[key] for key in ("hostname", "port", "user")] == ["127.0.0.1", "2222", f"j1.{task}"]
    assert ran.err == ""


@needs_client
def test_openpais_plugins_find_them_too(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    call = {"plugin": "cmd", "parameters": {"preCommands": ["ssh -G worker-1"]}}
    ran = run(tmp_path, openpai(with_plugins(["false"], call, role={"instances": 2})))
    assert (ran.code, settings(ran.out)["user"]) == (1, "j1.worker-1"), ran.err


ONLY_PS = {"taskroles": ["ps"]}


@pytest.mark.parametrize(
    ("call", "gang", "told"),
    [
        (ssh(jobssh=False), True, False),
        (ssh(jobssh="<% $parameters.no %>"), True, False),
        (ssh(jobssh=True), True, False),  # it does so itself
        (ssh(jobssh=True), False, True),
        (ssh(jobssh=False), False, False),
        (ssh(userssh={"value": ""}), True, True),
        ({**ssh(jobssh=False), **ONLY_PS}, True, True),
        ({**ssh(jobssh=True), **ONLY_PS}, True, True),
    ],
)
def test_who_says_jobssh_has_said_it_all(call: Mapping[str, Any], gang: bool, told: bool) -> None:
    job = with_plugins(
        ["true"], call, role={"instances": 2}, extras={"gangAllocation": gang}, parameters={"no": "false"}
    )
    assert ("own=/run/holdfast/ssh" in openpai(job).entry) == told


def test_openpais_jobs_of_one_task_pay_nothing_for_it() -> None:
    assert "holdfast/ssh" not in openpai(v2_job(["true"])).entry


def test_openpais_jobs_that_use_ssh_hear_why_there_is_none(tmp_path: Path) -> None:
    uses, does_not = (v2_job([f"echo {word}; false"], role={"instances": 2}) for word in ("ssh", "hello"))
    ran = run(tmp_path, openpai(uses, gateway=SHUT))
    assert (ran.code, ran.out) == (1, "ssh\n")
    why = "SSH between the tasks of this job is not available. The SSH gateway is disabled on this server."
    assert ran.err.endswith(f"[openpai-runtime] [WARN] {why}\n")
    assert "is not available" not in openpai(does_not, gateway=SHUT).entry


@needs_client
def test_names_that_are_written_out_are_those_of_the_loop(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    show = "cat /run/holdfast/ssh/config"
    own = run(tmp_path / "own", launch(job_of(show, 123, roles={"Ps_1": {"commands": ["true"], "instances": 2}})))
    size = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": [show]}
    roles = {"worker": {**size, "instances": 123}, "Ps_1": {**size, "instances": 2}}
    found = openpai(v2_job([], taskRoles=roles))
    assert "hosts()" not in found.entry
    assert run(tmp_path / "openpai", found).out == own.out
    assert own.out.count("Host ") == 125
    many = openpai(v2_job(["true"], role={"instances": MAX_WRITTEN_HOSTS + 1}))
    assert ("hosts()" in many.entry, f"Host worker-{MAX_WRITTEN_HOSTS}" in many.entry) == (True, False)


# -- OpenPAI's plugin


@needs_client
@pytest.mark.parametrize("sshd", [True, False])
def test_openpais_tasks_go_straight_to_an_sshd_and_else_through_the_gateway(tmp_path: Path, sshd: bool) -> None:
    need(Isolation.FULL)
    if sshd and not Path("/usr/sbin/sshd").exists():
        pytest.skip("openssh-server is not installed")
    job = with_plugins(["ssh -G worker-1"], ssh(jobssh=True), role={"instances": 2})
    found = launch_of(placed(job), gateway=GATEWAY, job_seed=SEED)
    if not sshd:
        found = replace(found, entry=found.entry.replace("command -v sshd", "command -v no-such-sshd"))
    ran = run(tmp_path, found)
    assert ran.code == 0, ran.err
    place = [settings(ran.out)[key] for key in ("hostname", "port", "user")]
    assert place == (["10.0.0.12", "20002", "root"] if sshd else ["127.0.0.1", "2222", "j1.worker-1"])
    assert ("Use the SSH gateway instead." in ran.err) != sshd


def test_openpais_barrier_asks_little_of_the_gateway() -> None:
    """One task goes to see the others, if they all wait for that."""
    leads, follows = "reach ': >/run/holdfast/ssh-barrier'", "until [ -e /run/holdfast/ssh-barrier ]"
    role = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": ["true"]}
    roles = {"worker": role, "ps": role}
    together = [ssh(jobssh=True, sshbarrier=True)]
    apart = [{**ssh(jobssh=True), "taskroles": ["worker"]}, {**together[0], "taskroles": ["ps"]}]
    for calls, found in ((together, [(True, False), (False, True)]), (apart, [(False, False), (False, False)])):
        snapshot = placed(with_plugins(["true"], *calls, taskRoles=roles))
        entries = [launch_of(snapshot, number, gateway=GATEWAY, job_seed=SEED).entry for number in (0, 1)]
        assert [(_holds(entry, leads), _holds(entry, follows)) for entry in entries] == found


def _holds(entry: str, text: str) -> bool:
    return shlex.quote(text)[1:-1] in entry


def test_openpais_tasks_of_another_image_are_behind_the_gateway() -> None:
    """Nobody knows whether that has an sshd."""
    role = {"dockerImage": "other", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": ["true"]}
    own = {**role, "dockerImage": "image"}
    more = [{"type": "dockerimage", "name": "other", "uri": "other:1"}]
    job = with_plugins(["true"], ssh(jobssh=True), prerequisites=more, taskRoles={"worker": own, "ps": role})
    with_gateway, without = (
        launch_of(placed(job), gateway=gateway, job_seed=SEED).entry for gateway in (GATEWAY, SHUT)
    )
    assert ("Host worker-0\n    HostName" in with_gateway, "Host ps-0\n    HostName" in with_gateway) == (True, False)
    assert "Host ps-0\n    HostName" in without
