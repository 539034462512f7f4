"""The `up`, `down`, `status` and `doctor` commands: the only part of the CLI that imports server code."""

from __future__ import annotations

import json as encoder
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..exitcodes import resolve_exit_code
from ..options import JsonOption, open_client
from ..quantities import format_span, utc_now
from .first_job import FirstJob

if TYPE_CHECKING:
    from holdfast.sdk import Status
    from holdfast.settings import Settings
    from holdfast.state_folder import RunningServer

    from .doctor import ReportedCondition

STOP_TIMEOUT = 60.0  # seconds for a server to stop
RESPONSE_TIMEOUT = 2.0  # seconds for a running server to respond
LOCK_TIMEOUT = 5.0  # seconds to wait for the lock of a server that does not respond
LOCK_INTERVAL = 0.05  # seconds

HomeOption = Annotated[Path | None, typer.Option(help="State folder. Default: HOLDFAST_HOME, else ~/.holdfast.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedServer:
    """A started server, for the banner."""

    url: str
    pid: int
    home: str
    already_running: bool = False
    first_password: str | None = None
    engine: str = ""  # the default one
    isolation: str = ""
    limits: str = ""
    notes: tuple[str, ...] = ()
    conditions: Sequence[Sequence[str]] = ()  # problems: message, detail and hint of each
    ssh_problem: str = ""  # why the SSH gateway does not run


def up(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: a free one. Default: 8080.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    home: HomeOption = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run the server in the background.")] = False,
    first_job: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Submit this job when the server is ready; print its log and result."),
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    json: JsonOption = False,
) -> None:
    """Start the server.

    Ctrl-C stops it. Jobs keep running and are recovered at the next start.
    """
    from holdfast.settings import get_setting_names_by_section, load_settings, resolve_default_home
    from holdfast.settings_names import list_unknown_variable_warnings
    from holdfast.start_priority import restore_priority

    folder = (home or resolve_default_home()).absolute()
    job = FirstJob.from_file(first_job, folder) if first_job else None
    given = {"server.port": port, "server.host": host}
    settings = load_settings(folder, os.environ, {key: value for key, value in given.items() if value is not None})
    if ready_fd is None:  # otherwise the parent process printed them
        for line in list_unknown_variable_warnings(os.environ, get_setting_names_by_section()):
            output.print_warning(line)
    found = _find_server_of_folder(folder) if ready_fd is None else None
    if found is not None:
        restore_priority()
        _report_started_server(_build_started_server(found, already_running=True), job, json)
        return
    if ready_fd is None and port is None:
        _warn_of_changed_port(folder, settings.server.port)
    if detach:
        restore_priority()  # the child process would inherit it
        _report_started_server(_start_detached_server(folder, port, host), job, json)
    else:
        _run_server(folder, settings, job, ready_fd, json)


def _warn_of_changed_port(folder: Path, port: int) -> None:
    """Warn if the last server of this folder used another port: links and logins still have that one."""
    from urllib.parse import urlsplit

    from holdfast.sdk import ClientError
    from holdfast.sdk.address import load_local_login

    try:
        known = load_local_login(folder)
    except ClientError:
        return  # the server writes the file again
    last = urlsplit(known.url).port if known is not None else None
    if port and last and last != port:
        output.print_warning(
            f"The last server on {folder} used port {last}; this one uses {port}. "
            f"To use the last one, run `holdfast up --port {last}`."
        )


def _find_server_of_folder(folder: Path) -> RunningServer | None:
    """Return the server on this state folder; wait for the lock of a killed one to be released."""
    from holdfast.state_folder import find_running_server

    until = time.monotonic() + LOCK_TIMEOUT
    while (
        (found := find_running_server(folder)) is not None
        and not _is_responding(found.url)
        and time.monotonic() < until
    ):
        time.sleep(LOCK_INTERVAL)
    return found


def _is_responding(url: str) -> bool:
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import Client

    try:
        with Client(url, anonymous=True, timeout=RESPONSE_TIMEOUT) as client:
            client.get_version()
    except HoldfastError:
        return False
    return True


def _report_started_server(started: StartedServer, job: FirstJob | None, json: bool) -> None:
    """Print the banner of a server in another process, and run the first job."""
    if not json:
        _print_banner(started, how_to_stop="holdfast down")
    ended = job.run(quiet=json) if job else None
    if json:
        output.emit_json({"server": started, "first_job": ended})
    else:
        _print_next_steps(started)
    if ended is not None:
        raise typer.Exit(resolve_exit_code(ended))


def _run_server(folder: Path, settings: Settings, job: FirstJob | None, ready_fd: int | None, json: bool) -> None:
    """Run the server in this process until a signal stops it."""
    import logging

    from holdfast.bootstrap import serve

    logging.getLogger("httpx").setLevel(logging.WARNING)  # hide the requests of the first job
    if ready_fd is not None:
        os.set_inheritable(ready_fd, False)

    reported: list[StartedServer] = []

    def handle_ready(info: RunningServer) -> None:
        started = _build_started_server(info)
        reported.append(started)
        if ready_fd is not None:
            _report_to_parent(ready_fd, {"started": _server_to_json(started)})
        shown = ready_fd is None and not json
        with suppress(OSError, output.OutputClosed):  # a full disk or a closed pipe must not stop the server
            if shown:
                _print_banner(started, how_to_stop="Ctrl-C")
            elif ready_fd is None:
                output.emit_json({"server": started, "first_job": None})
        # In a thread: the job and the link use HTTP, which needs the event loop of this server.
        threading.Thread(
            target=_run_first_job, args=(job, started if shown else None), name="first-job", daemon=True
        ).start()

    try:
        serve(folder, settings, on_ready=handle_ready)
    except Exception as error:
        if ready_fd is not None and not reported:
            _report_to_parent(ready_fd, {"error": {"message": str(error), "hint": getattr(error, "hint", None)}})
        raise
    except KeyboardInterrupt:
        pass  # the signal that stopped it, after everything was closed
    if ready_fd is None and not json:
        output.print_note("Server stopped. Running jobs continue; `holdfast up` recovers them.")


def _run_first_job(job: FirstJob | None, started: StartedServer | None) -> None:
    """Run the first job in a thread of the server process. `started`: then print the next steps."""
    if job is not None:
        job.run_in_server()
    if started is not None:
        with suppress(OSError, output.OutputClosed):
            _print_next_steps(started)


def _start_detached_server(folder: Path, port: int | None, host: str | None) -> StartedServer:
    """Start the server in a new session; it reports through a pipe that it is ready, or why not."""
    from holdfast.core.errors import UserError
    from holdfast.state_folder import create_state_folder

    create_state_folder(folder)
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "holdfast", "up", "--home", str(folder), "--ready-fd", str(theirs)]
    command += ["--port", str(port)] if port is not None else []
    command += ["--host", host] if host is not None else []
    log = folder / "server.log"
    with _open_log(log) as sink:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, pass_fds=(theirs,)
        )
    os.close(theirs)
    with output.show_progress("Starting the server"), os.fdopen(ours, "rb") as pipe:
        report = pipe.read()  # returns when the server has reported or exited
    answer = encoder.loads(report) if report else {}
    if "started" in answer:
        return StartedServer(**answer["started"])
    reason = answer.get("error") or {"message": "it exited without an error message", "hint": None}
    raise UserError(f"The server did not start: {reason['message']}", hint=reason["hint"] or f"Check its log: {log}")


