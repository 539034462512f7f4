"""Messages to people: an id that translations are found by, its arguments, and the English text.

The id is the English text with names in braces, as gettext has it: `msg("Job {name} was not found", name=name)`.
A `Message` is a string, its English text, so that whoever wants text has it; whoever wants another language takes
`id` and `arguments`. Arguments may be messages themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

Argument = str | int | float
_NAME = re.compile(r"\{\{|\}\}|\{([a-z_][a-z_0-9]*)\}")
MAX_DEPTH = 8  # of messages within messages, when they are read


class Message(str):
    id: str
    arguments: Mapping[str, Argument]

    def __new__(cls, id: str, arguments: Mapping[str, Argument]) -> Self:
        made = super().__new__(cls, fill(id, arguments))
        made.id = id
        made.arguments = arguments
        return made

    def __getnewargs__(self) -> tuple[str, Mapping[str, Argument]]:  # type: ignore[override]
        return self.id, self.arguments


def msg(id: str, /, **arguments: Argument) -> Message:
    return Message(id, arguments)


def join_messages(separator: str, parts: Iterable[str]) -> Message:
    """One message of several. The separator is written as each language does."""
    listed = list(parts)
    return Message(separator.join(f"{{p{n}}}" for n in range(len(listed))), {f"p{n}": p for n, p in enumerate(listed)})


def fill(template: str, arguments: Mapping[str, object]) -> str:
    """Put arguments in the places of their names. What is put in is never read again."""

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        return str(arguments[name]) if name in arguments else found[0]

    return _NAME.sub(replace, template) if "{" in template or "}" in template else template


def translate(text: str, look_up: Callable[[str], str]) -> str:
    """`text` in the language of `look_up`, which answers its argument where nobody translated it."""
    if not isinstance(text, Message):
        return look_up(text)
    arguments = {name: translate(value, look_up) if isinstance(value, Message) else value
                 for name, value in text.arguments.items()}  # fmt: skip
    return fill(look_up(text.id), arguments)


def to_data(text: str) -> Any:
    """A message as JSON: a plain text as it is, a message with its id and arguments."""
    if not isinstance(text, Message):
        return text
    return {"id": text.id, "args": {name: to_data(value) if isinstance(value, str) else value
                                    for name, value in text.arguments.items()}}  # fmt: skip


def from_data(data: Any, depth: int = MAX_DEPTH) -> str:
    """The reverse of `to_data`. Tolerates anything: what is no message becomes text."""
    if not isinstance(data, dict) or not depth:
        return str(data)
    arguments = data.get("args")
    pairs = arguments.items() if isinstance(arguments, dict) else ()
    return Message(str(data.get("id", "")), {str(name): from_data(value, depth - 1) if isinstance(value, dict) else value
                                             for name, value in pairs})  # fmt: skip
