"""Paths of fields in messages: roles.worker.commands[2]."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_SIMPLE_NAME_PATTERN = re.compile(r"[\w$~-]{1,64}")


def clip_text(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def format_path(steps: Iterable[str | int]) -> str:
    """Format a path such as roles.worker.commands[2]; special names are quoted."""
    path = ""
    for step in steps:
        path = join_path(path, step)
    return path


def join_path(path: str, step: str | int) -> str:
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not _SIMPLE_NAME_PATTERN.fullmatch(step):
        return f"{path}[{json.dumps(clip_text(step), ensure_ascii=False)}]"
    return f"{path}.{step}" if path else step
