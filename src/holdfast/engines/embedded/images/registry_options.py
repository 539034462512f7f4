"""Which registries are used, and how they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.core.image_names import DOCKER_HUB


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # registry -> HOST or HOST/PREFIX, tried first
    insecure: frozenset[str] = frozenset()  # hosts, with ports, reached by plain HTTP or with unverified certificates
    allowed: frozenset[str] = frozenset()  # registries to pull from; empty: all
    default_registry: str = DOCKER_HUB
