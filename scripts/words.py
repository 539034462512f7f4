"""Keeps the portal's catalogues in step with the source: `make words` writes them, `--check` says what is wrong.

portal.po has what templates and pages say, services.po what everything below them says. Entries are in the order of the
source and carry no dates or line numbers, so that two branches seldom meet in one place.
"""

from __future__ import annotations

import ast
import calendar
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from babel.messages.pofile import escape, read_po
from jinja2.ext import babel_extract
from library_words import LIBRARY_WORDS
from sentences import messages_in

from holdfast.core.exits.exit import ExitKind
from holdfast.core.exits.meanings import load_meanings
from holdfast.core.exits.specs import load_cause_specs, load_specs
from holdfast.core.states import JobState, TaskState
from holdfast.diagnosis import iter_translatable_texts as verdict_texts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
PORTAL = SOURCE / "server" / "portal"
LANGUAGES = ("zh-Hans", "zh-Hant")
REFERENCE = "@"  # begins the name of a remedy, which is in the texts itself
# Numbers of errors that the system itself puts into words.
SYSTEM_ERRORS = (1, 2, 5, 12, 13, 16, 17, 18, 20, 21, 22, 24, 26, 27, 28, 30, 36, 39, 40, 110, 111, 116, 122)
NOUNS = ("user", "group", "job", "schedule", "dataset", "secret", "image", "token", "characters", "entries", "items",
         "labels", "names", "text", "true", "false", "nothing", "cores", "GPUs", *calendar.month_name[1:])  # fmt: skip
# Grammar of English that no other language needs: these blanks may be left out.
GRAMMAR = frozenset({"plural", "jobs", "are", "is", "s"})
# Texts that are the same in every language: names, and words of programs.
SAME = re.compile(r"^(Holdfast|REST API|SSH|[A-Z]{2,}\S*|[\W\d_]|\{\w+\}|%\(\w+\)s|`[^`]*`|[kMGT]i?B|cgroup|v)*$")
_BLANKS = re.compile(r"(?<!\{)\{([a-z_0-9]*)\}(?!\})|%\((\w+)\)s")
_TAG = re.compile(r"</?[a-z]+>")
_HEADER = """msgid ""
msgstr ""
"Language: {}\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"
"""


@dataclass(frozen=True)
class Text:
    one: str
    many: str = ""  # plural, where it counts something
    where: str = field(default="", compare=False)


# -- what the source says


def portal_texts() -> list[Text]:
    found: dict[Text, None] = {}
    for text in (*_template_texts(), *_page_texts(), *_shown_words()):
        found.setdefault(text)
    return list(found)


def service_texts() -> list[Text]:
    found: dict[str, Text] = {}
    others = (
        ("others", text) for text in (*LIBRARY_WORDS, *map(os.strerror, SYSTEM_ERRORS), *NOUNS, *map(str, JobState))
    )
    rules = (("diagnosis/rules", text) for text in verdict_texts() if not text.startswith(REFERENCE))
    exits = (("core/exits/data", text) for text in _exit_texts())
    for where, text in (*exits, *messages_in(SOURCE), *rules, *others):
        found.setdefault(text, Text(text, where=where))
    return list(found.values())


def _exit_texts() -> Iterator[str]:
    """What people are told of exits. How to reproduce one is only for those who maintain the data."""
    for spec in load_specs().values():
        yield from (spec.reason, *spec.solution)
    for cause in load_cause_specs().values():
        yield from (text for text in (cause.words, cause.hint) if text)
    known = load_meanings()
    for meaning in (*known.shell.values(), known.other):
        yield from (meaning.reason, *meaning.solution)
    yield from (*known.signals.values(), *known.common.values(), *known.causes.values())


