"""The lines of options -> the options by their long names, with the line of each. The last of several counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.core.messages import msg

from ..document import DocumentNode
from ..fields import FieldValue, ProblemReport, build_similar_name_hint
from ..paths import clip_text
from .option_table import LONG_NAMES, OLD_NAMES, OPTIONS, Argument
from .script import ScriptLine

_COMPONENT_WORDS = ("hetjob", "packjob", ":")  # each begins another component of a heterogeneous job
SEVERAL_NODES_HINT = msg("For several nodes, use roles and instances in a Holdfast job file.")

_PLUGIN_HINT = msg("Remove it if it is an option of a plugin of another cluster.")

OptionValues = dict[str, FieldValue]


@dataclass(frozen=True, slots=True)
class _Context:
    line: int
    report: ProblemReport

    def add_problem(self, field: str, message: str, hint: str | None = None, rule: str = "syntax") -> None:
        self.report.add_problem(clip_text(field, 80), self.line, message, hint, rule=rule)


def read_options(lines: Iterable[ScriptLine], report: ProblemReport) -> OptionValues:
    """Return the options that a job uses; report all others."""
    found: OptionValues = {}
    for line in lines:
        context = _Context(line.number, report)
        words = list(_split_words(line.text, context))
        if any(word in _COMPONENT_WORDS for word in words):
            message = msg("is not supported: a script runs in one task on one node")
            context.add_problem("hetjob", message, SEVERAL_NODES_HINT, "not")
            return found  # what follows is for another component
        for name, value in _iter_options(words, context):
            option = FieldValue(DocumentNode(value, line.number), f"--{name}", report)
            if name == "mail-type" and name in found:  # all of them count
                option.node.value = f"{found[name].node.value},{value}"
            if _report_unused_option(name, option):
                found[name] = option
    return found


def _report_unused_option(name: str, option: FieldValue) -> bool:
    """Return whether the job uses the option; otherwise report it."""
    spec = OPTIONS[name]
    if spec.refusal and not (name == "begin" and option.node.value == "now"):
        option.add_problem(spec.refusal, spec.hint or None, rule="not")
    elif not spec.is_used and not spec.refusal:
        option.add_warning(msg("has no effect here"), spec.hint or None)
    return spec.is_used


def _iter_options(words: list[str], context: _Context) -> Iterator[tuple[str, str]]:
    """Yield (long name, value), as getopt_long does."""
    rest = deque(words)
    while rest and not context.report.is_full:
        word = rest.popleft()
        if word.startswith("--") and len(word) > 2:
            yield from _read_long_option(word[2:], rest, context)
        elif word.startswith("-") and len(word) > 1:
            yield from _read_letters(word[1:], rest, context)
        else:
            context.add_problem(word, msg("is not an option"), msg("Put a value with spaces in quotes."))


def _read_long_option(text: str, rest: deque[str], context: _Context) -> Iterator[tuple[str, str]]:
    written, equals, value = text.partition("=")
    name = _find_long_name(written, context)
    if name is None:
        if not equals:
            _skip_value(rest)
        return
    argument = OPTIONS[name].argument
    if argument is Argument.NONE and equals:
        context.add_problem(f"--{name}", msg("does not have a value"))
    elif argument is Argument.REQUIRED and not equals:
        yield from _read_next_word(name, rest, context)
    else:
        yield name, value


def _find_long_name(written: str, context: _Context) -> str | None:
    """Find the option by its name, or by the beginning of it if that is unique."""
    name = OLD_NAMES.get(written, written)
    if name in OPTIONS:
        return name
    longer = [known for known in (*OPTIONS, *OLD_NAMES) if known.startswith(written)]
    if written and len(longer) == 1:
        return OLD_NAMES.get(longer[0], longer[0])
    shorter = max((known for known in OPTIONS if written.startswith(known)), key=len, default="")
    hint = build_similar_name_hint(written, longer or OPTIONS, _format_option_hint)
    hint = hint or (_format_option_hint(shorter) if shorter else _PLUGIN_HINT)
    context.add_problem(f"--{written}", msg("is not an option of sbatch"), hint, "additionalProperties")
    return None


def _format_option_hint(name: str) -> str:
    return msg("Did you mean {value}?", value=f"--{name}")


def _read_letters(text: str, rest: deque[str], context: _Context) -> Iterator[tuple[str, str]]:
    """Read -N2, -N 2 or flags in one word: -QW."""
    for at, letter in enumerate(text, 1):
        name = LONG_NAMES.get(letter)
        if name is None:
            context.add_problem(f"-{letter}", msg("is not an option of sbatch"), rule="additionalProperties")
            _skip_value(rest)
            return
        argument, value = OPTIONS[name].argument, text[at:]
        if argument is Argument.NONE:
            yield name, ""
            continue
        if value.startswith("="):
            hint = msg("Write {value}.", value=f"-{letter} {clip_text(value[1:])}")
            context.add_problem(f"-{letter}", msg("must not be followed by ="), hint)
        elif value or argument is Argument.OPTIONAL:
            yield name, value
        else:
            yield from _read_next_word(name, rest, context)
        return


def _read_next_word(name: str, rest: deque[str], context: _Context) -> Iterator[tuple[str, str]]:
    if rest:
        yield name, rest.popleft()
    else:
        context.add_problem(f"--{name}", msg("requires a value"), rule="required")


def _skip_value(rest: deque[str]) -> None:
    """Skip the value of an unknown option, which would be reported as well."""
    if rest and not rest[0].startswith("-"):
        rest.popleft()


def _split_words(text: str, context: _Context) -> Iterator[str]:
    """Split at spaces outside of quotes. A # at the start of a word begins a comment."""
    word: list[str] | None = None  # None: between words
    quote = ""
    letters = iter(text)
    for letter in letters:
        if letter.isspace() and not quote:
            if word is not None:
                yield "".join(word)
            word = None
            continue
        if word is None and letter == "#":
            return
        word = [] if word is None else word
        if letter == "\\" and quote != "'":
            word.append(next(letters, ""))
        elif letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        else:
            word.append(letter)
    if quote:
        context.add_problem("#SBATCH", msg("has a quote that is not closed"))
    elif word is not None:
        yield "".join(word)
