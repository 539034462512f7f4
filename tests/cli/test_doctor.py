from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.api.server import Condition, Gateway
from holdfast.cli.server.doctor import (
    check_bubblewrap,
    check_cgroups,
    check_clock,
    check_conditions,
    check_disk,
    check_engine,
    check_exposure,
    check_inotify,
    check_namespaces,
    check_open_files,
    check_port,
    check_privileged_ports,
    check_proxy,
    check_python,
    check_ssh,
    run_probe,
)
from holdfast.engines.base import EngineHealth, Isolation
from tests.engines.scenarios import need

from .cli_runner import Cli


def test_an_old_python_fails_with_a_remedy() -> None:
    assert check_python((3, 11, 2)).status == "ok"
    check = check_python((3, 9, 1))
    assert (check.status, check.remedy) == ("fail", "Install Python 3.11 or newer.")


@pytest.mark.parametrize(
    ("file", "value", "remedy"),
    [
        ("sys/user/max_user_namespaces", "0", "max_user_namespaces"),
        ("sys/kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone"),
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor"),
    ],
)
def test_what_forbids_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, value: str, remedy: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert check_namespaces(tmp_path, lambda command: "").status == "ok"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(value + "\n")
    check = check_namespaces(tmp_path)
    assert check.status == "warn"
    assert remedy in str(check.remedy)


def test_namespaces_are_tried_and_not_only_looked_up(tmp_path: Path) -> None:
    check = check_namespaces(tmp_path, lambda command: "bwrap: No permissions to create new namespace")
    assert check.status == "warn"
    assert "No permissions" in check.message
    assert "namespaces" in str(check.remedy)


def test_a_probe_tells_why_it_failed() -> None:
    assert run_probe(["/nonexistent/program"])
    assert run_probe([sys.executable, "-c", "import sys; sys.exit('no such thing')"]) == "no such thing"
    assert run_probe([sys.executable, "-c", "import sys; sys.exit(3)"]) == "exit code 3"


