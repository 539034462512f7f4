"""`<% $parameters.a.b %>`: references in commands.

Parameters and prerequisites are filled in when the file is parsed; `$secrets` only when a task is launched, so that no
stored text holds one. Values go in verbatim. What does not resolve stays in the text as it was written, except that
at the launch of an OpenPAI job with secrets it vanishes, as it did there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_TAG = re.compile(r"<%([^<>%]*)%>")  # spaces are stripped later: matched here, they would cost quadratic time
_REFERENCE = re.compile(r"\$([\w-]+)((?:\.[\w-]+|\[[0-9]+\])*)")
_STEP = re.compile(r"[\w-]+")

_MISSING = object()

PASSWORDS = "_registry_passwords"  # put among the secrets when an OpenPAI file is read, by us and not by its author


def has_secrets(secrets: Iterable[str]) -> bool:
    """Some are of the file's author, by their names. Then tags of an OpenPAI job that refer to nothing vanish."""
    return any(not name.startswith(PASSWORDS) for name in secrets)


class Rendered(NamedTuple):
    text: str
    unresolved: tuple[str, ...]  # what stands between the tags, each once


class Filler:
    """Fills in references from the same values, working each out once.

    Without `secrets` among the values, references to them are neither filled in nor called unresolved.
    `drop`: tags that do not resolve are left out of the text.
    """

    def __init__(self, values: Mapping[str, Any], *, drop: bool = False) -> None:
        self._values = values
        self._drop = drop
        self._texts: dict[str, str | None] = {}

    def resolve(self, reference: str) -> str | None:
        if reference not in self._texts:
            value = _lookup(reference, self._values)
            self._texts[reference] = None if value is _MISSING else value_text(value)
        return self._texts[reference]

    def render(self, text: str) -> Rendered:
        unresolved: dict[str, None] = {}

        def fill(tag: re.Match[str]) -> str:
            reference = tag[1].strip()
            filled = self.resolve(reference)
            if filled is not None:
                return filled
            if not _is_secret(reference) or "secrets" in self._values:
                unresolved[reference] = None
            return "" if self._drop else tag[0]

        return Rendered(_TAG.sub(fill, text), tuple(unresolved)) if "<%" in text else Rendered(text, ())

    def size(self, text: str) -> int:
        """How many characters the text has once filled in, without filling it in."""
        total = len(text)
        for tag in _TAG.finditer(text) if "<%" in text else ():
            filled = self.resolve(tag[1].strip())
            total += 0 if filled is None else len(filled) - len(tag[0])
        return total


def render_templates(text: str, values: Mapping[str, Any]) -> Rendered:
    """Fill in `$name…` from `values[name]`; `$secrets` is left for the launch."""
    return Filler(values).render(text)


def fill_secrets(text: str, secrets: Mapping[str, Any]) -> str:
    """Fill in `<% $secrets.x %>`, verbatim. Everything else stays."""
    return Filler({"secrets": secrets}).render(text).text


def secret_reference(*steps: str) -> str:
    """The text that stands for a secret."""
    return f"<% $secrets.{'.'.join(steps)} %>"


def secrets_in(text: str) -> tuple[str, ...]:
    """References to secrets, each once."""
    if "<%" not in text:
        return ()
    references = dict.fromkeys(tag[1].strip() for tag in _TAG.finditer(text))
    return tuple(filter(_is_secret, references))


def value_text(value: Any) -> str:
    """A value as OpenPAI's templates write it, except that mappings become JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value))
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _is_secret(reference: str) -> bool:
    found = _REFERENCE.fullmatch(reference)
    return bool(found and found[1] == "secrets")


def _lookup(reference: str, values: Mapping[str, Any]) -> Any:
    found = _REFERENCE.fullmatch(reference)
    if not found:
        return _MISSING
    return _walk(values, (found[1], *_steps(found[2])))


def _steps(path: str) -> Iterator[str]:
    return (step.group() for step in _STEP.finditer(path))


def _walk(value: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list | tuple) and step.isascii() and step.isdigit() and len(step) < 9:
            value = value[int(step)] if int(step) < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _number_text(value: float) -> str:
    """Numbers as JavaScript writes them, which is what job files were written for: 1, 0.1, 0.00001, 1e-7."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    written = repr(value)
    if 1e-6 <= abs(value) < 1e-4:
        digits = len(written.partition("e")[0].replace(".", "").replace("-", "")) - 1
        return f"{value:.{digits + abs(int(written.partition('e')[2]))}f}"
    return written.replace("e-0", "e-").replace("e+0", "e+")
