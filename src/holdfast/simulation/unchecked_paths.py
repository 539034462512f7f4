"""Paths that commands read and that a simulation cannot check, because they are in a stand-in."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from .shell_parser import SimpleCommand, Word, parse_script

_SUBPATH_PATTERN = r"/[^\s'\"()<>;,:|&]+"
_TEST_COMMANDS = frozenset({"[", "[[", "test"})
_WRITE_COMMANDS = frozenset({"mkdir", "touch", "tee", "rm", "rmdir", "mktemp", "truncate"})
_COPY_COMMANDS = frozenset({"cp", "mv", "rsync", "ln", "install"})  # they write to the last argument
_OUTPUT_OPTION_PATTERN = re.compile(
    r"-+[\w-]*(?:out|save|log|dest|export|checkpoint|ckpt|cache|write)[\w-]*", re.IGNORECASE
)


def iter_unchecked_paths(text: str, stand_ins: Collection[str], real: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Return (path, stand-in folder). `real`: folders among them that exist."""
    if not stand_ins:
        return
    pattern = _compile_folder_pattern(stand_ins)
    commands = parse_script(text).commands
    known = [posixpath.normpath(target) for target in real]
    for command in commands:
        known += [path for word in _iter_written_words(command) for path, _ in _iter_paths(word, pattern)]
    seen: set[str] = set(stand_ins)
    for command in commands:
        for word in (*command.words, *command.read_sources):
            for path, folder in _iter_paths(word, pattern):
                if path not in seen and not any(path == each or path.startswith(f"{each}/") for each in known):
                    seen.add(path)
                    yield path, folder


def _compile_folder_pattern(folders: Collection[str]) -> re.Pattern[str]:
    """Compile a pattern for paths in these folders; the longest folder matches first."""
    names = "|".join(re.escape(folder) for folder in sorted(folders, key=len, reverse=True))
    return re.compile(rf"(?<![\w./~}}-])({names}){_SUBPATH_PATTERN}")


def _iter_paths(word: Word, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(word.text):
        yield posixpath.normpath(match[0]), match[1]


def _iter_written_words(command: SimpleCommand) -> Iterator[Word]:
    yield from command.write_targets
    arguments = command.words[1:]
    if command.name in _WRITE_COMMANDS or command.name in _TEST_COMMANDS:  # tested paths can be missing
        yield from arguments
    elif command.name in _COPY_COMMANDS:
        yield from arguments[-1:]
    for option, value in zip(arguments, [*arguments[1:], Word("")], strict=False):
        name, equals, _ = option.text.partition("=")
        if _OUTPUT_OPTION_PATTERN.fullmatch(name) or option.text == "-o":
            yield option if equals else value
