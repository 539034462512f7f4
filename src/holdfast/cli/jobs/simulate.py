"""simulate: run a job file on this machine before it is submitted."""

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
from ..options import Json
from ..quantities import parse_duration, show_duration
from .submit import Dialect, Group, read_job_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.job import Dialect as Dialects
    from holdfast.simulation import Remark, Report

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
STYLES = {"problem": "red", "warning": "yellow", "note": "dim"}


class With(StrEnum):
    SANDBOX = "sandbox"
    DOCKER = "docker"
    PODMAN = "podman"


def simulate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A job file in any dialect; - reads stdin.")],
    role: Annotated[list[str] | None, typer.Option(help="Run this role alone; may be given several times.")] = None,
    instances: Annotated[str, typer.Option(metavar="N|all", help="Run so many instances of each role, at most.")] = "1",
    timeout: Annotated[str, typer.Option(help="Stop it after this long; what ran until then did not fail.")] = "2m",
    engine: Annotated[
        With, typer.Option("--with", help="Run it in this: the sandbox of the embedded engine, or containers.")
    ] = With.SANDBOX,
    group: Group = None,
    dialect: Dialect = None,
    server: Annotated[bool, typer.Option(help="Ask the server, where there is one, what only it knows.")] = True,
    json: Json = False,
) -> None:
    """Run a job file here before it is submitted, and say what would break in the real run.

    Ends with 0 when nothing would break, 1 when something would, 2 when the file is no valid job.
    """
    from holdfast.settings import default_home, load_settings
    from holdfast.simulation import Ending, Options, Remarks, ServerView, ask_server, read_job
    from holdfast.simulation import simulate as run

    wanted = Options(
        engine=engine.value, roles=tuple(role or ()), instances=_count(instances), timeout=_timeout(timeout)
    )
    state, remarks = default_home(), Remarks()
    settings = load_settings(state, os.environ)
    with _invalid(file, json):
        text = read_job_file(file)
        view = ask_server(text, group=group, dialect=dialect) if server else ServerView(why="--no-server")
        job = read_job(text, settings, remarks, dialect=_dialect(dialect), user=view.user or None)
    job = replace(job, group=group) if group else job
    report = run(job, wanted, state=state, settings=settings, view=view, remarks=remarks, say=_sayer(json))
    if json:
        output.emit_json({**_plain(report), "would_break": report.would_break})
    else:
        show(report)
    if report.ending is Ending.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)
    if report.would_break:
        raise typer.Exit(ERROR)


@contextmanager
def _invalid(file: str, json: bool) -> Iterator[None]:
    """A file that is no job ends us with a code of its own."""
    from holdfast.core.errors import UserError

    from ..errors import show_error

    try:
        yield
    except UserError as error:
        show_error(error, json=json, source="stdin" if file == "-" else file, outcome="nothing was run")
        raise typer.Exit(USAGE) from None


def _dialect(name: str | None) -> Dialects | None:
    from holdfast.core.job import Dialect

    if name is not None and name not in tuple(Dialect):
        raise typer.BadParameter(f"there is no dialect {name!r}; known are {', '.join(Dialect)}")
    return Dialect(name) if name else None


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"--instances: {text!r} is neither a number above 0 nor all")
    return int(text)


def _timeout(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise typer.BadParameter("--timeout must be above 0")
    return seconds


def _sayer(json: bool) -> Callable[[str, str], None]:
    """Lines of tasks go to stdout as they come; where that is for the report in JSON, to stderr."""

    def say(task: str, line: str) -> None:
        stream = sys.stderr if json else sys.stdout
        text = f"{output.styled(f'{output.safe(task)} |', 'cyan', stream)} {_coloured(line, stream)}"
        output.note(text) if json else output.emit(text)

    return say


def _coloured(line: str, stream: IO[str]) -> str:
    """Safe, with the colours of whoever wrote it where there are any; they end with the line."""
    if not output.has_colour(stream):
        return output.safe(COLOUR.sub("", line))
    pieces = COLOUR.split(line)
    colours = [*COLOUR.findall(line), "\x1b[0m" if len(pieces) > 1 else ""]
    return "".join(output.safe(piece) + colour for piece, colour in zip(pieces, colours, strict=True))


def _plain(report: Report) -> dict[str, object]:
    return {name: getattr(report, name) for name in type(report).__dataclass_fields__}


def show(report: Report) -> None:
    for task in report.tasks:
        seconds = f" after {show_duration(task.seconds)}" if task.seconds is not None and task.state != "Cut" else ""
        output.emit(f"{output.safe(task.task)}: {output.safe(task.message)}{seconds}")
    for level in STYLES:
        for remark in report.remarks:
            if remark.level == level:
                _show_remark(remark)
    output.emit(output.styled(_summary(report), "red" if report.would_break else "green", sys.stdout))


def _show_remark(remark: Remark) -> None:
    where = f"{output.safe(remark.role)}: " if remark.role else ""
    head = output.styled(f"{remark.level}:", STYLES[remark.level], sys.stdout)
    output.emit(f"{head} {where}{output.safe(remark.text)}")
    for line in remark.evidence:
        output.emit(f"    | {output.safe(line)}")
    if remark.hint:
        output.emit(f"    {output.safe(remark.hint)}")


def _summary(report: Report) -> str:
    problems = sum(remark.level == "problem" for remark in report.remarks)
    if problems:
        return f"It would break: {problems} {'problem' if problems == 1 else 'problems'}."
    if report.ending == "interrupted":
        return "Stopped before its end; nothing had failed."
    if any(task.state == "Failed" for task in report.tasks):
        return "It failed here, which says nothing of the real run: see the warnings."
    warnings = sum(remark.level == "warning" for remark in report.remarks)
    rest = f", with {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
    if report.ending == "timeout":
        return f"Ran {report.seconds:.0f} s without failing{rest}, then the simulation stopped it. Longer: --timeout."
    return f"Nothing broke{rest}."