def _open_log(path: Path) -> IO[bytes]:
    """Open the server log; on a full disk the server starts without one."""
    try:
        return path.open("ab")
    except OSError as error:
        output.print_note(f"warning: Cannot open the server log {path}: {error.strerror}. Nothing is logged.", "yellow")
        return open(os.devnull, "ab")


def _report_to_parent(ready_fd: int, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError), os.fdopen(ready_fd, "wb") as pipe:
        pipe.write(encoder.dumps(message).encode())


def _build_started_server(info: RunningServer, *, already_running: bool = False) -> StartedServer:
    health = info.health
    return StartedServer(
        url=info.url,
        pid=info.pid,
        home=str(info.home),
        already_running=already_running,
        first_password=info.first_password,
        engine=health.name if health else "",
        isolation=_describe_isolation(health.name, health.isolation.value, info.conditions) if health else "",
        limits=health.limits if health else "",
        notes=health.notes if health else (),
        conditions=[(each.message, each.detail, each.hint) for each in info.conditions],
        ssh_problem=info.ssh_problem,
    )


def _server_to_json(started: StartedServer) -> dict[str, Any]:
    from holdfast.sdk.json_conversion import to_json

    return dict(to_json(started))


def _print_banner(started: StartedServer, how_to_stop: str) -> None:
    was = "is already running" if started.already_running else "is running"
    output.emit_styled(f"Holdfast {was} at {started.url}", "bold")
    if started.first_password:
        output.emit_line(f"  log in     user admin, password {started.first_password}   (shown only once)")
    else:
        output.emit_line(
            "  log in     run `holdfast portal` for a link, or use admin and the password of the first start"
        )
    output.emit_line(f"  API        {started.url}/api/docs")
    output.emit_line(f"  process    {started.pid}, state in {started.home}")
    if started.isolation:
        engine = f"engine: {started.engine}, " if started.engine else ""
        output.emit_line(f"  jobs       {engine}isolation: {started.isolation}, limits: {started.limits}")
    for line in started.notes:
        output.emit_line(f"             {output.escape(line)}")
    if started.ssh_problem:
        output.emit_line(f"  ssh        {output.escape(started.ssh_problem)}")
        output.emit_line(
            "             Choose another port with HOLDFAST_SSH_PORT. Until then, use `holdfast exec JOB`."
        )
    _show_conditions(started.conditions)
    output.emit_line(f"  to stop    {how_to_stop}")
    if Path(started.home) != Path.home() / ".holdfast" and os.environ.get("HOLDFAST_HOME") != started.home:
        output.emit_line(f"  to use     export HOLDFAST_HOME={started.home}   (for other commands to find this server)")


