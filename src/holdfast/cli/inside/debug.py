"""`holdfast debug`: to a debugger that waits inside a task, without knowing its host, port or token."""

from __future__ import annotations

import json as encoder
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import JobRef, connect
from ..quantities import parse_duration
from .target_task import find_server, tell_whose

if TYPE_CHECKING:
    from holdfast.sdk.inside import Entered

DEBUGPY = "debugpy"  # the name by which a job may give it a port
DEBUGPY_PORT = "5678"  # its usual one


def debug(
    job: JobRef,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="Which task: worker-0. Default: the one whose debugger waits."),
    ] = None,
    wait: Annotated[str, typer.Option(help="Wait so long for a debugger to be there: 10m.")] = "0",
    id: Annotated[str | None, typer.Option("--id", help="Which debugger, where a task has several.")] = None,
    pid: Annotated[
        int | None,
        typer.Option(
            "--pid", min=1, help="Attach to any process of the task, by its number there: Python 3.14 or newer."
        ),
    ] = None,
    vscode: Annotated[
        bool, typer.Option("--vscode", help="Lead VS Code to debugpy in the task: prints a launch configuration.")
    ] = False,
    port: Annotated[
        str | None,
        typer.Option("--port", help="With --vscode: port of debugpy, a number or a name. Default: debugpy or 5678."),
    ] = None,
) -> None:
    """Attach to a debugger that waits inside a task (paipdb), with history and completion.

    Ctrl-C stops a program that runs, Ctrl-D leaves it as it is, q ends it.
    """
    if vscode and pid is not None:
        raise typer.BadParameter("choose --vscode or --pid")
    if vscode:
        _lead_vscode(job, task, port)
    elif pid is not None:
        _attach_to_process(job, task, pid)
    else:
        _attach(job, task, id, parse_duration(wait))


def _attach(job: str, task: str | None, id: str | None, seconds: float) -> None:
    from holdfast.sdk.inside import open_debugger

    from .pdb_console import Console

    if seconds and output.is_terminal(sys.stderr):
        output.note("Waiting for a debugger; Ctrl-C ends that.", "dim")
    with open_debugger(find_server(), job, task, id=id, wait=seconds) as line:
        tell_whose(line.entered)
        output.note(_place(line.entered), "dim")
        console = Console(line)
        ended = console.run()
    if ended and not console.told_end:
        output.note("The program went on, or ended, without the debugger.")
    elif not ended:
        output.note(f"Left it as it is; to come back: holdfast debug {line.entered.job}")


def _place(entered: Entered) -> str:
    found: dict[str, Any] = entered.more.get("debugger") or {}
    file = output.safe(str(found.get("file", "")).rpartition("/")[2])
    why = output.safe(found.get("why") or "breakpoint")
    return f"{output.safe(entered.task)} of {entered.job}: {file}:{found.get('line', 0)} ({why})"


# -- any process, by Python itself

_BY_PID = """
exe=$(readlink /proc/{pid}/exe) || {{ echo "There is no process {pid} in this task, or it is not yours" >&2; exit 1; }}
"$exe" -c 'import sys; sys.exit(sys.version_info < (3, 14))' 2>/dev/null || {{
  echo "$exe is not Python 3.14 or newer, whose processes can be attached to." >&2
  echo "holdfast stack shows where it is; import paipdb; paipdb.settrace() lets it be debugged." >&2
  exit 1
}}
exec "$exe" -m pdb -p {pid}
"""


def _attach_to_process(job: str, task: str | None, pid: int) -> None:
    from .exec import run_inside

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raise typer.Exit(run_inside(job, task, {"script": _BY_PID.format(pid=pid)}, terminal=terminal))


# -- VS Code


def _lead_vscode(job: str, task: str | None, port: str | None) -> None:
    from .forward import choose_task, find_to_enter, open_tunnel

    with connect() as client:
        found = find_to_enter(client, job)
        chosen = choose_task(found, task)
        named = port or (DEBUGPY if chosen is not None and DEBUGPY in chosen.ports else DEBUGPY_PORT)
        with open_tunnel(client, found.id, chosen.task if chosen else task, named) as tunnel:
            configuration = launch_configuration(tunnel.job, tunnel.task, tunnel.port, _folder(tunnel.job, tunnel.task))
            output.emit(encoder.dumps(configuration, indent=4))
            output.note(
                "Add it to configurations in .vscode/launch.json, and start it. Ctrl-C ends the way to the task."
            )
            tunnel.watch(client)


def launch_configuration(job: str, task: str, port: int, folder: str) -> dict[str, Any]:
    return {
        "name": f"Holdfast: {task} of {job}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": port},
        "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": folder}],
        "justMyCode": False,
    }


def _folder(job: str, task: str) -> str:
    """Where the task's commands begin."""
    from holdfast.sdk.inside import open_exec

    written = b""
    with open_exec(find_server(), job, task, argv=["pwd"]) as line:
        for message in line:
            written += message[1:] if isinstance(message, bytes) and message[0] == 1 else b""
    return written.decode("utf-8", "replace").rstrip("\n")
