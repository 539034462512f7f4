"""Paths that commands read and that a simulation cannot try: an empty folder stands in for what they lie in."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from .shell_text import Simple, Word, read_script

_REST = r"/[^\s'\"()<>;,:|&]+"
_TESTS = frozenset({"[", "[[", "test"})
_WRITERS = frozenset({"mkdir", "touch", "tee", "rm", "rmdir", "mktemp", "truncate"})
_COPIERS = frozenset({"cp", "mv", "rsync", "ln", "install"})  # what they are given last is written
_WRITTEN_OPTION = re.compile(r"-+[\w-]*(?:out|save|log|dest|export|checkpoint|ckpt|cache|write)[\w-]*", re.IGNORECASE)


def find_untried(text: str, stand_ins: Collection[str], real: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """(path, the folder that is empty here). `real`: folders among them that are here nevertheless."""
    if not stand_ins:
        return
    pattern = _below(stand_ins)
    commands = read_script(text).commands
    known = [posixpath.normpath(target) for target in real]
    for command in commands:
        known += [path for word in _written(command) for path, _ in _paths(word, pattern)]
    seen: set[str] = set(stand_ins)
    for command in commands:
        for word in _read(command):
            for path, folder in _paths(word, pattern):
                if path not in seen and not any(path == each or path.startswith(f"{each}/") for each in known):
                    seen.add(path)
                    yield path, folder


def _below(folders: Collection[str]) -> re.Pattern[str]:
    """The longest folder first: it says best what is missing."""
    names = "|".join(re.escape(folder) for folder in sorted(folders, key=len, reverse=True))
    return re.compile(rf"(?<![\w./~}}-])({names}){_REST}")


def _paths(word: Word, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(word.text):
        yield posixpath.normpath(match[0]), match[1]


def _written(command: Simple) -> Iterator[Word]:
    yield from command.writes
    arguments = command.words[1:]
    if command.name in _WRITERS or command.name in _TESTS:  # what is asked after may be missing
        yield from arguments
    elif command.name in _COPIERS:
        yield from arguments[-1:]
    for option, value in zip(arguments, [*arguments[1:], Word("")], strict=False):
        name, equals, _ = option.text.partition("=")
        if _WRITTEN_OPTION.fullmatch(name) or option.text == "-o":
            yield option if equals else value


def _read(command: Simple) -> Iterator[Word]:
    yield from command.words
    yield from command.reads
