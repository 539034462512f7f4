"""The `simulate` command: run a job file on this machine before you submit it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Annotated

import typer

from .. import output
from ..exitcodes import ERROR, INTERRUPTED, USAGE
from ..options import JsonOption
from ..quantities import format_duration, parse_duration
from .submit import DialectOption, GroupOption, read_job_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.job import JobFormat as Dialects
    from holdfast.simulation import Remark, SimulationReport

COLOUR_CODE_PATTERN = re.compile(r"\x1b\[[0-9;:]*m")
STYLES = {"problem": "red", "warning": "yellow", "note": "dim"}


class SimulationEngine(StrEnum):
    SANDBOX = "sandbox"
    DOCKER = "docker"
    PODMAN = "podman"


def simulate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Job file in any supported format; - reads stdin.")],
    role: Annotated[list[str] | None, typer.Option(help="Run only this role. Repeatable.")] = None,
    instances: Annotated[str, typer.Option(metavar="N|all", help="Maximum number of instances of each role.")] = "1",
    timeout: Annotated[str, typer.Option(help="Stop after this time; running tasks have not failed.")] = "2m",
    engine: Annotated[
        SimulationEngine | None,
        typer.Option(
            "--with",
            help="Run in the sandbox of the embedded engine, or in containers. Default: the engine in the settings.",
        ),
    ] = None,
    write_mounts: Annotated[
        bool, typer.Option("--write-mounts", help="Let the job change the real folders of its writable mounts.")
    ] = False,
    group: GroupOption = None,
    dialect: DialectOption = None,
    server: Annotated[bool, typer.Option(help="Also check the job against the server, if there is one.")] = True,
    json: JsonOption = False,
) -> None:
    """Run a job file on this machine and report what would fail in the real run.

    Exit codes: 0 if no problem was found, 1 if there are problems, 2 if the job file is invalid.
    """
    from holdfast.settings import load_settings, resolve_default_home
    from holdfast.simulation import (
        Remarks,
        ServerView,
        SimulationEnding,
        SimulationOptions,
        fetch_server_view,
        parse_job_file,
    )
    from holdfast.simulation import run_simulation as run

    wanted = SimulationOptions(
        engine=engine.value if engine else None,
        roles=tuple(role or ()),
        instances=_parse_instances(instances),
        timeout=_parse_timeout(timeout),
        write_mounts=write_mounts,
    )
    state, remarks = resolve_default_home(), Remarks()
    settings = load_settings(state, os.environ)
    with _exit_if_invalid(file, json):
        text = read_job_file(file)
        view = fetch_server_view(text, group=group, dialect=dialect) if server else ServerView(why="--no-server")
        job = parse_job_file(text, settings, remarks, dialect=_parse_dialect(dialect), user=view.user or None)
    job = replace(job, group=group) if group else job
    report = run(job, wanted, state=state, settings=settings, view=view, remarks=remarks, say=_build_printer(json))
    if json:
        output.emit_json({**_report_to_dict(report), "would_break": report.has_problems})
    else:
        show_report(report)
    if report.ending is SimulationEnding.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)
    if report.has_problems:
        raise typer.Exit(ERROR)


@contextmanager
def _exit_if_invalid(file: str, json: bool) -> Iterator[None]:
    """Exit with code 2 if the job file is invalid."""
    from holdfast.core.errors import UserError

    from ..errors import show_error

    try:
        yield
    except UserError as error:
        show_error(error, json=json, source="stdin" if file == "-" else file, outcome="nothing was run")
        raise typer.Exit(USAGE) from None


def _parse_dialect(name: str | None) -> Dialects | None:
    from holdfast.core.job import JobFormat

    if name is not None and name not in tuple(JobFormat):
        raise typer.BadParameter(f"unknown file format {name!r}; supported: {', '.join(JobFormat)}")
    return JobFormat(name) if name else None


def _parse_instances(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"--instances: {text!r} is neither a positive number nor 'all'")
    return int(text)


def _parse_timeout(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise typer.BadParameter("--timeout must be greater than 0")
    return seconds


def _build_printer(json: bool) -> Callable[[str, str], None]:
    """Return a function that prints output of tasks to stdout, or to stderr with --json."""

    def print_message(task: str, line: str) -> None:
        stream = sys.stderr if json else sys.stdout
        text = f"{output.style_text(f'{output.escape(task)} |', 'cyan', stream)} {_sanitize_colours(line, stream)}"
        output.print_note(text) if json else output.emit_line(text)

    return print_message


def _sanitize_colours(line: str, stream: IO[str]) -> str:
    """Return the line escaped, with its own colours on a colour terminal, reset at its end."""
    if not output.has_colour(stream):
        return output.escape(COLOUR_CODE_PATTERN.sub("", line))
    pieces = COLOUR_CODE_PATTERN.split(line)
    colours = [*COLOUR_CODE_PATTERN.findall(line), "\x1b[0m" if len(pieces) > 1 else ""]
    return "".join(output.escape(piece) + colour for piece, colour in zip(pieces, colours, strict=True))


def _report_to_dict(report: SimulationReport) -> dict[str, object]:
    return {name: getattr(report, name) for name in type(report).__dataclass_fields__}


def show_report(report: SimulationReport) -> None:
    for task in report.tasks:
        seconds = f" after {format_duration(task.seconds)}" if task.seconds is not None and task.state != "Cut" else ""
        output.emit_line(f"{output.escape(task.task)}: {output.escape(task.message)}{seconds}")
    for level in STYLES:
        for remark in report.remarks:
            if remark.level == level:
                _show_remark(remark)
    output.emit_styled(_summarize_report(report), "red" if report.has_problems else "green")


def _show_remark(remark: Remark) -> None:
    where = f"{output.escape(remark.role)}: " if remark.role else ""
    head = output.style_text(f"{remark.level}:", STYLES[remark.level], sys.stdout)
    output.emit_line(f"{head} {where}{output.escape(remark.text)}")
    for line in remark.evidence:
        output.emit_line(f"    | {output.escape(line)}")
    if remark.hint:
        output.emit_line(f"    {output.escape(remark.hint)}")


def _summarize_report(report: SimulationReport) -> str:
    problems = sum(remark.level == "problem" for remark in report.remarks)
    if problems:
        return f"The job would fail: {problems} {'problem' if problems == 1 else 'problems'}."
    if report.ending == "interrupted":
        return "Interrupted; nothing had failed."
    if any(task.state == "Failed" for task in report.tasks):
        return "It failed here, but the real run may succeed: see the warnings."
    warnings = sum(remark.level == "warning" for remark in report.remarks)
    rest = f", with {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
    if report.ending == "timeout":
        return f"No failure in {report.seconds:.0f} s{rest}; stopped by the timeout. To run longer, use --timeout."
    return f"No problems found{rest}."
