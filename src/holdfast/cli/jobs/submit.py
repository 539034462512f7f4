"""submit and plan: job files, or a job made of the command line."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from .. import output
from ..catalogue.instance_types import complete_instance_type
from ..options import Follow, Json, Wait, connect
from .follow import stay
from .hold_options import Hold, HoldFiles, HoldFor, hold_word
from .job_options import absolute_mount, compose_job
from .notification_options import Notify

if TYPE_CHECKING:
    from holdfast.sdk import Plan

MAX_BYTES = 64 * 1024 * 1024  # of a job file; the server accepts far less, but it says so better
JOB_OPTIONS = "Describing a job given as a command"


class TakesCommand(TyperCommand):
    """Keeps what stands after `--` apart: it is the job's command, not ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta["holdfast.command"] = args[cut + 1 :]
            args = args[:cut]
        given = list(args)  # parsing takes them away
        try:
            return list(super().parse_args(ctx, args))
        except typer.TyperException as error:
            if "unexpected extra argument" in error.format_message():
                words = f"holdfast {ctx.info_name} -- {shlex.join(_from_first_word(given))}"
                raise typer.BadParameter(f"give one FILE; a command goes after --: {words}", ctx=ctx) from None
            raise


def _from_first_word(args: list[str]) -> list[str]:
    """What looks like a command: all from the first argument on that is no option."""
    at = next((at for at, arg in enumerate(args) if not arg.startswith("-")), 0)
    return args[at:]


File = Annotated[str | None, typer.Argument(metavar="FILE", help="A job file in any dialect; - reads stdin.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Group whose quota it uses.")]
Dialect = Annotated[str | None, typer.Option(help="Read the file as this dialect, instead of recognising it.")]
Name = Annotated[str | None, typer.Option(help="Name; by default the program's.", rich_help_panel=JOB_OPTIONS)]
Image = Annotated[str | None, typer.Option(help="Image to run in.", rich_help_panel=JOB_OPTIONS)]
InstanceType = Annotated[
    str | None,
    typer.Option(
        help="Size of each task, by name: see holdfast instance-type ls.",
        rich_help_panel=JOB_OPTIONS,
        autocompletion=complete_instance_type,
    ),
]
Cpu = Annotated[float | None, typer.Option(help="Cores of each task.", rich_help_panel=JOB_OPTIONS)]
Memory = Annotated[str | None, typer.Option(help="Memory of each task: 512Mi, 2Gi.", rich_help_panel=JOB_OPTIONS)]
Gpu = Annotated[int | None, typer.Option(help="GPUs of each task.", rich_help_panel=JOB_OPTIONS)]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable.", rich_help_panel=JOB_OPTIONS),
]
Mount = Annotated[
    list[str] | None,
    typer.Option(metavar="SRC[:DST][:ro|rw]", help="A folder to show in the task.", rich_help_panel=JOB_OPTIONS),
]
Files = Annotated[
    bool,
    typer.Option(
        "--files", help="Show the group's shared files at /phfs: holdfast files.", rich_help_panel=JOB_OPTIONS
    ),
]
Dataset = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A dataset, shown below /datasets; may be repeated.", rich_help_panel=JOB_OPTIONS
    ),
]
Instances = Annotated[int | None, typer.Option(help="How many tasks.", rich_help_panel=JOB_OPTIONS)]
TimeLimit = Annotated[str | None, typer.Option(help="How long it may run: 90m, 2h, none.", rich_help_panel=JOB_OPTIONS)]
Retry = Annotated[int | None, typer.Option(help="Tries after a failure.", rich_help_panel=JOB_OPTIONS)]
Priority = Annotated[int | None, typer.Option(help="Higher goes first.", rich_help_panel=JOB_OPTIONS)]


