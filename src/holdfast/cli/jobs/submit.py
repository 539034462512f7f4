"""The `submit` and `plan` commands, for a job file or a command after `--`."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import TooLarge, UserError

from .. import output
from ..command_after_dashes import DoubleDashCommand, get_command_after_dashes
from ..options import FollowOption, JsonOption, WaitOption, expand_options, open_client
from ..slurm_options import iter_task_option_lines
from .follow import report_submitted_job
from .hold_options import HoldOptions
from .job_options import JobOptions, compose_job
from .notification_options import NotifyOption

if TYPE_CHECKING:
    from holdfast.sdk import Plan
    from holdfast.sdk.jobs import SubmitOptions

MAX_JOB_FILE_SIZE = 64 * 1024 * 1024  # of a job file; the server accepts less, with a better error message

OVERRIDES = frozenset({"engine"})  # job options that override a job file
OPTION_FIELDS = {
    "cpu": "resources",
    "memory": "resources",
    "gpu": "resources",
    "mount": "mounts",
    "dataset": "datasets",
}


class JobCommand(DoubleDashCommand):
    """A command that keeps the arguments after `--` as the job's command."""

    def explain_missing_dashes(self, ctx: Any, args: list[str], message: str) -> str | None:
        if "unexpected extra argument" not in message:
            return None
        return (
            f"expected one FILE; put a command after --: holdfast {ctx.info_name} -- {shlex.join(_skip_options(args))}"
        )


def _skip_options(args: list[str]) -> list[str]:
    """Return the arguments from the first one that is not an option."""
    at = next((at for at, arg in enumerate(args) if not arg.startswith("-")), 0)
    return args[at:]


FileArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="Job file in any supported format; - reads stdin.")
]
GroupOption = Annotated[str | None, typer.Option("--group", "-g", help="Group of the job.")]
DialectOption = Annotated[str | None, typer.Option(help="Format of the job file. Default: detected.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOptions:
    """Options of submit and plan for a job file, and for a command after `--`."""

    file: FileArgument = None
    group: GroupOption = None
    dialect: DialectOption = None
    notify: NotifyOption = None

    def build_overrides(self, job: bytes | dict[str, Any], options: JobOptions, hold: HoldOptions) -> SubmitOptions:
        """Return what the options set in addition to the job."""
        return {
            "group": self.group,
            "dialect": self.dialect,
            "file_name": get_script_name(self.file, job),
            "hold": hold.build_hold_parameter(),
            "notify": self.notify,
            "engine": options.engine,
        }


@expand_options
def submit(
    ctx: typer.Context,
    *,
    submission: SubmissionOptions,
    options: JobOptions,
    hold: HoldOptions,
    follow: FollowOption = False,
    wait: WaitOption = False,
    json: JsonOption = False,
) -> None:
    """Submit a job: `holdfast submit FILE` or `holdfast submit -- COMMAND…`."""
    job = _read_job(ctx, submission.file, options)
    overrides = submission.build_overrides(job, options, hold)
    with open_client() as client:
        sent = client.submit_job(job, **overrides)
        report_submitted_job(client, sent, follow=follow, wait=wait, json=json)
    output.print_hint(f"holdfast logs -f {sent.id}", f"holdfast show {sent.id}")


@expand_options
def plan(
    ctx: typer.Context,
    *,
    submission: SubmissionOptions,
    options: JobOptions,
    hold: HoldOptions,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the job as YAML in Holdfast format.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what would happen to a job, without submitting it."""
    job = _read_job(ctx, submission.file, options)
    overrides = submission.build_overrides(job, options, hold)
    with open_client() as client:
        found = client.plan_job(job, **overrides)
    if json:
        output.emit_json(found)
    elif yaml:
        output.emit_line(found.yaml.rstrip("\n"))
    else:
        _show_plan(found)
    if found.verdict == "never":
        raise typer.Exit(1)
    output.print_hint(f"holdfast submit {submission.file or '-- …'}")


VERDICT_MESSAGES = {
    "now": ("It would start now.", "green"),
    "wait": ("It would wait in the queue.", "yellow"),
    "never": ("It can never run on this server.", "red"),
}


def _show_plan(plan: Plan) -> None:
    text, style = VERDICT_MESSAGES.get(plan.verdict, (plan.verdict, ""))
    output.emit_styled(text, style)
    for reason in plan.reasons:
        output.emit_line(f"  - {output.escape(reason)}")
    for line in iter_task_option_lines(plan.slurm):
        output.emit_line(f"  slurm: {output.escape(line)}")
    for warning in plan.warnings:
        output.emit_line(f"  warning: {output.escape(warning)}")


def _read_job(ctx: typer.Context, file: str | None, options: JobOptions) -> bytes | dict[str, Any]:
    command = get_command_after_dashes(ctx)
    if command and file:
        raise typer.BadParameter("FILE and a command after -- cannot be used together")
    if command:
        return compose_job(command, options, Path.cwd())
    given = [field.name for field in fields(options) if getattr(options, field.name) and field.name not in OVERRIDES]
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        keys = ", ".join(dict.fromkeys(f"`{OPTION_FIELDS.get(name, name)}`" for name in given))
        raise typer.BadParameter(f"{names}: only valid with a command after --; set {keys} in the job file")
    if file is None:
        raise typer.BadParameter(f"missing FILE or a command after --; to read stdin: holdfast {ctx.info_name} -")
    return read_job_file(file)


def get_script_name(file: str | None, job: bytes | dict[str, Any]) -> str | None:
    """Return the name of a script's file; other job files have a name of their own."""
    is_script = isinstance(job, bytes) and job.startswith(b"#!")
    return Path(file).name if is_script and file and file != "-" else None


def read_job_file(file: str) -> bytes:
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
            data = source.read(MAX_JOB_FILE_SIZE + 1)
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}", hint=_build_read_error_hint(file)) from None
    if len(data) > MAX_JOB_FILE_SIZE:
        raise TooLarge(f"{file} is too large for a job file", hint="Move the data to files and mount them.")
    return data


def _build_read_error_hint(file: str) -> str:
    """Return the hint for a file that cannot be read: it may be a command."""
    words = file.split()
    if not Path(file).exists() and words and (len(words) > 1 or shutil.which(words[0])):
        return f"To submit a command, put -- before it: holdfast submit -- {shlex.quote(file)}"
    return "Check the path."