def _describe_isolation(engine: str, level: str, conditions: Sequence[ReportedCondition]) -> str:
    """Describe the isolation level; without a working sandbox it is only the required level."""
    blocked = any(each.kind == "sandbox" and each.engine in ("", engine) for each in conditions)
    return f"unavailable (required: {level})" if blocked else level


def _show_conditions(conditions: Sequence[Sequence[str]]) -> None:
    for message, *more in conditions:
        output.emit_styled(f"  PROBLEM    {output.escape(message)}", "bold red")
        for line in filter(None, more):
            output.emit_line(f"             {output.escape(line)}")


def _print_next_steps(started: StartedServer) -> None:
    """Print the next steps, with the portal address last."""
    if shutil.which("holdfast") is None:  # started by its path, as `make up` does
        output.emit_line(f"To add `holdfast` to your PATH: {_format_path_export(Path(sys.executable).parent)}")
    output.print_hint("holdfast submit -- echo hello", "holdfast ls", "holdfast top", "holdfast portal")
    link = _create_first_link(started)
    output.emit_styled(f"Portal: {started.url}", "bold")
    if link:
        output.emit_line(f"Login link (valid once, for 10 minutes): {link}")
    else:
        output.emit_line("Login link: run `holdfast portal`")


def _format_path_export(folder: Path) -> str:
    return f'export PATH={shlex.quote(str(folder))}:"$PATH"'


def _create_first_link(started: StartedServer) -> str | None:
    """Return a login link at the first start; only on a terminal, so that it is never logged."""
    if not started.first_password or not output.is_terminal(sys.stdout):
        return None
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import Client
    from holdfast.sdk.address import load_local_login

    from .portal import create_login_link

    home = Path(started.home)
    try:
        known = load_local_login(home)
        if known is None:
            return None
        with Client(known.url, known.token, home=home, timeout=10) as client:
            return create_login_link(client)[0]
    except HoldfastError:
        return None  # the password is shown as well


def down(home: HomeOption = None, json: JsonOption = False) -> None:
    """Stop the server; jobs keep running.

    The next `holdfast up` recovers them.
    """
    from holdfast.core.errors import NotFound, UserError
    from holdfast.settings import resolve_default_home
    from holdfast.state_folder import find_running_server

    folder = (home or resolve_default_home()).absolute()
    found = find_running_server(folder)
    if found is None:
        raise NotFound(
            f"No server is running on {folder}",
            hint="Start one with `holdfast up`, or set its state folder with --home.",
        )
    status = _load_local_status(folder)
    tasks = sum(status.jobs.get(state, 0) for state in ("Preparing", "Running", "Held")) if status else None
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(found.pid)  # refers to this process even if its PID is reused
        now = find_running_server(folder)
        if now is not None and now.pid == found.pid:
            _stop_process(handle, found.pid)
    if find_running_server(folder) is not None:
        raise UserError("Another server has started on this state folder", hint="Try again.")
    if json:
        output.emit_json({"pid": found.pid, "url": found.url, "running_jobs": tasks})
        return
    output.emit_line(f"Stopped the server at {found.url} (process {found.pid}).")
    if tasks:
        who, them = ("1 job keeps", "it") if tasks == 1 else (f"{tasks} jobs keep", "them")
        output.emit_line(f"{who} running; `holdfast up` recovers {them}.")
    output.print_hint("holdfast up")


