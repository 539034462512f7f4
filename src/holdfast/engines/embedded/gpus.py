"""NVIDIA devices: which there are, and how a task gets those it was given."""

from __future__ import annotations

from collections.abc import Mapping

from .render import Bind


def find_gpus() -> tuple[int, ...]:
    return ()


def gpu_binds(gpus: tuple[int, ...]) -> tuple[Bind, ...]:
    return ()


def gpu_variables(gpus: tuple[int, ...], *, renumbered: bool) -> Mapping[str, str]:
    return {}
