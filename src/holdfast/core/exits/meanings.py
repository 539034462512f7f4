"""What an exit means, in the plain words that people are shown: where OpenPAI's row for it only says that no row fits,
the exit code itself tells more. What OpenPAI's clients are told stays in `exit_texts`."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.messages import join_messages

from .exit import Cause, Exit, ExitKind
from .table import spec_of


class Meaning(NamedTuple):
    reason: str
    solution: tuple[str, ...]


_NO_ROW = 255  # "failed with a code of its own"
_READ = "Read the end of the task's log; the first error there is usually the cause."
_BY_HAND = "Run the commands by hand in the same image."

# Where a shell or the kernel gives the code its meaning.
_KNOWN: dict[int, Meaning] = {
    126: Meaning(
        "A command was found, but it cannot be run: it is not executable, is a folder, or was built for another kind "
        "of machine.",
        ("Make the file executable with `chmod +x`, or name the program that runs it, such as `python3 train.py`.",),
    ),
    127: Meaning(
        "A command was not found: its name is mistyped, or the program is not in the image.",
        ("Look for a typing error in the commands.", "Install the program first, or use an image that has it."),
    ),
}
_SIGNALS: dict[int, str] = {
    137: "The program was killed (SIGKILL), or ended with 137 by its own choice.",
    139: "Segmentation fault: the program touched memory that is not its own (SIGSEGV).",
    143: "The program was terminated: something asked it to end (SIGTERM).",
}
_COMMON: dict[int, str] = {
    1: "The program ended with exit code 1, which most programs use for any failure. Its log tells more.",
    2: "The program ended with exit code 2, which many programs use for a wrong option or argument, and the shell for "
    "a mistake in the commands.",
}
_OTHER = (
    "The program ended with an exit code of its own choice. What it means is up to the program; its log tells more."
)
_CAUSES: dict[str, str] = {
    Cause.UNSET_VARIABLE.value: "The commands read a variable that is not set.",
}


def meaning_of(exit: Exit) -> Meaning:
    spec, code = spec_of(exit), exit.code or 0
    if exit.kind is ExitKind.USER_ERROR and spec.code == code and code in _SIGNALS:
        return Meaning(_SIGNALS[code], spec.solution)
    if exit.kind is not ExitKind.USER_ERROR or spec.code != _NO_ROW:
        return Meaning(spec.reason, spec.solution)
    if exit.cause in _CAUSES:
        return Meaning(_CAUSES[exit.cause], spec.solution)
    return _KNOWN.get(code) or Meaning(_COMMON.get(code, _OTHER), (_READ, _BY_HAND))


def known_code(exit: Exit) -> str:
    """What a code that every shell gives means and what to try; empty where only the program knows, or more is told."""
    if exit.kind is not ExitKind.USER_ERROR or exit.cause or exit.code not in _KNOWN:
        return ""
    known = _KNOWN[exit.code]
    return join_messages(" ", (known.reason, *known.solution))
