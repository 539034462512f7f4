"""How messages name a place in a job file: roles.worker.commands[2]."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_SIMPLE_NAME = re.compile(r"[\w$~-]{1,64}")


def clip(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def render_path(steps: Iterable[str | int]) -> str:
    """roles.worker.commands[2]; odd names in quotes."""
    path = ""
    for step in steps:
        path = join_path(path, step)
    return path


def join_path(path: str, step: str | int) -> str:
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not _SIMPLE_NAME.fullmatch(step):
        return f"{path}[{json.dumps(clip(step), ensure_ascii=False)}]"
    return f"{path}.{step}" if path else step
