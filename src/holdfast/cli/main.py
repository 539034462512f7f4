"""The `holdfast` command line. To start fast, each command imports what it needs when it runs."""

from __future__ import annotations

import copy
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
import typer.main
from typer.models import CommandInfo

from holdfast.core.errors import HoldfastError, UserError

from . import output
from .catalogue import datasets, files, images, instance_types, secrets
from .errors import COMMAND_SOURCE, show_error, show_usage_error
from .exitcodes import ERROR, INTERRUPTED, OK, USAGE
from .help_text import replace_type_names
from .inside import debug, forward, ssh, stack
from .inside import exec as execute
from .inside.target_task import TaskCommand
from .jobs import artifacts, holds, logs, schedules, simulate, submit, top, why
from .jobs import commands as jobs
from .lazy_imports import skip_conversions, skip_httpx_cli
from .people import groups, session
from .people import notifications as notifications
from .people import ssh_keys as keys
from .people import users as people
from .server import audit, portal, prune, serve, usage

JOBS_PANEL, TASK_ACCESS_PANEL, RESOURCES_PANEL, SERVER_PANEL = "Jobs", "Task access", "Users and resources", "Server"

app = typer.Typer(
    name="holdfast",
    help="Run batch jobs and find out why they wait or fail.",
    no_args_is_help=True,
    add_completion=False,  # there is a command for it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        session.version()
        raise typer.Exit


@app.callback()
def _handle_root_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Run batch jobs and find out why they wait or fail."""


Command = Callable[..., None]
_JOB_COMMANDS: tuple[Command, ...] = (
    jobs.ls, jobs.show, why.why, logs.logs, jobs.stop, holds.release, holds.extend, jobs.rerun, jobs.clone, jobs.tag,
    jobs.wait, jobs.events, top.top,
)  # fmt: skip
_SERVER_COMMANDS: tuple[Command, ...] = (
    serve.up, serve.down, serve.status, serve.doctor, portal.portal,
    session.login, session.logout, session.completion, session.version,
)  # fmt: skip

app.command(cls=submit.JobCommand, rich_help_panel=JOBS_PANEL)(submit.submit)
app.command(cls=submit.JobCommand, rich_help_panel=JOBS_PANEL)(submit.plan)
app.command(rich_help_panel=JOBS_PANEL)(simulate.simulate)
for _command in _JOB_COMMANDS:
    app.command(rich_help_panel=JOBS_PANEL)(_command)
app.add_typer(schedules.schedule_app, name="schedule", rich_help_panel=JOBS_PANEL)
app.add_typer(artifacts.artifacts_app, name="artifacts", rich_help_panel=JOBS_PANEL)
app.command(cls=TaskCommand, rich_help_panel=TASK_ACCESS_PANEL)(ssh.ssh)
app.command(name="exec", cls=TaskCommand, rich_help_panel=TASK_ACCESS_PANEL)(execute.run_exec)
app.command(rich_help_panel=TASK_ACCESS_PANEL)(forward.forward)
app.command(rich_help_panel=TASK_ACCESS_PANEL)(debug.debug)
app.command(rich_help_panel=TASK_ACCESS_PANEL)(stack.stack)
app.add_typer(files.files_app, name="files", rich_help_panel=RESOURCES_PANEL)
app.add_typer(images.image_app, name="image", rich_help_panel=RESOURCES_PANEL)
app.add_typer(instance_types.instance_type_app, name="instance-type", rich_help_panel=RESOURCES_PANEL)
app.add_typer(people.user_app, name="user", rich_help_panel=RESOURCES_PANEL)
app.add_typer(groups.group_app, name="group", rich_help_panel=RESOURCES_PANEL)
app.add_typer(datasets.dataset_app, name="dataset", rich_help_panel=RESOURCES_PANEL)
app.add_typer(secrets.secret_app, name="secret", rich_help_panel=RESOURCES_PANEL)
app.add_typer(people.token_app, name="token", rich_help_panel=RESOURCES_PANEL)
app.add_typer(keys.key_app, name="key", rich_help_panel=RESOURCES_PANEL)
app.add_typer(notifications.notification_app, name="notifications", rich_help_panel=RESOURCES_PANEL)
app.command(rich_help_panel=RESOURCES_PANEL)(usage.usage)
app.command(rich_help_panel=RESOURCES_PANEL)(audit.audit)
app.command(rich_help_panel=RESOURCES_PANEL)(prune.prune)
for _command in _SERVER_COMMANDS:
    app.command(rich_help_panel=SERVER_PANEL)(_command)


def main() -> None:
    skip_httpx_cli()
    if "_HOLDFAST_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    code = run_command_line(sys.argv[1:])
    _flush_streams()
    sys.exit(code)


def run_command_line(args: Sequence[str]) -> int:
    json = has_json_option(args)
    try:
        result = _build_command(args[0] if args else "")(list(args), prog_name="holdfast", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except output.OutputClosed:
        return OK
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except typer.TyperException as error:
        return _report_usage_error(error, json)
    except HoldfastError as error:
        show_error(error, json=json, source=find_job_source(args), outcome=describe_outcome(args))
        return ERROR
    except RecursionError:
        hint = "Is this the address of a Holdfast server? Check HOLDFAST_URL."
        show_error(UserError("The response is nested too deeply", hint=hint), json=json)
        return ERROR
    except Exception as error:
        return _report_bug(error, json)


@functools.cache
def _build_command(word: str) -> Any:
    """Build only the branch of `word`: Typer reads every signature in the tree, which is slower than most commands."""
    return replace_type_names(skip_conversions(typer.main.get_command(_prune_app(word))))


def _prune_app(word: str) -> typer.Typer:
    """Return the whole app if `word` is not a command, for help and suggestions."""
    commands = [info for info in app.registered_commands if word == _resolve_command_name(info)]
    groups = [info for info in app.registered_groups if word == info.name]
    if not commands and not groups:
        return app
    pruned = copy.copy(app)
    pruned.registered_commands, pruned.registered_groups = commands, groups
    return pruned


def _resolve_command_name(info: CommandInfo) -> str:
    return info.name or typer.main.get_command_name(info.callback.__name__ if info.callback else "")


def has_json_option(args: Sequence[str]) -> bool:
    """Report whether errors are printed as JSON; arguments after `--` are the job's own command."""
    own = list(args)[: list(args).index("--")] if "--" in args else args
    return "--json" in own


def find_job_source(args: Sequence[str]) -> str | None:
    """Return the job file on the command line, for messages about its lines; COMMAND for a command after `--`."""
    if tuple(args[:2]) not in _SCHEDULE_OUTCOMES and (not args or args[0] not in ("submit", "plan", "simulate")):
        return None
    if "--" in args:
        return COMMAND_SOURCE
    words = [arg.removeprefix("--file=") for arg in args[1:]]
    named = [word for word in words if os.path.isfile(word)]  # noqa: PTH113 - a string is all that is needed
    if named:
        return named[0]
    return "stdin" if "-" in args else None


_SCHEDULE_OUTCOMES: dict[tuple[str, ...], str] = {
    ("schedule", "add"): "nothing was added",
    ("schedule", "set"): "nothing was changed",
}


def describe_outcome(args: Sequence[str]) -> str:
    """Return the consequence of an invalid job file; empty if none is expected."""
    if "plan" in args[:1]:
        return ""
    if "simulate" in args[:1]:
        return "nothing was run"
    return _SCHEDULE_OUTCOMES.get(tuple(args[:2]), "nothing was submitted")


def _report_usage_error(error: typer.TyperException, json: bool) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return USAGE  # the help is already printed
    command = context.command_path if context is not None else "holdfast"
    show_usage_error(error.format_message(), command, json=json)
    return error.exit_code


def _report_bug(error: Exception, json: bool) -> int:
    if os.environ.get("HOLDFAST_DEBUG"):
        raise error
    hint = "Report it with the traceback; set HOLDFAST_DEBUG=1 to print it."
    show_error(UserError(f"Internal error, a bug in holdfast: {type(error).__name__}: {error}", hint=hint), json=json)
    return ERROR


def _flush_streams() -> None:
    """Flush both streams; a closed pipe must not make Python print an error at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