def _stop_process(handle: int, pid: int) -> None:
    from holdfast.core.errors import UserError

    signal.pidfd_send_signal(handle, signal.SIGTERM)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    with output.show_progress("Stopping"):
        gone = poll.poll(STOP_TIMEOUT * 1000)
    os.close(handle)
    if not gone:
        raise UserError(f"Process {pid} did not exit within {STOP_TIMEOUT:g} s", hint=f"Check it with `ps -fp {pid}`.")


def _load_local_status(folder: Path) -> Status | None:
    """Return the status of the server on this folder; None if it does not respond."""
    from holdfast.sdk import Client, ClientError
    from holdfast.sdk.address import load_local_login

    try:
        known = load_local_login(folder)
        if known is None:
            return None
        with Client(known.url, known.token, home=folder, timeout=5) as client:
            return client.get_status()
    except ClientError:
        return None


def _find_other_server() -> str | None:
    """Return the address of the server this client is logged in to."""
    from holdfast.core.errors import HoldfastError

    try:
        with open_client(timeout=5) as client:
            client.get_current_user()
            return client.address.url
    except HoldfastError:
        return None


def status(json: JsonOption = False) -> None:
    """Show the status of the server, and your user."""
    with open_client() as client:
        found, me = client.get_status(), client.get_current_user()
        address = client.address
    if json:
        output.emit_json({"url": address.url, "status": found, "me": me})
        return
    since = f", up {format_span(found.started_at, None, utc_now())}" if found.started_at else ""
    process = f", process {found.pid}" if found.pid else ""
    output.emit_styled(f"Holdfast {output.escape(found.version)} at {address.url}", "bold")
    output.emit_line(f"  server     running{since}{process}")
    if found.home:
        output.emit_line(f"  state      {output.escape(found.home)}")
    counts = ", ".join(f"{count} {state}" for state, count in found.jobs.items() if count) or "none active"
    output.emit_line(f"  jobs       {output.escape(counts)}")
    output.emit_line(f"  engine     {output.escape(_describe_engines(found))}")
    isolation = _describe_isolation(found.engine.name, found.engine.isolation, found.conditions)
    output.emit_line(f"  isolation  {output.escape(isolation)}, limits: {output.escape(found.engine.limits)}")
    for line in found.engine.notes:
        output.emit_line(f"             {output.escape(line)}")
    _show_conditions([(each.message, each.detail, each.hint) for each in found.conditions])
    role = " (admin)" if me.admin else ""
    output.emit_line(f"  user       {output.escape(me.name)}{role}, from {address.source}")
    output.print_hint("holdfast ls", "holdfast top", "holdfast doctor")


def _describe_engines(found: Status) -> str:
    """Return the engines that jobs can choose, the default first."""
    first, *others = found.engines or (found.engine.name,)
    return ", ".join((f"{first} (default)", *others)) if others else first


def doctor(home: HomeOption = None, json: JsonOption = False) -> None:
    """Check this machine for problems, and show how to fix them."""
    from holdfast.bootstrap import probe_engine
    from holdfast.listening.holder import find_holder_pid
    from holdfast.settings import load_settings, resolve_default_home
    from holdfast.state_folder import find_running_server

    from .doctor import (
        check_conditions,
        check_engine,
        check_exposure,
        check_machine,
        check_proxy,
        check_ssh,
        print_report,
    )

    folder = (home or resolve_default_home()).absolute()
    settings = load_settings(folder, os.environ)
    found = find_running_server(folder)
    url, other = (found.url, None) if found else (None, _find_other_server())
    holder = None if found else find_holder_pid(folder)
    checks = check_machine(folder, settings.server.host, settings.server.port, url, other, holder)
    checks += check_exposure(settings.server.host, settings.server.public_url)
    checks += check_proxy(settings.server.public_url, settings.server.trusted_proxies)
    if found is not None:
        status = _load_local_status(folder)
        conditions = status.conditions if status else ()
        checks += check_engine(status.engine if status else None, conditions)
        checks += [check_ssh(status.ssh if status else None), *check_conditions(conditions)]
    else:
        with output.show_progress("Testing the sandbox"):
            health = probe_engine(folder, settings)
        checks += [*check_engine(health, health.conditions), *check_conditions(health.conditions)]
    print_report(checks, json)
