"""A look into the image before the commands run: a script in the very sandbox of the task, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from shlex import quote

from holdfast.engines.base import Launch

from .heard import Mask
from .needs import Needs
from .report import About, Remarks


@dataclass(slots=True)
class Answer:
    programs: list[str] = field(default_factory=list)  # that are missing
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)  # that are there
    syntax: list[str] = field(default_factory=list)  # what the shell has against the commands
    whole: bool = False


def probe_launch(launch: Launch, needs: Needs) -> Launch:
    return replace(
        launch,
        attempt_id=f"{launch.attempt_id}.probe",
        script=_script(launch.script, needs),
        entry="",
        shell_options=(),
        ports={},
        gpus=(),
    )


def _script(commands: str, needs: Needs) -> str:
    return _PROBE.format(
        programs=_listed(needs.programs),
        files=_listed(needs.files),
        folders=_listed(needs.folders),
        commands=quote(commands),
    )


def _listed(words: Iterable[str]) -> str:
    return " ".join(map(quote, words)) or "''"


_PROBE = """\
for word in {programs}; do
    [ -z "$word" ] || command -v -- "$word" >/dev/null 2>&1 || command -v "$word" >/dev/null 2>&1 ||
        printf 'program %s\\n' "$word"
done
for path in {files}; do
    [ -z "$path" ] || [ -e "$path" ] || printf 'file %s\\n' "$path"
done
for path in {folders}; do
    [ -z "$path" ] || [ -d "$path" ] || printf 'folder %s\\n' "$path"
done
export -p | while IFS= read -r line; do
    line=${{line#declare -x }}
    line=${{line#export }}
    line=${{line%%=*}}
    case $line in
    *[!A-Za-z0-9_]* | '') ;;
    *) printf 'variable %s\\n' "$line" ;;
    esac
done
printf %s {commands} | "${{BASH:-/bin/sh}}" -n 2>&1 | while IFS= read -r line; do
    printf 'syntax %s\\n' "$line"
done
echo whole
"""


def read_answer(output: bytes) -> Answer:
    answer = Answer()
    kinds = {
        "program": answer.programs,
        "file": answer.files,
        "folder": answer.folders,
        "variable": answer.variables,
        "syntax": answer.syntax,
    }
    for line in output.decode("utf-8", "replace").splitlines():
        kind, _, rest = line.partition(" ")
        if kind in kinds:
            kinds[kind].append(rest)
        elif line == "whole":
            answer.whole = True
    return answer


def tell_answer(answer: Answer, image: str, role: str, mask: Mask, remarks: Remarks) -> None:
    for name in answer.programs:
        text = f"There is no program {mask(name)} in the image {image}"
        remarks.warn(
            About.COMMAND, text, "Is it installed by something that runs before? Else take another image.", role
        )
    for path in answer.files:
        hint = "Mount the folder it is in, or fetch it by an earlier command."
        remarks.warn(About.FILE, f"There is no file {mask(path)} where the commands run", hint, role)
    for path in answer.folders:
        hint = "Make it by an earlier command, mount it, or correct the path."
        remarks.warn(About.PATH, f"There is no folder {mask(path)} to go to", hint, role)
    if answer.syntax:
        remarks.problem(About.SYNTAX, f"The shell cannot read the commands: {mask(answer.syntax[0])}", role=role)
