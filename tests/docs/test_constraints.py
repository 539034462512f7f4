"""constraints.txt pins everything an install brings, on every Python and machine we name."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .pages import ROOT

LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = {canonicalize_name(line.split("==")[0]) for line in LINES}


def test_every_line_is_a_plain_pin() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_nothing_is_left_unpinned(python: str, machine: str) -> None:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "implementation_version": f"{python}.1",
        "platform_machine": machine,
    }
    assert {needed for needed in _needed(environment) if needed not in PINS} == set()


def test_the_build_backend_is_pinned() -> None:
    assert "setuptools" in PINS


def _needed(environment: dict[str, str]) -> set[str]:
    """All that `holdfast[postgres,dev]` requires, directly or not."""
    todo = [("holdfast", extra) for extra in ("", "postgres", "dev")]
    seen = set()
    while todo:
        package = todo.pop()
        if package not in seen:
            seen.add(package)
            todo += _requirements(*package, environment)
    return {found for found, _ in seen} - {"holdfast"}


def _requirements(package: str, extra: str, environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    for requirement in map(Requirement, importlib.metadata.requires(package) or ()):
        if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
            found = canonicalize_name(requirement.name)
            yield found, ""
            yield from ((found, wanted) for wanted in requirement.extras)
