"""Messages to users: an id for translations, its arguments, and the English text.

The id is the English text with names in braces, as in gettext: `msg("Job {name} was not found", name=name)`. A
`Message` is a string with the English text; other languages are rendered from `id` and `arguments`. Arguments can be
messages too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Self, TypeGuard, TypeVar, cast

T = TypeVar("T")
Argument = str | int | float
MessageFormatter = Callable[[str, Mapping[str, Argument]], str]
MAX_MESSAGE_DEPTH = 8  # of nested messages, when decoding
PACKED_PREFIX = "\x1e"  # prefix of a message encoded as JSON
_PLACEHOLDER_PATTERN = re.compile(r"\{\{|\}\}|\{([a-z_][a-z_0-9]*)\}")


class Message(str):
    id: str
    arguments: Mapping[str, Argument]

    def __new__(cls, id: str, arguments: Mapping[str, Argument]) -> Self:
        made = super().__new__(cls, fill_template(id, arguments))
        made.id = id
        made.arguments = arguments
        return made

    def __getnewargs__(self) -> tuple[str, Mapping[str, Argument]]:  # type: ignore[override]
        return self.id, self.arguments

    def __add__(self, other: str) -> Message:
        return join_messages("", (self, other)) if other else self

    def __radd__(self, other: str) -> Message:
        return join_messages("", (other, self)) if other else self

    def removesuffix(self, suffix: str) -> str:
        """Keep the result a message if the suffix is part of its id, such as a full stop."""
        if not self.endswith(suffix):
            return self
        return (
            Message(self.id.removesuffix(suffix), self.arguments)
            if self.id.endswith(suffix)
            else super().removesuffix(suffix)
        )

    def removeprefix(self, prefix: str) -> str:
        """Keep the result a message if the prefix is part of its id, or its first argument."""
        if not prefix or not self.startswith(prefix):
            return self
        (fixed, first), *_ = split_template(self.id)
        if not fixed and first is not None and self.arguments.get(first) == prefix:
            return Message(self.id.removeprefix(f"{{{first}}}"), self.arguments)
        return (
            Message(self.id.removeprefix(prefix), self.arguments)
            if self.id.startswith(prefix)
            else super().removeprefix(prefix)
        )

    def map_arguments(self, change: Callable[[str], str]) -> Message:
        """Apply `change` to every text in its arguments."""
        return Message(
            self.id,
            {
                name: map_text(value, change) if isinstance(value, str) else value
                for name, value in self.arguments.items()
            },
        )


def msg(id: str, /, **arguments: object) -> str:
    """Create a `Message`. Other values become text; an exception becomes its message."""
    return Message(id, {name: _to_argument(value) for name, value in arguments.items()})


def _to_argument(value: object) -> Argument:
    if isinstance(value, BaseException) and value.args and isinstance(value.args[0], Message):
        return value.args[0]
    return value if isinstance(value, Argument) and not isinstance(value, Enum | bool) else str(value)


def mark_translatable(word: str) -> str:
    """Mark a single word as translatable; a plain word in arguments is treated as a name."""
    return Message(word, {})


def join_messages(separator: str, parts: Iterable[str]) -> Message:
    """Join messages to one; empty without parts."""
    arguments = {f"p{number}": part for number, part in enumerate(parts)}
    return Message(separator.join(f"{{{name}}}" for name in arguments), arguments)


def map_text(text: str, change: Callable[[str], str]) -> str:
    return text.map_arguments(change) if isinstance(text, Message) else change(text)


def map_nested_texts(value: T, change: Callable[[str], str]) -> T:
    """Apply `change` to every text in a structure of dataclasses and tuples."""
    mapped: Any = value
    if isinstance(value, str) and not isinstance(value, Enum):
        mapped = change(value)
    elif isinstance(value, tuple):
        mapped = tuple(map_nested_texts(each, change) for each in value)
    elif is_dataclass(value) and not isinstance(value, type):
        mapped = replace(
            value, **{field.name: map_nested_texts(getattr(value, field.name), change) for field in fields(value)}
        )
    return cast(T, mapped)


def split_template(template: str) -> list[tuple[str, str | None]]:
    """Split into fixed parts, each with the name of the argument that follows it."""
    parts, at, fixed = list[tuple[str, str | None]](), 0, ""
    for found in _PLACEHOLDER_PATTERN.finditer(template):
        fixed += template[at : found.start()]
        at = found.end()
        if found[1] is None:
            fixed += found[0][0]
        else:
            parts.append((fixed, found[1]))
            fixed = ""
    return [*parts, (fixed + template[at:], None)]


def fill_template(template: str, arguments: Mapping[str, Argument]) -> str:
    """Replace names by arguments. Inserted text is not expanded again."""
    if "{" not in template and "}" not in template:
        return template
    return "".join(
        fixed + ("" if name is None else str(arguments.get(name, f"{{{name}}}")))
        for fixed, name in split_template(template)
    )


def translate_message(text: str, look_up: Callable[[str], str], fill: MessageFormatter = fill_template) -> str:
    """Translate with `look_up`, which returns its argument if there is no translation."""
    if not isinstance(text, Message):
        return look_up(text)
    arguments = {
        name: translate_message(value, look_up, fill) if _should_translate(value) else value
        for name, value in text.arguments.items()
    }
    return fill(look_up(text.id), arguments)


def _should_translate(argument: Argument) -> TypeGuard[str]:
    """Whether to translate it: messages and texts of several words; a single word is a name."""
    return isinstance(argument, Message) or (isinstance(argument, str) and " " in argument)


# -- as JSON


def message_to_json(text: str) -> Any:
    """Convert a message to its id and arguments; plain text stays as it is."""
    if not isinstance(text, Message):
        return text
    arguments = {
        name: message_to_json(value) if isinstance(value, str) else value for name, value in text.arguments.items()
    }
    return {"id": text.id, "args": arguments}


def get_message_json(text: str | None) -> dict[str, Any] | None:
    """Return id and arguments for an API response; None for plain text."""
    return message_to_json(text) if isinstance(text, Message) else None


def message_from_json(data: Any, depth: int = MAX_MESSAGE_DEPTH) -> str:
    """Convert the output of `message_to_json` back. What is not a message becomes text."""
    if not isinstance(data, dict) or not depth:
        return str(data)
    given = data.get("args")
    pairs = given.items() if isinstance(given, dict) else ()
    arguments = {
        str(name): message_from_json(value, depth - 1) if isinstance(value, dict) else value for name, value in pairs
    }
    return Message(str(data.get("id", "")), arguments)


def pack_message(text: str) -> str:
    """Encode a message as text for a database."""
    if not isinstance(text, Message) and not text.startswith(PACKED_PREFIX):
        return text
    data = message_to_json(text if isinstance(text, Message) else msg("{text}", text=text))
    return PACKED_PREFIX + json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def unpack_message(text: str) -> str:
    """Decode the output of `pack_message`. A damaged text stays as it is."""
    if not text.startswith(PACKED_PREFIX):
        return text
    try:
        return message_from_json(json.loads(text[len(PACKED_PREFIX) :]))
    except (ValueError, RecursionError):
        return text
