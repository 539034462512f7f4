"""up, down, status and doctor: the one place of the CLI that reaches the server's own code."""

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
from ..exitcodes import exit_code_of
from ..options import Json, connect
from ..quantities import show_span, utc_now
from .first_job import FirstJob

if TYPE_CHECKING:
    from holdfast.bootstrap import ServerInfo
    from holdfast.sdk import Status
    from holdfast.settings import Settings

    from .doctor import Problem

STOP_TIMEOUT = 60.0  # seconds a server gets to end
ANSWER_TIMEOUT = 2.0  # seconds, of a server that is said to run
GONE_TIMEOUT = 5.0  # seconds to wait for the lock of one that does not answer
GONE_INTERVAL = 0.05  # seconds

Home = Annotated[Path | None, typer.Option(help="State folder; by default HOLDFAST_HOME, else ~/.holdfast.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What there is to say about a server that is up."""

    url: str
    pid: int
    home: str
    already_running: bool = False
    first_password: str | None = None
    isolation: str = ""
    limits: str = ""
    notes: tuple[str, ...] = ()
    conditions: Sequence[Sequence[str]] = ()  # problems: message, detail and hint of each


def up(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Default: 8080.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    home: Home = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running and return.")] = False,
    first_job: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Submit this job once it is up; print its log and result.")
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    json: Json = False,
) -> None:
    """Start the server.

    Ctrl-C stops it; jobs run on and are found again at the next start.
    """
    from holdfast.settings import default_home, load_settings, setting_names
    from holdfast.settings_names import strange_variables
    from holdfast.start_priority import restore_priority

    folder = (home or default_home()).absolute()
    job = FirstJob.read(first_job, folder) if first_job else None
    given = {"server.port": port, "server.host": host}
    settings = load_settings(folder, os.environ, {key: value for key, value in given.items() if value is not None})
    if ready_fd is None:  # else whoever started this has said so
        for line in strange_variables(os.environ, setting_names()):
            output.note(f"warning: {output.safe(line)}", "yellow")
    found = _find_running(folder) if ready_fd is None else None
    if found is not None:
        restore_priority()
        _after_start(_as_started(found, already_running=True), job, json)
    elif detach:
        restore_priority()  # or the other would inherit it
        _after_start(_start_detached(folder, port, host), job, json)
    else:
        _serve_here(folder, settings, job, ready_fd, json)


def _find_running(folder: Path) -> ServerInfo | None:
    """The server on this state folder. One that was killed keeps its lock until it is gone: it is waited for."""
    from holdfast.bootstrap import running

    until = time.monotonic() + GONE_TIMEOUT
    while (found := running(folder)) is not None and not _answers(found.url) and time.monotonic() < until:
        time.sleep(GONE_INTERVAL)
    return found


def _answers(url: str) -> bool:
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import Client

    try:
        with Client(url, anonymous=True, timeout=ANSWER_TIMEOUT) as client:
            client.version()
    except HoldfastError:
        return False
    return True


def _after_start(started: Started, job: FirstJob | None, json: bool) -> None:
    """The server runs elsewhere: say so, run the first job, return."""
    if not json:
        _banner(started, how_to_stop="holdfast down")
    ended = job.run(quiet=json) if job else None
    if json:
        output.emit_json({"server": started, "first_job": ended})
    else:
        _say_next(started)
    if ended is not None:
        raise typer.Exit(exit_code_of(ended))


def _serve_here(folder: Path, settings: Settings, job: FirstJob | None, ready_fd: int | None, json: bool) -> None:
    """The server in this process, until a signal ends it."""
    import logging

    from holdfast.bootstrap import serve

    logging.getLogger("httpx").setLevel(logging.WARNING)  # the first job's own requests are no news
    if ready_fd is not None:
        os.set_inheritable(ready_fd, False)

    told: list[Started] = []

    def on_ready(info: ServerInfo) -> None:
        started = _as_started(info)
        told.append(started)
        if ready_fd is not None:
            _tell(ready_fd, {"started": _as_json(started)})
        elif json:
            output.emit_json({"server": started, "first_job": None})
        else:
            _banner(started, how_to_stop="Ctrl-C")
        shown = ready_fd is None and not json
        # The server's own loop must go on meanwhile: the job, and the link, come back to it over HTTP.
        threading.Thread(
            target=_beside_server, args=(job, started if shown else None), name="first-job", daemon=True
        ).start()

    try:
        serve(folder, settings, on_ready=on_ready)
    except Exception as error:
        if ready_fd is not None and not told:
            _tell(ready_fd, {"error": {"message": str(error), "hint": getattr(error, "hint", None)}})
        raise
    except KeyboardInterrupt:
        pass  # the signal that ended it, passed on after all was closed
    if ready_fd is None and not json:
        output.note("Stopped. Jobs that run go on; `holdfast up` finds them again.")


def _beside_server(job: FirstJob | None, started: Started | None) -> None:
    """In a thread of the server's own process. `started`: say at the end what to do next."""
    if job is not None:
        job.run_beside_server()
    if started is not None:
        with suppress(output.ReaderGone):
            _say_next(started)


def _start_detached(folder: Path, port: int | None, host: str | None) -> Started:
    """A server in a session of its own. It tells us through a pipe that it is ready, or why not."""
    from holdfast.bootstrap import make_home
    from holdfast.core.errors import UserError

    make_home(folder)
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
    with output.progress("Starting the server"), os.fdopen(ours, "rb") as pipe:
        said = pipe.read()  # ends when the other side is closed, by word or by death
    answer = encoder.loads(said) if said else {}
    if "started" in answer:
        return Started(**answer["started"])
    reason = answer.get("error") or {"message": "it ended without a word", "hint": None}
    raise UserError(f"The server did not start: {reason['message']}", hint=reason["hint"] or f"Its log: {log}")


def _open_log(path: Path) -> IO[bytes]:
    """On a full disk the server starts without one."""
    try:
        return path.open("ab")
    except OSError as error:
        output.note(f"warning: The server writes no log: cannot open {path}: {error.strerror}", "yellow")
        return open(os.devnull, "ab")


def _tell(ready_fd: int, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError), os.fdopen(ready_fd, "wb") as pipe:
        pipe.write(encoder.dumps(message).encode())


def _as_started(info: ServerInfo, *, already_running: bool = False) -> Started:
    health = info.health
    return Started(
        url=info.url,
        pid=info.pid,
        home=str(info.home),
        already_running=already_running,
        first_password=info.first_password,
        isolation=_describe_isolation(health.isolation.value, info.conditions) if health else "",
        limits=health.limits if health else "",
        notes=health.notes if health else (),
        conditions=[(each.message, each.detail, each.hint) for each in info.conditions],
    )


def _as_json(started: Started) -> dict[str, Any]:
    from holdfast.sdk.reading import dump

    return dict(dump(started))


def _banner(started: Started, how_to_stop: str) -> None:
    was = "already runs" if started.already_running else "is up"
    output.emit(output.styled(f"Holdfast {was} at {started.url}", "bold", sys.stdout))
    if started.first_password:
        output.emit(f"  log in     user admin, password {started.first_password}   (shown this once)")
    else:
        output.emit("  log in     `holdfast portal` gives a link; or user admin, with the password of the first start")
    output.emit(f"  API        {started.url}/api/docs")
    output.emit(f"  process    {started.pid}, state in {started.home}")
    if started.isolation:
        output.emit(f"  jobs       isolation: {started.isolation}, limits: {started.limits}")
    for line in started.notes:
        output.emit(f"             {output.safe(line)}")
    _show_conditions(started.conditions)
    output.emit(f"  to stop    {how_to_stop}")
    if Path(started.home) != Path.home() / ".holdfast" and os.environ.get("HOLDFAST_HOME") != started.home:
        output.emit(f"  elsewhere  export HOLDFAST_HOME={started.home}   (so that other commands find this server)")


def _describe_isolation(level: str, conditions: Sequence[Problem]) -> str:
    """While no sandbox can be made, the level is the one that tasks must have."""
    blocked = any(each.kind == "sandbox" for each in conditions)
    return f"unavailable (required: {level})" if blocked else level


def _show_conditions(conditions: Sequence[Sequence[str]]) -> None:
    """Each with the error behind it, and what to do."""
    for message, *more in conditions:
        output.emit(output.styled(f"  PROBLEM    {output.safe(message)}", "bold red", sys.stdout))
        for line in filter(None, more):
            output.emit(f"             {output.safe(line)}")


def _say_next(started: Started) -> None:
    """The last lines, so that one's eye falls on them: where the portal is."""
    if shutil.which("holdfast") is None:  # started by its path, as `make up` does
        output.emit(f"So that your shell finds `holdfast`: {_path_line(Path(sys.executable).parent)}")
    output.hint("holdfast submit -- echo hello", "holdfast ls", "holdfast top", "holdfast portal")
    link = _first_link(started)
    output.emit(output.styled(f"Portal: {started.url}", "bold", sys.stdout))
    if link:
        output.emit(f"Log in by this link, once, within 10 minutes: {link}")


def _path_line(folder: Path) -> str:
    return f'export PATH={shlex.quote(str(folder))}:"$PATH"'


def _first_link(started: Started) -> str | None:
    """At the very first start: a way in that needs no password. Only to a person at a terminal, never into a log."""
    if not started.first_password or not output.is_terminal(sys.stdout):
        return None
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import Client
    from holdfast.sdk.address import local_login

    from .portal import login_link

    home = Path(started.home)
    try:
        known = local_login(home)
        if known is None:
            return None
        with Client(known.url, known.token, home=home, timeout=10) as client:
            return login_link(client)[0]
    except HoldfastError:
        return None  # the password was shown, too


def down(home: Home = None, json: Json = False) -> None:
    """Stop the server; jobs run on.

    They are found again at the next `holdfast up`.
    """
    from holdfast.bootstrap import running
    from holdfast.core.errors import NotFound, UserError
    from holdfast.settings import default_home

    folder = (home or default_home()).absolute()
    found = running(folder)
    if found is None:
        raise NotFound(f"No server runs on {folder}", hint="Start one with `holdfast up`, or name its folder: --home.")
    told = _local_status(folder)
    tasks = sum(told.jobs.get(state, 0) for state in ("Preparing", "Running", "Held")) if told else None
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(found.pid)  # from here on this very process is meant, whatever becomes of its number
        now = running(folder)
        if now is not None and now.pid == found.pid:
            _end(handle, found.pid)
    if running(folder) is not None:
        raise UserError("Another server took its place meanwhile", hint="Try again.")
    if json:
        output.emit_json({"pid": found.pid, "url": found.url, "running_jobs": tasks})
        return
    output.emit(f"The server at {found.url} (process {found.pid}) has stopped.")
    if tasks:
        who, them = ("1 job goes", "it") if tasks == 1 else (f"{tasks} jobs go", "them")
        output.emit(f"{who} on running; `holdfast up` finds {them} again.")
    output.hint("holdfast up")


def _end(handle: int, pid: int) -> None:
    from holdfast.core.errors import UserError

    signal.pidfd_send_signal(handle, signal.SIGTERM)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    with output.progress("Stopping"):
        gone = poll.poll(STOP_TIMEOUT * 1000)
    os.close(handle)
    if not gone:
        raise UserError(f"Process {pid} has not ended within {STOP_TIMEOUT:g} s", hint=f"Look at it: ps -fp {pid}")


def _local_status(folder: Path) -> Status | None:
    """What the server on this folder says of itself; None when it does not answer."""
    from holdfast.sdk import Client, ClientError
    from holdfast.sdk.address import local_login

    try:
        known = local_login(folder)
        if known is None:
            return None
        with Client(known.url, known.token, home=folder, timeout=5) as client:
            return client.status()
    except ClientError:
        return None


def _other_server() -> str | None:
    """The address of a server that knows who we are, wherever it keeps its state."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=5) as client:
            client.me()
            return client.address.url
    except HoldfastError:
        return None


def status(json: Json = False) -> None:
    """Show how the server is, and who you are there."""
    with connect() as client:
        found, me = client.status(), client.me()
        address = client.address
    if json:
        output.emit_json({"url": address.url, "status": found, "me": me})
        return
    since = f", up {show_span(found.started_at, None, utc_now())}" if found.started_at else ""
    process = f", process {found.pid}" if found.pid else ""
    output.emit(output.styled(f"Holdfast {output.safe(found.version)} at {address.url}", "bold", sys.stdout))
    output.emit(f"  server     running{since}{process}")
    if found.home:
        output.emit(f"  state      {output.safe(found.home)}")
    counts = ", ".join(f"{count} {state}" for state, count in found.jobs.items() if count) or "none active"
    output.emit(f"  jobs       {output.safe(counts)}")
    isolation = _describe_isolation(found.engine.isolation, found.conditions)
    output.emit(f"  isolation  {output.safe(isolation)}, limits: {output.safe(found.engine.limits)}")
    for line in found.engine.notes:
        output.emit(f"             {output.safe(line)}")
    _show_conditions([(each.message, each.detail, each.hint) for each in found.conditions])
    role = " (admin)" if me.admin else ""
    output.emit(f"  you        {output.safe(me.name)}{role}, by {address.source}")
    output.hint("holdfast ls", "holdfast top", "holdfast doctor")


def doctor(home: Home = None, json: Json = False) -> None:
    """Check what this machine can do for jobs, and say what would make it better."""
    from holdfast.bootstrap import probe, running
    from holdfast.listening.holder import find_holder
    from holdfast.settings import default_home, load_settings

    from .doctor import check_conditions, check_engine, check_exposure, check_machine, check_proxy, check_ssh, report

    folder = (home or default_home()).absolute()
    settings = load_settings(folder, os.environ)
    found = running(folder)
    url, other = (found.url, None) if found else (None, _other_server())
    holder = None if found else find_holder(folder)
    checks = check_machine(folder, settings.server.host, settings.server.port, url, other, holder)
    checks += check_exposure(settings.server.host, settings.server.public_url)
    checks += check_proxy(settings.server.public_url, settings.server.trusted_proxies)
    if found is not None:
        told = _local_status(folder)
        conditions = told.conditions if told else ()
        checks += check_engine(told.engine if told else None, conditions)
        checks += [check_ssh(told.ssh if told else None), *check_conditions(conditions)]
    else:
        with output.progress("Trying the sandbox"):
            health = probe(folder, settings)
        checks += [*check_engine(health, health.conditions), *check_conditions(health.conditions)]
    report(checks, json)
