"""Updates the translation files from the source: `make translations` writes them, `--check` prints problems.

portal.po has the texts of templates and pages, services.po all others. Entries are in the order of the source and have
no dates or line numbers, so that merges seldom conflict.
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
from library_messages import LIBRARY_MESSAGES
from message_ids import iter_messages

from holdfast.core.exits.exit import ExitKind
from holdfast.core.exits.meanings import load_meanings
from holdfast.core.exits.specs import load_cause_specs, load_specs
from holdfast.core.states import JobState, TaskState
from holdfast.diagnosis import iter_translatable_texts as iter_verdict_texts

ROOT = Path(__file__).parents[1]
SOURCE_FOLDER = ROOT / "src" / "holdfast"
PORTAL_FOLDER = SOURCE_FOLDER / "server" / "portal"
LANGUAGES = ("zh-Hans", "zh-Hant")
REMEDY_PREFIX = "@"  # of the name of a remedy, whose text is listed separately
# Errors of the operating system whose messages are shown.
SYSTEM_ERROR_NUMBERS = (1, 2, 5, 12, 13, 16, 17, 18, 20, 21, 22, 24, 26, 27, 28, 30, 36, 39, 40, 110, 111, 116, 122)
SINGLE_WORDS = (
    "user", "group", "job", "schedule", "dataset", "secret", "image", "token", "characters", "entries", "items",
    "labels", "names", "text", "true", "false", "nothing", "cores", "GPUs", *calendar.month_name[1:],
)  # fmt: skip
# Placeholders for English grammar, which a translation may leave out.
OPTIONAL_PLACEHOLDERS = frozenset({"plural", "jobs", "are", "is", "s"})
# Texts that are the same in every language: names and technical terms.
UNTRANSLATED_PATTERN = re.compile(
    r"^(Holdfast|REST API|SSH|[A-Z]{2,}\S*|[\W\d_]|\{\w+\}|%\(\w+\)s|`[^`]*`|[kMGT]i?B|cgroup|v)*$"
)
_PLACEHOLDER_PATTERN = re.compile(r"(?<!\{)\{([a-z_0-9]*)\}(?!\})|%\((\w+)\)s")
_CATALOGUE_HEADER = """msgid ""
msgstr ""
"Language: {}\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"
"""


@dataclass(frozen=True)
class Text:
    """A translatable text, with its location in the source."""

    singular: str
    plural: str = ""  # empty without a count
    location: str = field(default="", compare=False)


# -- texts of the source


def list_portal_texts() -> list[Text]:
    texts: dict[Text, None] = {}
    for text in (*_iter_template_texts(), *_iter_page_texts(), *_iter_state_texts()):
        texts.setdefault(text)
    return list(texts)


def list_service_texts() -> list[Text]:
    texts: dict[str, Text] = {}
    others = (
        ("others", text)
        for text in (*LIBRARY_MESSAGES, *map(os.strerror, SYSTEM_ERROR_NUMBERS), *SINGLE_WORDS, *map(str, JobState))
    )
    rules = (("diagnosis/rules", text) for text in iter_verdict_texts() if not text.startswith(REMEDY_PREFIX))
    exits = (("core/exits/data", text) for text in _iter_exit_texts())
    for location, text in (*exits, *iter_messages(SOURCE_FOLDER), *rules, *others):
        texts.setdefault(text, Text(text, location=location))
    return list(texts.values())


def _iter_exit_texts() -> Iterator[str]:
    """Iterate over the texts about exits that are shown to users."""
    for spec in load_specs().values():
        yield from (spec.reason, *spec.solution)
    for cause in load_cause_specs().values():
        yield from (text for text in (cause.words, cause.hint) if text)
    meanings = load_meanings()
    for meaning in (*meanings.shell.values(), meanings.other):
        yield from (meaning.reason, *meaning.solution)
    yield from (*meanings.signals.values(), *meanings.common.values(), *meanings.causes.values())


def _iter_template_texts() -> Iterator[Text]:
    options = {"extensions": "jinja2.ext.do", "trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
    for path in sorted((PORTAL_FOLDER / "templates").rglob("*.html")):
        location = path.relative_to(PORTAL_FOLDER).as_posix()
        with path.open("rb") as file:
            for _, _, message, _ in babel_extract(file, ("_", "gettext", "ngettext"), (), options):
                singular, plural = (message, "") if isinstance(message, str) else (*(message or ()), "", "")[:2]
                if singular:
                    yield Text(singular, plural or "", location)


def _iter_page_texts() -> Iterator[Text]:
    for path in sorted(PORTAL_FOLDER.rglob("*.py")):
        location = path.relative_to(PORTAL_FOLDER).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _iter_call_texts(node, location)


def _iter_call_texts(node: ast.Call, location: str) -> Iterator[Text]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("say", "translate_text", "N_", "_") and node.args:
        for text in _iter_constants(node.args[0]):
            yield Text(text, "", location)
    if name in ("count", "translate_plural", "ngettext") and len(node.args) == 3:
        singulars, plurals = (list(_iter_constants(argument)) for argument in node.args[:2])
        if len(singulars) == len(plurals) == 1:
            yield Text(singulars[0], plurals[0], location)


def _iter_constants(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _iter_constants(body)
            yield from _iter_constants(other)


def _iter_state_texts() -> Iterator[Text]:
    """Iterate over the states and exit kinds that pages show."""
    for word in (*JobState, *TaskState, *ExitKind):
        yield Text(str(word), location="rules")


# -- catalogues


def list_catalogues() -> list[tuple[Path, str, list[Text]]]:
    """Return the path, language and texts of each catalogue."""
    return [
        (PORTAL_FOLDER / "locale" / language / f"{domain}.po", language, texts)
        for domain, texts in (("portal", list_portal_texts()), ("services", list_service_texts()))
        for language in LANGUAGES
    ]


def read_catalogue(path: Path) -> dict[Text, str]:
    """Return the translations in a catalogue; fuzzy ones are empty."""
    if not path.exists():
        return {}
    translations = {}
    with path.open("rb") as file:
        for message in read_po(file):
            if message.id:
                text = Text(message.id) if isinstance(message.id, str) else Text(*message.id)
                string = message.string if isinstance(message.string, str) else message.string[0]
                translations[text] = "" if message.fuzzy else string
    return translations


def render_catalogue(language: str, texts: list[Text], translations: dict[Text, str]) -> str:
    entries = [_CATALOGUE_HEADER.format(language)]
    for text in texts:
        lines = [f"#: {text.location}", f"msgid {escape(text.singular)}"]
        lines += [f"msgid_plural {escape(text.plural)}"] if text.plural else []
        lines += [f"msgstr{'[0]' if text.plural else ''} {escape(translations.get(text, ''))}"]
        entries.append("\n".join(lines) + "\n")
    return "\n".join(entries)


def iter_problems(path: Path, language: str, texts: list[Text]) -> Iterator[str]:
    """Iterate over what is missing, wrong or outdated in a catalogue."""
    translations = read_catalogue(path)
    for text in texts:
        translated = translations.get(text)
        if not translated:
            yield f"{language}: not translated: {text.singular!r} ({text.location})"
        else:
            yield from (
                f"{language}: {mistake}: {text.singular!r} -> {translated!r}"
                for mistake in _iter_mistakes(text, translated)
            )
    for text in translations.keys() - set(texts):
        yield f"{language}: no longer in the source: {text.singular!r}"
    if path.exists() and path.read_text(encoding="utf-8") != render_catalogue(language, texts, translations):
        yield f"{path.relative_to(ROOT)} is not as `make translations` writes it"


def _iter_mistakes(text: Text, translated: str) -> Iterator[str]:
    expected = _find_placeholders(text.singular) | _find_placeholders(text.plural)
    actual = _find_placeholders(translated)
    if actual - expected or expected - actual - OPTIONAL_PLACEHOLDERS:
        yield "its blanks differ"
    if (
        translated in (text.singular, text.plural)
        and not UNTRANSLATED_PATTERN.match(translated)
        and re.search(r"[a-z]{2}\W+[a-z]{2}", translated)
    ):
        yield "is still English"


def _find_placeholders(text: str) -> set[str]:
    return {match[1] or match[2] or "" for match in _PLACEHOLDER_PATTERN.finditer(text)}


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        problems = [
            line for path, language, texts in list_catalogues() for line in iter_problems(path, language, texts)
        ]
        print("\n".join(problems[:200]))
        print(
            f"{len(problems)} problems; `make translations` brings the catalogues up to date"
            if problems
            else "complete"
        )
        return 1 if problems else 0
    for path, language, texts in list_catalogues():
        translations = read_catalogue(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_catalogue(language, texts, translations), encoding="utf-8")
        missing = sum(not translations.get(text) for text in texts)
        print(f"{path.relative_to(ROOT)}: {len(texts)} texts, {missing} to translate")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
