"""Instance types of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.job import Resources
from holdfast.core.messages import join_messages, msg

from .fields import InvalidValue, build_similar_name_hint, format_known_names
from .paths import clip_text


def get_instance_type(name: str, sizes: Mapping[str, Resources]) -> Resources:
    """Return the resources of an instance type; InvalidValue with a suggestion if it is unknown."""
    if name not in sizes:
        known = sorted(sizes)
        listed = format_known_names(known) if known else msg("No instance types are defined on this server.")
        hint = join_messages(" ", filter(None, (build_similar_name_hint(name, known), listed)))
        raise InvalidValue(
            msg("{name} is not an instance type", name=repr(clip_text(name))), hint, rule="reference", expected=name
        )
    return sizes[name]


def override_resources(size: Resources, own: Mapping[str, Any]) -> Resources:
    """Override resources of an instance type; the request of an overridden resource equals its limit."""
    requests: dict[str, Any] = {f"{key}_request": None for key in ("cpu", "memory") if key in own}
    return replace(size, **requests, **own)
