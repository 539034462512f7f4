"""Sizes that jobs name instead of writing their resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.job import Resources
from holdfast.core.messages import join_messages, msg

from .fields import Wrong, guess, list_known
from .paths import clip


def named_size(name: str, sizes: Mapping[str, Resources]) -> Resources:
    """Wrong, with what it may be meant to be, when there is none of that name."""
    if name not in sizes:
        known = sorted(sizes)
        listed = list_known(known) if known else msg("No instance types are set up here.")
        hint = join_messages(" ", filter(None, (guess(name, known), listed)))
        raise Wrong(msg("{name} is not an instance type", name=repr(clip(name))), hint, rule="reference", expected=name)
    return sizes[name]


def sized(size: Resources, own: Mapping[str, Any]) -> Resources:
    """A size with what was asked for beside it. What a machine must have free of that is then as much."""
    requests: dict[str, Any] = {f"{key}_request": None for key in ("cpu", "memory") if key in own}
    return replace(size, **requests, **own)
