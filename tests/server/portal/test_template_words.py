"""No text on a page that cannot be translated: everything people read goes through `_()` or {% trans %}."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from holdfast.server.portal import rendering
from holdfast.server.portal.translations import DEFAULT_LANGUAGE

PORTAL = Path(rendering.__file__).parent
TEMPLATES = sorted((PORTAL / "templates").rglob("*.html"))
PAGES = sorted((PORTAL / "pages").rglob("*.py"))
READ = {"title", "placeholder", "aria-label", "alt", "label", "aria-description", "data-confirm"}
NOT_READ = {"script", "style", "code", "kbd", "pre", "svg", "samp", "bdi"}
# Names, units and words of programs: the same in every language.
SAME = {
    "Holdfast", "OpenPAI", "PrimeHub", "MLflow", "Python", "YAML", "JSON", "CSV", "CPU", "GPU", "GPUs", "REST", "API",
    "SSH", "URL", "UTC", "GiB", "MiB", "KiB", "TiB", "GB", "IP", "ID", "stdout", "stderr", "nfs", "NFS", "git", "Git",
    "Enter", "Shift", "Esc", "Aa",
}  # fmt: skip


def _words(text: str) -> list[str]:
    """Those of a language: not 2Gi, NAME, pytorch:2.4 or you@machine, as in examples of what to type."""
    plain = (re.fullmatch(r"\W?([^\W\d_]{2,})\W?", word) for word in text.split())
    return [found[1] for found in plain if found and found[1] not in SAME and not found[1].isupper()]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_READ:
            self._inside.append(tag)
        self.found += [f"{name}={value!r}" for name, value in attrs if name in READ and _words(value or "")]

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        attributes = '="' in data  # of a tag that another template has around it
        if not self._inside and not attributes and _words(data):
            self.found.append(data.strip())


def untranslated(source: str) -> list[str]:
    reader = _Reader()
    reader.feed(_without_expressions(source))
    reader.close()
    return reader.found


def _without_expressions(source: str) -> str:
    """What a template writes itself. Text within {% trans %} is translated, so it is left out, too."""
    kept, in_trans, statement = "", False, ""
    for _, kind, value in rendering.create_environment(DEFAULT_LANGUAGE).lex(source):
        if kind == "block_begin":
            statement = ""
        elif kind == "name" and not statement:
            statement = value
            in_trans = (in_trans or value == "trans") and value != "endtrans"
        elif kind == "data" and not in_trans:
            kept += value
        elif kind == "variable_end":
            kept += "\N{REPLACEMENT CHARACTER}"
    return kept


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(PORTAL / "templates").as_posix())
def test_every_text_of_a_template_can_be_translated(path: Path) -> None:
    assert untranslated(path.read_text(encoding="utf-8")) == []


def test_this_very_test_sees_what_it_looks_for() -> None:
    assert (
        untranslated('<p title="{{ _("Stop") }}">{{ _("A text") }} · {% trans %}More{% endtrans %} Holdfast</p>') == []
    )
    assert untranslated("<p>{% if page.x %}Plain words{% endif %}</p>") == ["Plain words"]
    assert untranslated('<input placeholder="Name or node">') == ["placeholder='Name or node'"]
    assert untranslated("<code>holdfast ls</code><b>and so</b>") == ["and so"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(PORTAL / "pages").as_posix())
def test_pages_say_nothing_that_is_not_translated(path: Path) -> None:
    """What is told after something was done, titles, problems at fields: `visit.say(...)`, never bare English."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if name == "redirect" and len(node.args) > 1:
                given["said"] = node.args[1]
            bare += [text for key in ("said", "title", "problem", "help") for text in _bare(given.get(key))]
    assert bare == []


def _bare(node: ast.expr | None) -> list[str]:
    match node:
        case ast.Constant(value=str(text)) if _words(text):
            return [text]
        case ast.JoinedStr() if _words("".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))):
            return [ast.unparse(node)]
        case ast.IfExp(body=body, orelse=other):
            return _bare(body) + _bare(other)
    return []