def test_within_a_sandbox_that_forbids_namespaces_they_are_not_promised() -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    bwrap = check_bubblewrap().message
    script = "from holdfast.cli.server.doctor import check_namespaces; print(check_namespaces().status)"
    ordinary = ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    command = [bwrap, *ordinary, "--dev-bind", "/", "/", "--", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "userns" in done.stderr:
        pytest.skip(f"this bubblewrap cannot forbid namespaces: {done.stderr}")
    assert done.stdout == "warn\n", done.stderr


def test_the_kinds_of_cgroups(tmp_path: Path) -> None:
    assert check_cgroups(tmp_path).status == "warn"
    (tmp_path / "memory").mkdir()
    assert check_cgroups(tmp_path).message == "version 1"
    (tmp_path / "unified").mkdir()
    assert check_cgroups(tmp_path).message == "version 1 (hybrid)"
    (tmp_path / "cgroup.controllers").touch()
    assert check_cgroups(tmp_path).message == "version 2"


def test_a_port_in_use_is_told_from_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert check_port("127.0.0.1", port, None).status == "fail"
        held = check_port("127.0.0.1", port, None, holder=4711)
        assert (held.status, "kept open by process 4711" in held.message) == ("ok", True)
        assert check_port("127.0.0.1", port, "http://127.0.0.1:1").status == "ok"
    assert check_port("127.0.0.1", port, None).status == "ok"


def test_a_port_held_by_the_server_one_is_logged_in_to_is_no_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        url = f"http://localhost:{port}"
        check = check_port("127.0.0.1", port, None, url)
        assert check.status == "ok"
        assert url in check.message
        assert check_port("127.0.0.1", port, None, f"http://localhost:{port - 1}").status == "fail"
        assert check_port("127.0.0.1", port, None, f"http://192.0.2.1:{port}").status == "fail"


def test_a_proxy_that_is_not_trusted_is_a_warning() -> None:
    assert check_proxy("", []) == check_proxy("http://10.0.0.1:8080", []) == []
    (check,) = check_proxy("https://holdfast.example.org", [])
    assert (check.status, "server.trusted_proxies" in (check.remedy or "")) == ("warn", True)
    assert [check.status for check in check_proxy("https://holdfast.example.org", ["127.0.0.1"])] == ["ok"]


def test_clock_files_and_disk(tmp_path: Path) -> None:
    assert check_clock(datetime(1970, 1, 2, tzinfo=UTC)).status == "fail"
    assert check_open_files((1024, 1024)).status == "warn"
    assert check_open_files((1024, 65536)).status == "ok"
    assert str(tmp_path / "a/b") in check_disk(tmp_path / "a/b").message


def test_no_isolation_is_a_warning_with_its_reason() -> None:
    health = EngineHealth(name="embedded", isolation=Isolation.NONE, limits="watched", notes=("Do this.",))
    (check,) = check_engine(health)
    assert (check.status, check.remedy) == ("warn", "Do this.")
    full = EngineHealth(name="embedded", isolation=Isolation.FULL, limits="cgroup v2")
    assert [check.status for check in check_engine(full)] == ["ok"]
    blocked = Condition(kind="sandbox", message="Jobs are waiting.", blocks_starts=True)
    assert check_engine(full, [blocked]) == []


def test_the_engine_is_named_and_not_praised_while_it_is_blocked() -> None:
    full = EngineHealth(name="embedded", isolation=Isolation.FULL, limits="cgroup v2")
    other, own = (Condition(kind="engine", message="No daemon.", engine=name) for name in ("docker", "embedded"))
    (check,) = check_engine(full, [other])
    assert check.message.startswith("embedded: ")
    assert check_engine(full, [own]) == check_engine(full, [replace(own, engine="")]) == []


def write_number(proc: Path, name: str, number: int) -> None:
    (proc / name).parent.mkdir(parents=True, exist_ok=True)
    (proc / name).write_text(f"{number}\n")


def test_what_tasks_share_is_a_warning_where_it_is_scarce(tmp_path: Path) -> None:
    assert check_privileged_ports(tmp_path) == check_inotify(tmp_path) == []
    write_number(tmp_path, "sys/net/ipv4/ip_unprivileged_port_start", 1024)
    write_number(tmp_path, "sys/fs/inotify/max_user_instances", 8192)
    assert check_privileged_ports(tmp_path) == check_inotify(tmp_path) == []
    write_number(tmp_path, "sys/net/ipv4/ip_unprivileged_port_start", 0)
    write_number(tmp_path, "sys/fs/inotify/max_user_instances", 128)
    assert [check.status for check in (*check_privileged_ports(tmp_path), *check_inotify(tmp_path))] == ["warn", "warn"]


@pytest.mark.parametrize(
    ("host", "public_url", "warns"),
    [
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("0.0.0.0", "", True),
        ("0.0.0.0", "http://jobs.example.org", True),
        ("0.0.0.0", "https://jobs.example.org", False),
    ],
)
def test_an_open_port_without_tls_is_a_warning(host: str, public_url: str, warns: bool) -> None:
    assert bool(check_exposure(host, public_url)) is warns


def test_conditions_of_the_installation_are_checks() -> None:
    full = Condition(kind="disk-full", message="The disk is full.", hint="Run `holdfast prune`.")
    low = Condition(kind="disk-low", message="The disk is nearly full.", warning=True)
    checks = check_conditions([full, low])
    assert [(check.name, check.status, check.remedy) for check in checks] == [
        ("disk-full", "fail", "Run `holdfast prune`."),
        ("disk-low", "warn", None),
    ]


def test_doctor_without_a_server_tries_the_sandbox_itself(alone: Cli) -> None:
    result = alone("doctor", "--json")
    names = [check["name"] for check in result.json["checks"]]
    always = {"python", "bubblewrap", "namespaces", "cgroups", "disk", "clock", "open files", "port", "engine"}
    assert always <= set(names) <= always | {"low ports", "inotify"}
    engine = result.json["checks"][names.index("engine")]
    assert "limits" in engine["message"]


def test_doctor_beside_a_server_asks_it(cli: Cli) -> None:
    result = cli("doctor", "--json")
    port = next(check for check in result.json["checks"] if check["name"] == "port")
    assert "a server is running at http://127.0.0.1:" in port["message"]
    assert "engine" in cli("doctor").text


@pytest.mark.parametrize(
    ("gateway", "status", "said"),
    [
        (None, "ok", "disabled"),
        (Gateway(enabled=False), "ok", "disabled"),
        (Gateway(enabled=True, host="here", port=2222), "ok", "on here, port 2222"),
        (Gateway(enabled=True, trouble="The SSH gateway cannot listen."), "warn", "cannot listen"),
        (Gateway(enabled=True), "warn", "not running"),
    ],
)
def test_the_gateway(gateway: Gateway | None, status: str, said: str) -> None:
    check = check_ssh(gateway)
    assert check.status == status
    assert said in check.message
    assert bool(check.remedy) is (status == "warn")
