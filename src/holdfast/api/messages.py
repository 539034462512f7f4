"""Messages as data, for clients that translate them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageData:
    """A message before its arguments are filled in."""

    id: Annotated[str, "The English text, with the names of arguments in braces."] = ""
    args: Annotated[Mapping[str, Any], "By name: text, a number, or another message with `id` and `args`."] = field(
        default_factory=dict
    )