def submit(
    ctx: typer.Context,
    file: File = None,
    group: Group = None,
    dialect: Dialect = None,
    name: Name = None,
    image: Image = None,
    instance_type: InstanceType = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    env: Env = None,
    mount: Mount = None,
    dataset: Dataset = None,
    files: Files = False,
    instances: Instances = None,
    time_limit: TimeLimit = None,
    retry: Retry = None,
    priority: Priority = None,
    hold: Hold = None,
    hold_for: HoldFor = None,
    hold_files: HoldFiles = False,
    notify: Notify = None,
    follow: Follow = False,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Submit a job: `holdfast submit FILE`, or `holdfast submit -- command…`."""
    job, keep = _job(ctx, file), hold_word(hold, hold_for, hold_files)
    with connect() as client:
        sent = client.submit(job, group=group, dialect=dialect, hold=keep, notify=notify)
        if not json or follow:
            output.note(f"Submitted {output.safe(sent.name)} as {sent.id}.", "bold")
        for warning in sent.warnings:
            output.note(f"warning: {output.safe(warning)}", "yellow")
        if follow or wait:
            stay(client, sent, follow=follow, json=json)
    if json:
        output.emit_json(sent)
    elif not output.is_terminal(sys.stdout):
        output.emit(sent.id)
    output.hint(f"holdfast logs -f {sent.id}", f"holdfast show {sent.id}")


def plan(
    ctx: typer.Context,
    file: File = None,
    group: Group = None,
    dialect: Dialect = None,
    name: Name = None,
    image: Image = None,
    instance_type: InstanceType = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    env: Env = None,
    mount: Mount = None,
    dataset: Dataset = None,
    files: Files = False,
    instances: Instances = None,
    time_limit: TimeLimit = None,
    retry: Retry = None,
    priority: Priority = None,
    hold: Hold = None,
    hold_for: HoldFor = None,
    hold_files: HoldFiles = False,
    notify: Notify = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the job in Holdfast's own YAML.")] = False,
    json: Json = False,
) -> None:
    """Say what would happen to a job, without submitting it."""
    job, keep = _job(ctx, file), hold_word(hold, hold_for, hold_files)
    with connect() as client:
        found = client.plan(job, group=group, dialect=dialect, hold=keep, notify=notify)
    if json:
        output.emit_json(found)
    elif yaml:
        output.emit(found.yaml.rstrip("\n"))
    else:
        _show_plan(found)
    if found.verdict == "never":
        raise typer.Exit(1)
    output.hint(f"holdfast submit {file or '-- …'}")


VERDICTS = {
    "now": ("It would start now.", "green"),
    "wait": ("It would wait.", "yellow"),
    "never": ("It could never run here.", "red"),
}


def _show_plan(plan: Plan) -> None:
    text, style = VERDICTS.get(plan.verdict, (plan.verdict, ""))
    output.emit(output.styled(text, style, sys.stdout))
    for reason in plan.reasons:
        output.emit(f"  - {output.safe(reason)}")
    for warning in plan.warnings:
        output.emit(f"  warning: {output.safe(warning)}")


def _job(ctx: typer.Context, file: str | None) -> bytes | dict[str, Any]:
    command: list[str] = ctx.meta.get("holdfast.command", [])
    given = {key: value for key, value in ctx.params.items() if key in DESCRIBING and value}
    if command and file:
        raise typer.BadParameter("give a FILE or a command after --, not both")
    if command:
        if "mount" in given:
            given["mount"] = [absolute_mount(one, Path.cwd()) for one in given["mount"]]
        return compose_job(command, **given)
    if given:
        options = ", ".join("--" + key.replace("_", "-") for key in given)
        raise typer.BadParameter(f"{options}: only for a command after --; a FILE says these itself")
    if file is None:
        raise typer.BadParameter(f"give a FILE, or a command after --; to read stdin: holdfast {ctx.info_name} -")
    return read_job_file(file)


# fmt: off
DESCRIBING = frozenset(
    (
        "name", "image", "instance_type", "cpu", "memory", "gpu", "env", "mount", "dataset", "instances",
        "time_limit", "retry", "priority", "files",
    )
)
# fmt: on


def read_job_file(file: str) -> bytes:
    from holdfast.core.errors import TooLarge, UserError

    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}", hint=_advice(file)) from None
    if len(data) > MAX_BYTES:
        raise TooLarge(f"{file} is too large for a job file", hint="Put data into files that the job mounts.")
    return data


def _advice(file: str) -> str:
    """For a file that cannot be read: it may have been meant as a command."""
    words = file.split()
    if not Path(file).exists() and words and (len(words) > 1 or shutil.which(words[0])):
        return f"To submit a command, put -- before it: holdfast submit -- {shlex.quote(file)}"
    return "Is the path right?"