def _template_texts() -> Iterator[Text]:
    options = {"extensions": "jinja2.ext.do", "trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
    for path in sorted((PORTAL / "templates").rglob("*.html")):
        where = path.relative_to(PORTAL).as_posix()
        with path.open("rb") as file:
            for _, _, said, _ in babel_extract(file, ("_", "gettext", "ngettext"), (), options):
                one, many = (said, "") if isinstance(said, str) else (*(said or ()), "", "")[:2]
                if one:
                    yield Text(one, many or "", where)


def _page_texts() -> Iterator[Text]:
    for path in sorted(PORTAL.rglob("*.py")):
        where = path.relative_to(PORTAL).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _said(node, where)


def _said(node: ast.Call, where: str) -> Iterator[Text]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("say", "translate_text", "N_", "_") and node.args:
        for text in _constants(node.args[0]):
            yield Text(text, "", where)
    if name in ("count", "translate_plural", "ngettext") and len(node.args) == 3:
        pair = [list(_constants(argument)) for argument in node.args[:2]]
        if all(len(texts) == 1 for texts in pair):
            yield Text(pair[0][0], pair[1][0], where)


def _constants(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _constants(body)
            yield from _constants(other)


def _shown_words() -> Iterator[Text]:
    """Words of the rules that pages show as they are."""
    for word in (*JobState, *TaskState, *ExitKind):
        yield Text(str(word), where="rules")


# -- catalogues


def catalogues() -> list[tuple[Path, str, list[Text]]]:
    return [
        (PORTAL / "locale" / language / f"{domain}.po", language, texts)
        for domain, texts in (("portal", portal_texts()), ("services", service_texts()))
        for language in LANGUAGES
    ]


def read(path: Path) -> dict[Text, str]:
    if not path.exists():
        return {}
    found = {}
    with path.open("rb") as file:
        for message in read_po(file):
            if message.id:
                text = Text(message.id) if isinstance(message.id, str) else Text(*message.id)
                string = message.string if isinstance(message.string, str) else message.string[0]
                found[text] = "" if message.fuzzy else string
    return found


def render(language: str, texts: list[Text], known: dict[Text, str]) -> str:
    parts = [_HEADER.format(language)]
    for text in texts:
        lines = [f"#: {text.where}", f"msgid {escape(text.one)}"]
        lines += [f"msgid_plural {escape(text.many)}"] if text.many else []
        lines += [f"msgstr{'[0]' if text.many else ''} {escape(known.get(text, ''))}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def problems(path: Path, language: str, texts: list[Text]) -> Iterator[str]:
    known = read(path)
    for text in texts:
        translated = known.get(text)
        if not translated:
            yield f"{language}: not translated: {text.one!r} ({text.where})"
        else:
            yield from (f"{language}: {wrong}: {text.one!r} -> {translated!r}" for wrong in _wrong(text, translated))
    for text in known.keys() - set(texts):
        yield f"{language}: no longer in the source: {text.one!r}"
    if path.exists() and path.read_text(encoding="utf-8") != render(language, texts, known):
        yield f"{path.relative_to(ROOT)} is not as `make words` writes it"


def _wrong(text: Text, translated: str) -> Iterator[str]:
    there, here = _blanks(text.one) | _blanks(text.many), _blanks(translated)
    if here - there or there - here - GRAMMAR:
        yield "its blanks differ"
    if (
        translated in (text.one, text.many)
        and not SAME.match(translated)
        and re.search(r"[a-z]{2}\W+[a-z]{2}", translated)
    ):
        yield "is still English"


def _blanks(text: str) -> set[str]:
    return {found[1] or found[2] or "" for found in _BLANKS.finditer(text)}


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        found = [line for path, language, texts in catalogues() for line in problems(path, language, texts)]
        print("\n".join(found[:200]))
        print(f"{len(found)} problems; `make words` brings the catalogues up to date" if found else "complete")
        return 1 if found else 0
    for path, language, texts in catalogues():
        known = read(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(language, texts, known), encoding="utf-8")
        missing = sum(not known.get(text) for text in texts)
        print(f"{path.relative_to(ROOT)}: {len(texts)} texts, {missing} to translate")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
