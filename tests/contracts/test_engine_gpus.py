"""The contract's test of GPUs, on a machine that seems to have two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.container_daemons import need_program
from tests.fake_gpus import run_with_fake_gpus

pytestmark = pytest.mark.release  # each is a pytest of its own
TEST = "test_a_task_sees_its_own_gpus_and_no_others"


def test_gpus_of_the_embedded_engine(tmp_path: Path) -> None:
    run_with_fake_gpus(tmp_path, f"tests/contracts/test_engine_embedded.py::TestSandboxed::{TEST}")


def test_gpus_of_docker(tmp_path: Path) -> None:
    need_program("dockerd")
    run_with_fake_gpus(tmp_path, f"tests/contracts/test_engine_docker.py::TestDocker::{TEST}")
