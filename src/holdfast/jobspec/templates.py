"""`<% $parameters.a.b %>`: references in commands.

Parameters and prerequisites are resolved when the file is parsed; `$secrets` only when a task is launched, so that no
stored text contains one. Values are inserted verbatim. Unresolved references stay in the text, except that at the
launch of an OpenPAI job with secrets they are removed, as in OpenPAI.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_TAG_PATTERN = re.compile(r"<%([^<>%]*)%>")  # spaces are stripped later: matched here, they would cost quadratic time
_REFERENCE_PATTERN = re.compile(r"\$([\w-]+)((?:\.[\w-]+|\[[0-9]+\])*)")
_STEP_PATTERN = re.compile(r"[\w-]+")

_MISSING = object()

PASSWORDS_KEY = "_registry_passwords"  # added to the secrets when an OpenPAI file is parsed


def has_secrets(secrets: Iterable[str]) -> bool:
    """Whether the file's author defined secrets. Then unresolved tags of an OpenPAI job are removed."""
    return any(not name.startswith(PASSWORDS_KEY) for name in secrets)


class RenderedText(NamedTuple):
    text: str
    unresolved: tuple[str, ...]  # content of the tags, each once


class TemplateFiller:
    """Resolves references from the same values, each once.

    Without `secrets` in the values, references to them are neither resolved nor reported. `drop`: unresolved tags are
    removed from the text.
    """

    def __init__(self, values: Mapping[str, Any], *, drop: bool = False) -> None:
        self._values = values
        self._drop = drop
        self._texts: dict[str, str | None] = {}

    def resolve_reference(self, reference: str) -> str | None:
        if reference not in self._texts:
            value = _look_up_value(reference, self._values)
            self._texts[reference] = None if value is _MISSING else format_value(value)
        return self._texts[reference]

    def render_text(self, text: str) -> RenderedText:
        unresolved: dict[str, None] = {}

        def fill_reference(tag: re.Match[str]) -> str:
            reference = tag[1].strip()
            filled = self.resolve_reference(reference)
            if filled is not None:
                return filled
            if not _is_secret_reference(reference) or "secrets" in self._values:
                unresolved[reference] = None
            return "" if self._drop else tag[0]

        return (
            RenderedText(_TAG_PATTERN.sub(fill_reference, text), tuple(unresolved))
            if "<%" in text
            else RenderedText(text, ())
        )

    def measure_size(self, text: str) -> int:
        """Return the length of the rendered text without rendering it."""
        total = len(text)
        for tag in _TAG_PATTERN.finditer(text) if "<%" in text else ():
            filled = self.resolve_reference(tag[1].strip())
            total += 0 if filled is None else len(filled) - len(tag[0])
        return total


def render_templates(text: str, values: Mapping[str, Any]) -> RenderedText:
    """Resolve `$name…` from `values[name]`; `$secrets` is left for the launch."""
    return TemplateFiller(values).render_text(text)


def fill_secrets(text: str, secrets: Mapping[str, Any]) -> str:
    """Resolve `<% $secrets.x %>` verbatim; all else stays."""
    return TemplateFiller({"secrets": secrets}).render_text(text).text


def format_secret_reference(*steps: str) -> str:
    return f"<% $secrets.{'.'.join(steps)} %>"


def list_secret_references(text: str) -> tuple[str, ...]:
    """Return the references to secrets, each once."""
    if "<%" not in text:
        return ()
    references = dict.fromkeys(tag[1].strip() for tag in _TAG_PATTERN.finditer(text))
    return tuple(filter(_is_secret_reference, references))


def format_value(value: Any) -> str:
    """Format a value as OpenPAI's templates do, except that mappings become JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_number(value)
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value))
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _is_secret_reference(reference: str) -> bool:
    found = _REFERENCE_PATTERN.fullmatch(reference)
    return bool(found and found[1] == "secrets")


def _look_up_value(reference: str, values: Mapping[str, Any]) -> Any:
    found = _REFERENCE_PATTERN.fullmatch(reference)
    if not found:
        return _MISSING
    return _follow_steps(values, (found[1], *_STEP_PATTERN.findall(found[2])))


def _follow_steps(value: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list | tuple) and step.isascii() and step.isdigit() and len(step) < 9:
            value = value[int(step)] if int(step) < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _format_number(value: float) -> str:
    """Format a number as JavaScript does, for compatibility: 1, 0.1, 0.00001, 1e-7."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    written = repr(value)
    if 1e-6 <= abs(value) < 1e-4:
        digits = len(written.partition("e")[0].replace(".", "").replace("-", "")) - 1
        return f"{value:.{digits + abs(int(written.partition('e')[2]))}f}"
    return written.replace("e-0", "e-").replace("e+0", "e+")
