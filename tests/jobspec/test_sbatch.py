"""Slurm's syntax of times, sizes and arrays; options in all their forms; hostile scripts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import GIB, MIB, Job, JobFormat
from holdfast.jobspec import Defaults, ParsedJob, parse_job, render_sbatch_script
from holdfast.jobspec.rules import MAX_TASKS
from holdfast.jobspec.sbatch import is_sbatch_script, list_array_indices
from holdfast.jobspec.sbatch.option_table import LONG_NAMES, OPTIONS, Argument
from tests.longer import examples

small = st.integers(0, 400)


def parse(*options: str, body: str = "true") -> ParsedJob:
    return parse_job("\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), body, ""]))


def job_of(*options: str) -> Job:
    return parse(*options).job


def problem_lines(*options: str) -> list[tuple[str, int | None]]:
    with pytest.raises(InvalidJob) as caught:
        parse(*options)
    return [(problem.field, problem.line) for problem in caught.value.problems]


def test_the_format_is_detected_by_its_options_before_the_first_command() -> None:
    assert job_of("--time=1").dialect is JobFormat.SBATCH
    assert not is_sbatch_script("#!/bin/bash\ntrue\n#SBATCH --time=1\n")
    assert not is_sbatch_script("name: x\ncommand: |\n  #SBATCH --time=1\n  true\n")
    assert not is_sbatch_script("#SBATCH is not for this file\nname: x\ncommand: 'true'\n")
    assert is_sbatch_script("#SBATCH --time=1\ntrue\n")  # to be told that its first line is missing


# -- times


@given(days=small, hours=small, minutes=small, seconds=small)
@settings(max_examples=examples(200))
def test_each_form_of_a_time_means_what_slurm_means(days: int, hours: int, minutes: int, seconds: int) -> None:
    def limit(text: str) -> timedelta | None:
        return job_of(f"--time={text}").time_limit

    def rounded_up(**parts: int) -> timedelta:
        return timedelta(minutes=-(-timedelta(**parts) // timedelta(minutes=1)))

    assert limit(f"{minutes}") == timedelta(minutes=minutes)
    assert limit(f"{minutes}:{seconds:02}") == rounded_up(minutes=minutes, seconds=seconds)
    assert limit(f"{hours}:{minutes:02}:{seconds}") == rounded_up(hours=hours, minutes=minutes, seconds=seconds)
    assert limit(f"{days}-{hours}") == timedelta(days=days, hours=hours)
    assert limit(f"{days}-{hours}:{minutes}") == timedelta(days=days, hours=hours, minutes=minutes)
    assert limit(f"{days}-{hours}:{minutes}:{seconds}") == rounded_up(
        days=days, hours=hours, minutes=minutes, seconds=seconds
    )


@pytest.mark.parametrize("text", ["UNLIMITED", "infinite", "-1", "0", "0:00", "0-0"])
def test_times_without_a_limit(text: str) -> None:
    assert job_of(f"--time={text}").time_limit == timedelta(0)


@pytest.mark.parametrize("text", ["1h", "1:2:3:4", "-", "1-", "-5", "1.5", "1-2-3", ":30", "٣", "99999-0", ""])
def test_not_times(text: str) -> None:
    assert problem_lines(f"--time='{text}'") == [("--time", 2)]


# -- sizes


@given(st.integers(1, 10**5), st.sampled_from([("", MIB), ("M", MIB), ("g", GIB), ("T", 1024 * GIB), ("GB", GIB)]))
def test_sizes_have_binary_units_and_mean_mebibytes_without_one(number: int, unit: tuple[str, int]) -> None:
    assert job_of(f"--mem={number}{unit[0]}").roles[0].resources.memory == number * unit[1]


def test_memory_for_each_cpu_and_gpu() -> None:
    assert job_of("-n 3 -c 2 --mem-per-cpu=1G").roles[0].resources.memory == 6 * GIB
    assert job_of("--gres=gpu:3 --mem-per-gpu=4G").roles[0].resources.memory == 12 * GIB
    assert job_of("--mem=100K").roles[0].resources.memory == MIB


# -- arrays

ranges = st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(1, 20)).map(
    lambda each: range(each[0], each[0] + each[1] + 1, each[2])
)


def written(indices: range) -> str:
    if len(indices) == 1 and indices.stop == indices.start + 1:
        return str(indices.start)
    last = indices.stop - 1
    return f"{indices.start}-{last}" + (f":{indices.step}" if indices.step > 1 else "")


@given(st.lists(ranges, min_size=1, max_size=5), st.none() | st.integers(2, 50))
@settings(max_examples=examples(200))
def test_an_array_has_each_of_its_indices_once(parts: list[range], limit: int | None) -> None:
    text = ",".join(map(written, parts))
    role = job_of(f"--array={text}" + (f"%{limit}" if limit else "")).roles[0]
    expected = sorted({index for part in parts for index in part})
    assert role.instances == len(expected)
    assert list(list_array_indices(text)) == expected


@pytest.mark.parametrize("text", ["", "a", "5-1", "1-5:0", "1,,2", "1-", "-1", "1%0", "1%x", "1-2-3", "4000001"])
def test_not_arrays(text: str) -> None:
    assert problem_lines(f"--array='{text}'") == [("--array", 2)]


def test_an_array_is_as_large_as_a_job_can_be() -> None:
    assert job_of(f"--array=1-{MAX_TASKS}").task_count == MAX_TASKS
    assert problem_lines(f"--array=0-{MAX_TASKS}") == [("--array", 2)]
    assert problem_lines("--array=0-6000,10000-16000") == [("--array", 2)]


def test_the_time_limit_of_an_array_counts_for_each_task() -> None:
    job = job_of("--array=1-3 --time=10")
    assert job.time_limit == timedelta(0)
    assert job.extras["sbatch"]["task_time_limit"] == 600
    assert (job.gang, job.roles[0].completion.wait_for_all) == (False, True)


# -- options


@pytest.mark.parametrize("option", ["-c4", "-c 4", "--cpus-per-task=4", "--cpus-per-task 4", "--cpus-per-t=4", "-Qc4"])
def test_an_option_in_all_its_forms(option: str) -> None:
    assert job_of(option).roles[0].resources.cpu == 4


def test_the_last_of_several_wins() -> None:
    assert job_of("--time=1", "--time=2").time_limit == timedelta(minutes=2)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_of_sbatch_is_used_refused_or_warned_about(name: str) -> None:
    spec = OPTIONS[name]
    assert sum([spec.is_used, bool(spec.refusal)]) < 2
    if not spec.is_used:
        value = "" if spec.argument is Argument.NONE else "=1"
        if spec.refusal:
            assert problem_lines(f"--{name}{value}") == [(f"--{name}", 2)]
        else:
            assert [warning.field for warning in parse(f"--{name}{value}").warnings] == [f"--{name}"]


def test_no_letter_is_used_twice() -> None:
    assert len(LONG_NAMES) == sum(bool(spec.letter) for spec in OPTIONS.values())


def test_gpus_follow_from_any_of_the_options() -> None:
    for options in ("--gpus=4", "-G a100:4", "--gpus-per-node=4", "--gres=gpu:4", "--gres=gpu:a100:3,gpu:v100:1"):
        assert job_of(options).roles[0].resources.gpu == 4, options
    assert job_of("--ntasks=2 --gpus-per-task=2").roles[0].resources.gpu == 4
    shared = job_of("--gpus=4 --gpus-per-task=1 --cpus-per-task=3").roles[0].resources  # so there are 4 tasks
    assert (shared.gpu, shared.cpu) == (4, 12)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--gres=gpu:2", None),
        ("--gres=gpu:a100:2", "gpu:a100:2"),
        ("--gpus=a100:1,v100:2", "gpu:a100:1,gpu:v100:2"),
        ("-n 2 --gpus-per-task=a100:2", "gpu:a100:4"),
        ("--gpus=2 --gres=tmpfs:20G", "tmpfs:20G,gpu:2"),
    ],
)
def test_what_only_slurm_knows_of_gpus_is_kept_for_it(options: str, expected: str | None) -> None:
    assert job_of(options).roles[0].engine_options.get("slurm", {}).get("gres") == expected


def test_options_of_the_queue_of_slurm_are_kept_for_it() -> None:
    job = job_of("-p gpu,long -A lab -q high -C 'a100&nvlink' --reservation=course")
    assert job.roles[0].engine_options == {
        "slurm": {
            "partition": "gpu,long",
            "account": "lab",
            "qos": "high",
            "constraint": "a100&nvlink",
            "reservation": "course",
        }
    }


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20).map(str.strip).filter(bool))
def test_the_name_of_a_file_survives_a_clone(name: str) -> None:
    job = parse_job("#!/bin/sh\n#SBATCH --time=1\ntrue\n", defaults=Defaults(job_name=name)).job
    assert job.name == name
    assert parse_job(render_sbatch_script(job)).job.name == name


def test_an_image_and_mounts_of_pyxis_are_those_of_the_job() -> None:
    role = job_of("--container-image=ghcr.io\\#lab/train:1 --container-mounts=/a,/b:/c:ro").roles[0]
    assert role.image == "ghcr.io/lab/train:1"
    assert [(mount.source, mount.target, mount.read_only) for mount in role.mounts] == [
        ("/a", "/a", False), ("/b", "/c", True),
    ]  # fmt: skip


def test_types_of_mails_add_up() -> None:
    (spec,) = job_of("--mail-type=BEGIN", "--mail-type=FAIL --mail-user=ada@example.org").notify
    assert sorted(spec.events) == ["failed", "started"]


def test_a_limit_that_limits_nothing_gives_no_warning() -> None:
    assert parse("--array=1-4%4").warnings == ()
    assert [warning.field for warning in parse("--array=1-4%3").warnings] == ["--array"]


def test_a_signal_to_the_script_counts_back_from_the_time_limit() -> None:
    assert job_of("--time=10 --signal=B:10@60").extras["sbatch"]["signal"] == {"name": "USR1", "seconds": 540}
    assert "signal" not in job_of("--time=1 --signal=B:USR1@60").extras["sbatch"]


# -- hostile scripts

pieces = st.sampled_from(
    ["--array=", "--time=", "--mem=", "-N", "--gres=gpu:", "--export=A=", '"', "'", "\\", "#", " ", "%", "0", "-", ":",
     "99999999999", ",", "hetjob", "--", "=", "\t", "é", "\n#HOLDFAST ", "image: [", "{", "\n#SBATCH ", "\x1b[31m"]
)  # fmt: skip


def test_an_array_with_many_repetitions_is_refused_before_it_is_counted() -> None:
    assert problem_lines("--array=" + ",".join(["1-10000"] * 50_000)) == [("--array", 2)]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("-n 900000 -c 900000", "--cpus-per-task"),
        ("-n 900000 --gpus-per-task=900", "--gpus-per-task"),
        ("-n 900000 --mem-per-cpu=900000T", "--mem-per-cpu"),
        ("--mail-type=END --mail-user=" + ",".join(f"user{number}@example.org" for number in range(21)), "--mail-user"),
        ("--export=" + ",".join(f"A{number}=1" for number in range(1001)), "--export"),
        ("--container-mounts=" + ",".join(f"/a{number}" for number in range(101)), "--container-mounts"),
    ],
)
def test_requests_beyond_the_limits_of_a_job_are_refused(options: str, field: str) -> None:
    assert problem_lines(options) == [(field, 2)]


def find_problems(text: str) -> tuple[Problem, ...]:
    try:
        parse_job(text)
    except InvalidJob as invalid:
        return invalid.problems
    return ()


@given(st.lists(pieces, max_size=30).map("".join))
@settings(max_examples=examples(500))
def test_any_script_is_parsed_or_refused_with_lines(options: str) -> None:
    problems = find_problems(f"#!/bin/bash\n#SBATCH {options}\ntrue\n")
    assert all(problem.line and problem.rule for problem in problems)
