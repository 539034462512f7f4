"""Values of Slurm's options: times, sizes, counts, arrays, GPUs and signals."""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from holdfast.core.job import MIB
from holdfast.core.messages import msg

from ..fields import FieldValue, InvalidValue
from ..paths import clip_text
from ..quantities import MAX_DURATION
from ..rules import MAX_TASKS

MAX_ARRAY_INDEX = 4_000_000  # Slurm's own
MAX_COUNT = 1_000_000
MAX_GPUS = 10_000
MAX_MEMORY = 2**60  # bytes
MAX_SIGNAL_TIME = 65535  # seconds
DEFAULT_SIGNAL_TIME = 60  # seconds
NO_LIMIT = timedelta(0)

_COUNT_PATTERN = re.compile(r"[0-9]{1,9}")
_TIME_PATTERN = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_UNLIMITED_WORDS = ("UNLIMITED", "INFINITE", "-1")
_MEMORY_PATTERN = re.compile(r"([0-9]{1,12})([KMGT]?)B?", re.IGNORECASE)
_MEMORY_UNITS = {"K": 1024, "": MIB, "M": MIB, "G": 1024 * MIB, "T": 1024**2 * MIB}
_NODES_PATTERN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_RANGE_PATTERN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_GRES_PATTERN = re.compile(r"(?:gres[/:])?([A-Za-z_][\w.-]*)(?:[:=]([A-Za-z_][\w.-]*))?(?:[:=]([0-9]{1,6}))?")
_GPUS_PATTERN = re.compile(r"(?:([A-Za-z_][\w.-]*)[:=])?([0-9]{1,6})")
_SIGNAL_PATTERN = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?([A-Za-z0-9]{1,8})(?:@([0-9]{1,5}))?", re.IGNORECASE)


def get_text(option: FieldValue) -> str:
    return str(option.node.value)


def _build_invalid_value(expected: str, option: FieldValue) -> InvalidValue:
    value = repr(clip_text(get_text(option)))
    return InvalidValue(msg("must be {expected}, not {node}", expected=expected, node=value), rule="format")


def read_count(option: FieldValue) -> int:
    text = get_text(option)
    if not _COUNT_PATTERN.fullmatch(text) or not 1 <= int(text) <= MAX_COUNT:
        raise _build_invalid_value(msg("a positive number"), option)
    return int(text)


