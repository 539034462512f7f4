"""The `debug` command: attach to a debugger in a task."""

from __future__ import annotations

import json as encoder
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import JobRefArgument, open_client
from ..quantities import parse_duration
from .target_task import find_server_address, print_owner

if TYPE_CHECKING:
    from holdfast.sdk.inside import SessionTarget

DEBUGPY_PORT_NAME = "debugpy"  # port name a job can use for it
DEBUGPY_PORT = "5678"  # its default port


def debug(
    job: JobRefArgument,
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="Task: worker-0. Default: the task whose debugger waits.")
    ] = None,
    wait: Annotated[str, typer.Option(help="Maximum time to wait for a debugger: 10m.")] = "0",
    id: Annotated[str | None, typer.Option("--id", help="Debugger id, if a task has several.")] = None,
    pid: Annotated[
        int | None,
        typer.Option(
            "--pid", min=1, help="Attach to a process of the task by its PID there. Requires Python 3.14 or newer."
        ),
    ] = None,
    vscode: Annotated[
        bool, typer.Option("--vscode", help="Forward the port of debugpy and print a VS Code launch configuration.")
    ] = False,
    port: Annotated[
        str | None,
        typer.Option("--port", help="With --vscode: port of debugpy, as a number or name. Default: debugpy or 5678."),
    ] = None,
) -> None:
    """Attach to a debugger (paipdb) that waits in a task, with history and completion.

    Ctrl-C interrupts the program, Ctrl-D detaches, q quits the program.
    """
    if vscode and pid is not None:
        raise typer.BadParameter("--vscode and --pid cannot be used together")
    if vscode:
        _forward_for_vscode(job, task, port)
    elif pid is not None:
        _attach_to_process(job, task, pid)
    else:
        _attach_to_debugger(job, task, id, parse_duration(wait))


def _attach_to_debugger(job: str, task: str | None, id: str | None, seconds: float) -> None:
    from holdfast.sdk.inside import open_debugger

    from .pdb_console import DebuggerConsole

    if seconds and output.is_terminal(sys.stderr):
        output.print_note("Waiting for a debugger. Press Ctrl-C to stop.", "dim")
    with open_debugger(find_server_address(), job, task, id=id, wait=seconds) as line:
        print_owner(line.target)
        output.print_note(_describe_breakpoint(line.target), "dim")
        console = DebuggerConsole(line)
        ended = console.run()
    if ended and not console.printed_exit_message:
        output.print_note("The debugger ended; the program continued or exited.")
    elif not ended:
        output.print_note(f"Detached. To attach again, run `holdfast debug {line.target.job}`.")


def _describe_breakpoint(entered: SessionTarget) -> str:
    found: dict[str, Any] = entered.details.get("debugger") or {}
    file = output.escape(str(found.get("file", "")).rpartition("/")[2])
    why = output.escape(found.get("why") or "breakpoint")
    return f"{output.escape(entered.task)} of {entered.job}: {file}:{found.get('line', 0)} ({why})"


_ATTACH_SCRIPT = """
exe=$(readlink /proc/{pid}/exe) || {{ echo "Process {pid} not found in this task, or access denied" >&2; exit 1; }}
"$exe" -c 'import sys; sys.exit(sys.version_info < (3, 14))' 2>/dev/null || {{
  echo "Cannot attach: $exe is not Python 3.14 or newer." >&2
  echo "Use holdfast stack to see its stack trace, or call paipdb.settrace() in the program." >&2
  exit 1
}}
exec "$exe" -m pdb -p {pid}
"""


def _attach_to_process(job: str, task: str | None, pid: int) -> None:
    from .exec import run_in_task

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    raise typer.Exit(run_in_task(job, task, {"script": _ATTACH_SCRIPT.format(pid=pid)}, terminal=terminal))


# -- VS Code


def _forward_for_vscode(job: str, task: str | None, port: str | None) -> None:
    from .forward import find_accessible_job, find_accessible_task, open_tunnel

    with open_client() as client:
        found = find_accessible_job(client, job)
        chosen = find_accessible_task(found, task)
        named = port or (
            DEBUGPY_PORT_NAME if chosen is not None and DEBUGPY_PORT_NAME in chosen.ports else DEBUGPY_PORT
        )
        with open_tunnel(client, found.id, chosen.task if chosen else task, named) as tunnel:
            configuration = build_launch_configuration(
                tunnel.job, tunnel.task, tunnel.port, _find_working_folder(tunnel.job, tunnel.task)
            )
            output.emit_line(encoder.dumps(configuration, indent=4))
            output.print_note("Add it to .vscode/launch.json and start it. Press Ctrl-C to stop forwarding.")
            tunnel.wait_for_task_end(client)


def build_launch_configuration(job: str, task: str, port: int, folder: str) -> dict[str, Any]:
    return {
        "name": f"Holdfast: {task} of {job}",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": port},
        "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": folder}],
        "justMyCode": False,
    }


def _find_working_folder(job: str, task: str) -> str:
    from holdfast.sdk.inside import open_exec

    written = b""
    with open_exec(find_server_address(), job, task, argv=["pwd"]) as line:
        for message in line:
            written += message[1:] if isinstance(message, bytes) and message[0] == 1 else b""
    return written.decode("utf-8", "replace").rstrip("\n")
