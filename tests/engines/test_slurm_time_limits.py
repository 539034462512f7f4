"""The time limits of partitions, and those of jobs that just fit. Pure."""

from __future__ import annotations

import pytest

from holdfast.engines.slurm.jobs import SEPARATOR
from holdfast.engines.slurm.options import SlurmOptions
from holdfast.engines.slurm.render import render_resources
from holdfast.engines.slurm.time_limits import fit_time_limit, parse_time_limits
from tests.contracts.engine_rig import launch

LIMITS = {"": 600.0, "main": 600.0, "short": 300.0}


def test_time_limits_of_partitions_are_parsed() -> None:
    rows = ("main*|1-02:03:04", "short|5:00", "day|1:00:00", "long|infinite", "odd|n/a", "")
    text = "\n".join(rows).replace("|", SEPARATOR)
    assert parse_time_limits(text) == {"": 93784, "main": 93784, "short": 300, "day": 3600}


@pytest.mark.parametrize(
    ("time_limit", "partition", "expected"),
    [
        (None, "short", None),
        (240, "short", "--time=5"),
        (300, "short", "--time=5"),  # just fits
        (290, "short", "--time=5"),
        (301, "short", "--time=6"),  # too long: Slurm says so
        (600, "", "--time=10"),
        (300, "short,main", "--time=5"),
        (300, "long", "--time=6"),
    ],
)
def test_a_limit_that_just_fits_its_partition_is_not_exceeded(
    time_limit: float | None, partition: str, expected: str | None
) -> None:
    options = SlurmOptions(grace=30.0)
    given = launch("a", "exit 0", time_limit=time_limit, engine_options={"partition": partition})
    arguments = render_resources(fit_time_limit(given, options, LIMITS), options)
    assert [each for each in arguments if each.startswith("--time")] == ([expected] if expected else [])