def read_time(option: FieldValue) -> timedelta:
    """Read a time limit; zero: no limit. As in Slurm, seconds count as a full minute."""
    text = get_text(option)
    if text.upper() in _UNLIMITED_WORDS:
        return NO_LIMIT
    found = _TIME_PATTERN.fullmatch(text)
    if found is None:
        raise _build_invalid_value(msg("a time such as 90, 30:00, 12:00:00, 2-12 or 2-12:00:00"), option)
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None or len(numbers) == 3:  # from hours on
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    rounded = timedelta(minutes=-(-total // 60)) if total < 10**11 else timedelta.max
    if rounded > MAX_DURATION:
        raise InvalidValue(msg("must be at most {limit} days", limit=MAX_DURATION.days), rule="maximum")
    return rounded


def read_memory(option: FieldValue) -> int:
    """Read a size in bytes; without a unit it is MiB."""
    found = _MEMORY_PATTERN.fullmatch(get_text(option))
    if found is None:
        raise _build_invalid_value(msg("a size such as 500M or 16G"), option)
    size = int(found[1]) * _MEMORY_UNITS[found[2].upper()]
    if size == 0:
        raise InvalidValue(
            msg("requests all memory of the node, which is not supported"), msg("Write a size such as 16G."), rule="not"
        )
    if size > MAX_MEMORY:
        raise _build_invalid_value(msg("a size such as 500M or 16G"), option)
    return max(MIB, size)


def read_node_count(option: FieldValue) -> int:
    """Read the smallest number of nodes: 2, or 2-4."""
    found = _NODES_PATTERN.fullmatch(get_text(option))
    if found is None or int(found[1]) < 1 or (found[2] and int(found[2]) < int(found[1])):
        raise _build_invalid_value(msg("a number of nodes, or a range such as 1-4"), option)
    return int(found[1])


# -- arrays


class ArrayRequest(NamedTuple):
    indices: str  # without the limit
    limit: int | None  # of tasks that run at the same time


def read_array(option: FieldValue) -> ArrayRequest:
    text, percent, limit = get_text(option).partition("%")
    indices = text.strip().removeprefix("[").removesuffix("]")
    if percent and (not _COUNT_PATTERN.fullmatch(limit) or int(limit) < 1):
        raise _build_array_error(option)
    try:
        list_array_indices(indices)
    except ValueError:
        raise _build_array_error(option) from None
    except OverflowError:
        raise InvalidValue(msg("must have at most {limit} indices", limit=MAX_TASKS), rule="maximum") from None
    return ArrayRequest(indices, int(limit) if percent else None)


def _build_array_error(option: FieldValue) -> InvalidValue:
    return _build_invalid_value(msg("indices such as 0-9, 1-100:5 or 1,3,7-9, with %4 for a limit"), option)


@lru_cache(maxsize=64)
def list_array_indices(text: str) -> tuple[int, ...]:
    """Return the indices of an array in order; ValueError if it is none, OverflowError if it is too large."""
    found: set[int] = set()
    total = 0  # with repetitions, which cost as much time
    for part in text.split(","):
        match = _RANGE_PATTERN.fullmatch(part.strip())
        if match is None:
            raise ValueError(part)
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last > MAX_ARRAY_INDEX:
            raise ValueError(part)
        indices = range(first, last + 1, step)
        total += len(indices)
        if total > MAX_TASKS:
            raise OverflowError
        found.update(indices)
    return tuple(sorted(found))


# -- GPUs


class GpuRequest(NamedTuple):
    total: int
    types: tuple[str, ...] = ()
    other_resources: tuple[str, ...] = ()  # of --gres


def read_gpus(option: FieldValue) -> GpuRequest:
    """Read 2, a100:2 or a100:1,v100:1."""
    count, types = 0, []
    for part in get_text(option).split(","):
        found = _GPUS_PATTERN.fullmatch(part.strip())
        if found is None:
            raise _build_invalid_value(msg("a number of GPUs such as 2 or a100:2"), option)
        count += int(found[2])
        types += [found[1]] if found[1] else []
    return GpuRequest(count, tuple(types))


def read_gres(option: FieldValue) -> GpuRequest:
    """Read gpu:2, gpu:a100:2, or a list with other resources."""
    count, types, others = 0, [], []
    for part in get_text(option).split(","):
        found = _GRES_PATTERN.fullmatch(part.strip())
        if part.strip().lower() == "none":
            continue
        if found is None and not part.strip().startswith("gpu") and re.match(r"[A-Za-z]", part.strip()):
            others.append(part.strip())
        elif found is None:
            raise _build_invalid_value(msg("resources such as gpu:2 or gpu:a100:2"), option)
        elif found[1] != "gpu":
            others.append(part.strip())
        else:
            count += int(found[3] or 1)
            types += [found[2]] if found[2] else []
    return GpuRequest(count, tuple(types), tuple(others))


# -- signals


class SignalRequest(NamedTuple):
    name: str  # without SIG
    seconds: int  # before the time limit
    to_script: bool  # otherwise to the steps that srun started


def read_signal(option: FieldValue) -> SignalRequest:
    found = _SIGNAL_PATTERN.fullmatch(get_text(option))
    name = _find_signal_name(found[2]) if found else None
    seconds = int(found[3]) if found and found[3] else DEFAULT_SIGNAL_TIME
    if found is None or name is None or seconds > MAX_SIGNAL_TIME:
        raise _build_invalid_value(msg("a signal such as B:USR1@120"), option)
    return SignalRequest(name, seconds, "B" in (found[1] or "").upper())


def _find_signal_name(word: str) -> str | None:
    try:
        number = signal.Signals(int(word)) if word.isdigit() else signal.Signals[f"SIG{word.upper()}"]
    except (KeyError, ValueError):
        return None
    return number.name.removeprefix("SIG")
