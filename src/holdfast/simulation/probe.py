"""Check of the image before the commands run, with a script in the sandbox of the task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from shlex import quote

from holdfast.engines.base import LaunchSpec
from holdfast.launching.shell import fill_script, read_script

from .image_requirements import ImageRequirements
from .report import Remarks, RemarkTopic
from .task_output import SecretMask

_PROBE_SCRIPT = read_script(__package__, "probe.sh")


@dataclass(slots=True)
class ProbeResult:
    missing_programs: list[str] = field(default_factory=list)
    missing_files: list[str] = field(default_factory=list)
    missing_folders: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)  # defined
    syntax: list[str] = field(default_factory=list)  # syntax errors of the commands
    complete: bool = False


def build_probe_launch(launch: LaunchSpec, needs: ImageRequirements) -> LaunchSpec:
    return replace(
        launch,
        attempt_id=f"{launch.attempt_id}.probe",
        script=_render_probe_script(launch.script, needs),
        entry="",
        shell_options=(),
        ports={},
        gpus=(),
    )


def _render_probe_script(commands: str, needs: ImageRequirements) -> str:
    return fill_script(
        _PROBE_SCRIPT,
        programs=_quote_words(needs.programs),
        files=_quote_words(needs.files),
        folders=_quote_words(needs.folders),
        commands=quote(commands),
    )


def _quote_words(words: Iterable[str]) -> str:
    return " ".join(map(quote, words)) or "''"


def parse_probe_output(output: bytes) -> ProbeResult:
    answer = ProbeResult()
    kinds = {
        "program": answer.missing_programs,
        "file": answer.missing_files,
        "folder": answer.missing_folders,
        "variable": answer.variables,
        "syntax": answer.syntax,
    }
    for line in output.decode("utf-8", "replace").splitlines():
        kind, _, rest = line.partition(" ")
        if kind in kinds:
            kinds[kind].append(rest)
        elif line == "whole":
            answer.complete = True
    return answer


def report_probe_result(answer: ProbeResult, image: str, role: str, mask: SecretMask, remarks: Remarks) -> None:
    for name in answer.missing_programs:
        text = f"The image {image} has no program {mask(name)}"
        remarks.add_warning(
            RemarkTopic.COMMAND, text, "Install it with an earlier command, or use another image.", role
        )
    for path in answer.missing_files:
        hint = "Mount its folder, or fetch it with an earlier command."
        remarks.add_warning(
            RemarkTopic.FILE, f"The commands use the file {mask(path)}, which does not exist", hint, role
        )
    for path in answer.missing_folders:
        hint = "Create it with an earlier command, mount it, or correct the path."
        remarks.add_warning(
            RemarkTopic.PATH, f"The commands change to the folder {mask(path)}, which does not exist", hint, role
        )
    if answer.syntax:
        remarks.add_problem(
            RemarkTopic.SYNTAX, f"Shell syntax error in the commands: {mask(answer.syntax[0])}", role=role
        )
