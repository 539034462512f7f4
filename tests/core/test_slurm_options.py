"""Options for Slurm: which source wins, which values are valid, and the generic resources of several SKUs."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.core.job import Job, Role
from holdfast.core.slurm_options import (
    QUEUE_OPTION_NAMES,
    ChosenOption,
    OptionSource,
    choose_options,
    count_gres_gpus,
    find_gres_problem,
    iter_option_problems,
    list_role_options,
    scale_gres,
    scale_options,
)


@pytest.mark.parametrize("given", list(product((False, True), repeat=4)))
def test_the_last_source_that_sets_an_option_wins(given: tuple[bool, ...]) -> None:
    winners = [source for source, is_set in zip(OptionSource, given, strict=True) if is_set]
    layers = {source: {"partition": source.value} for source in winners}
    expected = {"partition": ChosenOption(winners[-1].value, winners[-1])} if winners else {}
    assert choose_options(layers) == expected


def test_sources_are_merged_option_by_option() -> None:
    chosen = choose_options(
        {
            OptionSource.JOB: {"qos": "", "gres": "gpu:2"},
            OptionSource.SETTING: {"partition": "cpu", "qos": "normal"},
            OptionSource.GROUP: {"partition": "gpu", "account": "lab"},
        }
    )
    assert [(name, option.value, option.source.value) for name, option in chosen.items()] == [
        ("partition", "gpu", "group"),
        ("account", "lab", "group"),
        ("qos", "normal", "setting"),
        ("gres", "gpu:2", "job"),
    ]


def test_each_role_has_its_own_options() -> None:
    roles = (
        Role(name="a", commands=("true",), type_options={"slurm": {"partition": "big"}}),
        Role(name="b", commands=("true",), engine_options={"slurm": {"partition": "own"}, "other": {"qos": "x"}}),
    )
    found = list_role_options(Job(name="j", roles=roles), {"qos": "low"}, {"partition": "lab"})
    assert [(each.role, each.name, each.value, each.source.value) for each in found] == [
        ("a", "partition", "big", "instance-type"),
        ("a", "qos", "low", "setting"),
        ("b", "partition", "own", "job"),
        ("b", "qos", "low", "setting"),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition": "-pgpu"}, "without - at the start"),
        ({"account": "--wrap=true"}, "without - at the start"),
        ({"qos": "two words"}, "without spaces"),
        ({"constraint": "a\nb"}, "without spaces"),
        ({"constraint": "a\n"}, "without spaces"),
        ({"constraint": "a\x1b[2J"}, "without spaces"),
        ({"reservation": "größe"}, "ASCII"),
        ({"partition": "x" * 256}, "at most 255"),
        ({"wrap": "true"}, "'wrap' is not an option; use partition, account"),
    ],
)
def test_what_no_option_can_be(options: dict[str, str], says: str) -> None:
    ((name, problem),) = iter_option_problems(options)
    assert (name, says in problem) == (next(iter(options)), True), problem


def test_ordinary_values_are_valid_and_an_empty_one_is_none() -> None:
    options = {"partition": "gpu,long", "constraint": "[a100*2&(ib|eth)]", "qos": "", "gres": "gpu:a100:2"}
    assert not list(iter_option_problems(options))


def test_servers_and_groups_have_no_gres() -> None:
    ((name, problem),) = iter_option_problems({"gres": "gpu:1"}, QUEUE_OPTION_NAMES)
    assert (name, "instance type" in problem) == ("gres", True)


@pytest.mark.parametrize(
    ("gres", "units", "gpus", "expected"),
    [
        ("gpu:a100:1", 2, 2, "gpu:a100:2"),
        ("gpu:a100:4", 2, 8, "gpu:a100:8"),
        ("gpu:a100", 1, 1, "gpu:a100:1"),
        ("gpu:a100:1", 1, 0, ""),  # a task that overrides the GPUs of its type
        ("gpu:a100:1,nvme:2", 3, 3, "gpu:a100:3,nvme:6"),
        ("nvme", 2, 0, "nvme:2"),
        ("nvme:1", 1, 2, "nvme:1,gpu:2"),
        ("gres:gpu:a100:1", 1, 1, "gpu:a100:1"),
    ],
)
def test_gres_of_several_skus(gres: str, units: int, gpus: int, expected: str) -> None:
    assert scale_gres(gres, units, gpus) == expected
    assert scale_options({"partition": "p", "gres": gres}, units, gpus).get("gres", "") == expected


@pytest.mark.parametrize(
    ("gres", "gpus", "says"),
    [
        ("gpu:a100:2", 1, "gres has 2 GPUs, but gpu is 1"),
        ("gpu:a100", 0, "gres has 1 GPUs, but gpu is 0"),
        ("gpu:a100:1,gpu:v100:1", 2, "only once"),
        ("gpu:a100:many", 1, "must be a list"),
        ("gpu:a100:1,", 1, "must be a list"),
        ("gpu:a100:2", 2, ""),
        ("gpu:a100", 4, ""),
        ("nvme:2", 4, ""),
    ],
)
def test_gres_of_a_size_has_its_gpus(gres: str, gpus: int, says: str) -> None:
    problem = find_gres_problem(gres, gpus)
    assert (says in problem) if says else problem == ""


@pytest.mark.parametrize(
    ("gres", "count"),
    [("gpu:2", 2), ("gpu", 1), ("gpu:a100:1,gpu:v100:2", 3), ("gres/gpu:3", 3), ("tmpfs:20G,gpu:2", 2), ("gpux:2", 0)],
)
def test_gpus_of_gres_are_counted(gres: str, count: int) -> None:
    assert count_gres_gpus(gres) == count
