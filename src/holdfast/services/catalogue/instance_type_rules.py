"""Validation of instance types, reporting all problems at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import UserError
from holdfast.core.job import GIB, MIB
from holdfast.core.messages import join_messages, msg
from holdfast.core.slurm_options import GRES_OPTION, find_gres_problem, iter_option_problems

from ..names import check_multiline_text, check_text

MAX_CPU = 1_000_000
MAX_MEMORY = 2**50
MAX_GPU = 10_000
MAX_NODE_CONSTRAINTS = 100  # tolerations, and node labels, of one type
MIN_LABEL_LENGTH, MAX_LABEL_LENGTH = 3, 63  # limits of PrimeHub's form
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
TOLERATION_OPERATORS = ("Equal", "Exists")
TOLERATION_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ANY_EFFECT = "None"  # as PrimeHub's form writes it
_TOLERATION_FIELDS = {"operator", "key", "value", "effect"}


def normalize_instance_type(type: InstanceType) -> InstanceType:
    """Normalize equivalent values: unique, sorted groups and no empty fields in tolerations."""
    return replace(
        type,
        display_name=type.display_name.strip(),
        groups=tuple(sorted(set(type.groups))),
        tolerations=tuple(_normalize_toleration(each) for each in type.tolerations),
        node_selector=dict(type.node_selector),
        slurm={name: value for name, value in type.slurm.items() if value},
    )


def check_instance_type(type: InstanceType) -> None:
    """Raise UserError with all problems."""
    check_text(type.display_name, "display_name", longest=255)
    check_multiline_text(type.description, "description")
    found = [
        *_iter_limit_problems(type),
        *_iter_request_problems(type),
        *_iter_toleration_problems(type),
        *_iter_node_selector_problems(type),
        *_iter_slurm_problems(type),
    ]
    if found:
        field, _ = found[0]
        raise UserError(join_messages("; ", (message for _, message in found)), field=field)


def _iter_limit_problems(type: InstanceType) -> Iterator[tuple[str, str]]:
    if not _is_within_limit(type.cpu, MAX_CPU) or type.cpu < 0.01:
        yield "cpu", msg("cpu must be between 0.01 and {max_cpu} cores, not {cpu}", max_cpu=MAX_CPU, cpu=type.cpu)
    if not MIB <= type.memory <= MAX_MEMORY:
        yield (
            "memory",
            msg(
                "memory must be between {mib} and {max_memory} bytes, not {memory}",
                mib=MIB,
                max_memory=MAX_MEMORY,
                memory=type.memory,
            ),
        )
    if not 0 <= type.gpu <= MAX_GPU:
        yield "gpu", msg("gpu must be an integer between 0 and {max_gpu}, not {gpu}", max_gpu=MAX_GPU, gpu=type.gpu)
    if type.gpu_resource not in GPU_RESOURCES:
        known = " or ".join(GPU_RESOURCES)
        yield (
            "gpu_resource",
            msg(
                "gpu_resource must be {known}, not {gpu_resource}",
                known=known,
                gpu_resource=repr(type.gpu_resource[:80]),
            ),
        )


def _iter_request_problems(type: InstanceType) -> Iterator[tuple[str, str]]:
    for name, request, limit in (("cpu", type.cpu_request, type.cpu), ("memory", type.memory_request, type.memory)):
        if request is None:
            continue
        if not _is_within_limit(request, math.inf):
            yield (
                f"{name}_request",
                msg("{name}_request must be greater than 0, not {request}", name=name, request=request),
            )
        elif request > limit:
            asked, most = _format_resource(name, request), _format_resource(name, limit)
            yield (
                f"{name}_request",
                msg(
                    "{name}_request ({requested}) exceeds the limit of {limit}", name=name, requested=asked, limit=most
                ),
            )


def _format_resource(name: str, value: float) -> str:
    if name == "memory":
        return f"{value / GIB:g} GiB" if value >= GIB else f"{value / MIB:g} MiB"
    return "1 core" if value == 1 else msg("{value} cores", value=f"{value:g}")


def _is_within_limit(value: float, most: float) -> bool:
    return math.isfinite(value) and 0 < value <= most


def _normalize_toleration(toleration: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in toleration.items() if value not in (None, "")}
    return {key: value for key, value in kept.items() if (key, value) != ("effect", ANY_EFFECT)}


def _iter_toleration_problems(type: InstanceType) -> Iterator[tuple[str, str]]:
    if len(type.tolerations) > MAX_NODE_CONSTRAINTS:
        yield (
            "tolerations",
            msg(
                "tolerations can have at most {max_rules} entries, not {tolerations}",
                max_rules=MAX_NODE_CONSTRAINTS,
                tolerations=len(type.tolerations),
            ),
        )
        return
    for number, toleration in enumerate(type.tolerations):
        field = f"tolerations[{number}]"
        for problem in _iter_toleration_messages(toleration):
            yield field, join_messages(" ", (field, problem))


def _iter_toleration_messages(toleration: Mapping[str, Any]) -> Iterator[str]:
    if strange := sorted(set(toleration) - _TOLERATION_FIELDS):
        yield msg("has the unknown key {key}; use operator, key, value and effect", key=repr(str(strange[0])[:50]))
    for key in sorted(_TOLERATION_FIELDS & set(toleration)):
        value = toleration[key]
        if not isinstance(value, str) or len(value) > 253 or not value.isprintable():
            yield msg("has an invalid {key}: it must be one line of at most 253 characters", key=key)
            return
    operator = toleration.get("operator")
    if operator not in TOLERATION_OPERATORS:
        yield msg("must have the operator Equal or Exists")
    if operator == "Equal" and not ("key" in toleration and "value" in toleration):
        yield msg("has the operator Equal and requires a key and a value")
    if operator == "Exists" and "value" in toleration:
        yield msg("has the operator Exists and cannot have a value")
    if "effect" in toleration and toleration["effect"] not in TOLERATION_EFFECTS:
        yield msg("has an invalid effect; use one of {effects}", effects=", ".join(TOLERATION_EFFECTS))


def _iter_node_selector_problems(type: InstanceType) -> Iterator[tuple[str, str]]:
    if len(type.node_selector) > MAX_NODE_CONSTRAINTS:
        yield (
            "node_selector",
            msg(
                "node_selector can have at most {max_rules} labels, not {node_selector}",
                max_rules=MAX_NODE_CONSTRAINTS,
                node_selector=len(type.node_selector),
            ),
        )
        return
    for key, value in type.node_selector.items():
        if not _is_label(key):
            yield (
                "node_selector",
                msg("{key} is not a valid label: {label}", key=repr(str(key)[:80]), label=_LABEL_RULE),
            )
        if not _is_label(value):
            yield (
                "node_selector",
                msg("{value} is not a valid label value: {label}", value=repr(str(value)[:80]), label=_LABEL_RULE),
            )


def _iter_slurm_problems(type: InstanceType) -> Iterator[tuple[str, str]]:
    found = list(iter_option_problems(type.slurm))
    yield from ((f"slurm.{name}", problem) for name, problem in found)
    gres = type.slurm.get(GRES_OPTION)
    if gres and not found and (problem := find_gres_problem(gres, type.gpu)):
        yield f"slurm.{GRES_OPTION}", problem


_LABEL_RULE = msg(
    "use {min_label_length} to {max_label_length} characters without spaces or line breaks",
    min_label_length=MIN_LABEL_LENGTH,
    max_label_length=MAX_LABEL_LENGTH,
)


def _is_label(text: Any) -> bool:
    if not isinstance(text, str) or not MIN_LABEL_LENGTH <= len(text) <= MAX_LABEL_LENGTH:
        return False
    return text.isprintable() and " " not in text
