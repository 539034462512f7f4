"""The samples in examples/primehub do what they say, on a real engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.job import MIB, Resources
from holdfast.engines.base import Isolation
from holdfast.jobspec import Defaults, parse_job
from tests.engines.scenarios import need

from .primehub_scene import Place

FOLDER = Path(__file__).parents[2] / "examples/primehub"
SITE = Defaults(instance_types={"cpu-1": Resources(cpu=1.0, memory=512 * MIB)}, group="Team_A")
SAID = {
    "hello.json": "Hello, alice of Team_A",
    "surroundings.yaml": "What stays for my group is in /project/team-a\nA dataset: mnist\n",
    "artifacts.json": "two files",
    "goes-on.yaml": "with code 2, and here we are",
    "install.yaml": "installed" if os.geteuid() == 0 else "there is no sudo here",
}


def test_every_sample_is_told_of() -> None:
    files = {path.name for path in FOLDER.iterdir()} - {"README.md"}
    assert files == set(SAID)
    readme = (FOLDER / "README.md").read_text()
    assert all(f"[{name}]({name})" in readme for name in files)


@pytest.mark.release_after(2)
@pytest.mark.parametrize("name", sorted(SAID))
def test_a_sample_does_what_it_says(tmp_path: Path, name: str) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    place = Place(Path(os.path.realpath(tmp_path)))
    place.dataset("mnist")
    ran = place.run(parse_job((FOLDER / name).read_bytes(), defaults=SITE).job)
    assert ran.code == 0, ran.err
    assert SAID[name] in ran.out
