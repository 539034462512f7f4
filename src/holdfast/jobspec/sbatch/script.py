"""A batch script as sbatch reads it: the interpreter, and the lines of options before the first command."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from holdfast.core.messages import msg

from ..fields import ProblemReport
from ..paths import clip_text

SLURM_MARKER, HOLDFAST_MARKER = "#SBATCH", "#HOLDFAST"
_YAML_START_PATTERN = re.compile(r"""---|[\[{]|["']?[A-Za-z][\w-]*["']?\s*:(\s|$)""")
_MISSPELT_MARKER_PATTERN = re.compile(r"\s*#\s*([A-Za-z]{4,8})\s+--?[A-Za-z]")
_PBS_PATTERN = re.compile(r"#PBS\s+-")
_MIN_SIMILARITY = 0.8  # of a misspelt marker; see difflib


@dataclass(frozen=True, slots=True)
class ScriptLine:
    number: int  # 1-based
    text: str


@dataclass(frozen=True, slots=True)
class BatchScript:
    text: str  # with the line ends of Unix
    header: tuple[ScriptLine, ...]  # empty lines and comments before the first command
    body: tuple[ScriptLine, ...]
    had_windows_line_ends: bool = False

    @property
    def interpreter(self) -> tuple[str, ...]:
        """The program of the first line and its argument: Linux passes everything after the program as one."""
        first = self.header[0].text if self.header else ""
        return tuple(first[2:].strip().split(None, 1)) if first.startswith("#!") else ()

    def list_marked_lines(self, marker: str) -> list[ScriptLine]:
        """Return what follows the marker in each header line that starts with it."""
        return [ScriptLine(line.number, line.text[len(marker) :]) for line in _iter_marked_lines(self.header, marker)]


def split_script(text: str) -> BatchScript:
    unix = text.replace("\r\n", "\n")
    lines = [ScriptLine(number, line) for number, line in enumerate(unix.split("\n"), 1)]
    first_command = next((at for at, line in enumerate(lines) if _is_command(line.text)), len(lines))
    return BatchScript(unix, tuple(lines[:first_command]), tuple(lines[first_command:]), "\r\n" in text)


def is_sbatch_script(text: str) -> bool:
    """Whether the text has options of sbatch before its first command. Without a first line `#!`, the rest must not
    look like YAML, which has the same comments."""
    if not text.startswith("#"):
        return False
    script = split_script(text)
    if next(_iter_marked_lines(script.header, SLURM_MARKER), None) is None:
        return False
    return text.startswith("#!") or not _looks_like_yaml(script)


def is_plain_script(text: str) -> bool:
    """Whether the text is a script without options of sbatch."""
    return text.startswith("#!") and not is_sbatch_script(text) and not _looks_like_yaml(split_script(text))


def _looks_like_yaml(script: BatchScript) -> bool:
    return bool(script.body) and _YAML_START_PATTERN.match(script.body[0].text) is not None


def report_unread_lines(script: BatchScript, report: ProblemReport) -> None:
    """Warn about lines that look like options, but are not read."""
    for line in script.header:
        found = _MISSPELT_MARKER_PATTERN.match(line.text)
        if found and not _has_marker(line.text, SLURM_MARKER) and _is_similar_to_marker(found[1]):
            message = msg("is not read: lines of options start with exactly {marker}", marker=SLURM_MARKER)
            report.add_warning(clip_text(line.text.strip(), 20), line.number, message)
    pbs = next((line for line in script.header if _PBS_PATTERN.match(line.text)), None)
    if pbs:
        report.add_warning("#PBS", pbs.number, msg("is not read: only lines with {marker} are", marker=SLURM_MARKER))
    late = next(_iter_marked_lines(script.body, SLURM_MARKER), None)
    if late:
        report.add_warning(
            SLURM_MARKER,
            late.number,
            msg("is not read after the first command, which is in line {line}", line=script.body[0].number),
        )


def _iter_marked_lines(lines: tuple[ScriptLine, ...], marker: str) -> Iterator[ScriptLine]:
    return (line for line in lines if _has_marker(line.text, marker))


def _has_marker(text: str, marker: str) -> bool:
    rest = text[len(marker) :]
    return text.startswith(marker) and (not rest or rest[0].isspace() or rest[0] == "-")


def _is_command(text: str) -> bool:
    stripped = text.strip()
    return bool(stripped) and not stripped.startswith("#")


@lru_cache(maxsize=64)
def _is_similar_to_marker(word: str) -> bool:
    return difflib.SequenceMatcher(None, word.upper(), SLURM_MARKER[1:]).ratio() >= _MIN_SIMILARITY
