"""OpenPAI's exit specification: every row is whole, and every way to end leads to one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from holdfast.core.exits.exit import (
    Cause,
    Exit,
    ExitKind,
    RetryBehaviour,
    build_platform_exit,
    build_refused_exit,
    classify_exit,
)
from holdfast.core.exits.log_patterns import LOG_PATTERNS
from holdfast.core.exits.specs import (
    EXIT_FAMILIES,
    LEGACY_FAMILY,
    ExitSpec,
    load_cause_specs,
    load_data_file,
    load_family_specs,
)
from holdfast.core.exits.table import add_cause, find_cause, find_hint, find_spec, find_spec_by_code
from holdfast.core.job import JobFormat

CODES = [
    0, -100, -101, -110, -111, -120, -200, -210, -220, -230, -300, -310,
    -1000, -1001, -1002, -1003, -1004, -1005, -1006, -1100, -1200, -1201, -1202, -1203, -1204, -1205, -1300, -8000,
    128, 130, 131, 132, 134, 135, 136, 137, 139, 141, 143, 200, 201, 210,
    220, 221, 222, 223, 224, 225, 226, 228, 229, 230, 231, 232, 233, 234, 235,
    249, 250, 251, 252, 253, 254, 255, 256,
]  # fmt: skip
CURRENT = [spec for family in EXIT_FAMILIES for spec in load_family_specs(family)]
SPECS = [*CURRENT, *load_family_specs(LEGACY_FAMILY)]
ISSUERS = {
    "USER_CONTAINER",
    "PAI_OS",
    "PAI_RUNTIME",
    "PAI_DOCKER",
    "PAI_K8S",
    "PAI_FC",
    "PAI_DB_CONTROLLER",
    "UNKNOWN",  # of -8000 alone
}
CAUSERS = ISSUERS | {
    "USER_SUBMISSION",
    "USER_STOP",
    "USER_SCALEDOWN",
    "RESOURCE_ALLOCATION_TIMEOUT",
    "PAI_HW",
    "PAI_UNKNOWN",
}
TYPES = {
    "USER_SUCCESS",
    "USER_STOP",
    "USER_FAILURE",
    "PLATFORM_FAILURE",
    "RESOURCE_ALLOCATION_TIMEOUT",
    "UNKNOWN_FAILURE",
}
STAGES = {"SUBMITTING", "ALLOCATING", "LAUNCHING", "RUNNING", "COMPLETING", "UNKNOWN"}
REACTIONS = {
    RetryBehaviour.TRANSIENT: "ALWAYS_RETRY",
    RetryBehaviour.TRANSIENT_CONFLICT: "ALWAYS_BACKOFF_RETRY",
    RetryBehaviour.PERMANENT: "NEVER_RETRY",
    RetryBehaviour.UNKNOWN: "RETRY_TO_MAX",
}


def test_every_code_of_openpai_has_a_row_and_only_one() -> None:
    assert sorted(spec.code for spec in CURRENT) == sorted(CODES)
    assert len({spec.code for spec in SPECS}) == len(SPECS)
    assert len({spec.phrase for spec in SPECS}) == len(SPECS)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.code))
def test_every_row_is_whole(spec: ExitSpec) -> None:
    assert spec.reaction == ("NEVER_RETRY" if spec.code == 0 else REACTIONS[spec.behaviour])
    assert spec.issuer in ISSUERS
    assert spec.causer in CAUSERS
    assert spec.type in TYPES
    assert spec.stage in STAGES
    assert spec.phrase.isidentifier()
    for text in (spec.reason, *spec.repro, *spec.solution):
        assert text[0].isupper()
        assert text.endswith(".")
    assert spec.repro
    assert spec.solution
    assert all(isinstance(text, str) for text in (spec.phrase, *spec.repro, *spec.solution))
    assert (spec.type == "USER_STOP") <= (spec.behaviour is RetryBehaviour.PERMANENT)


@pytest.mark.parametrize(
    ("exit", "code"),
    [
        (classify_exit(0), 0),
        (classify_exit(1), 255),
        (classify_exit(255), 255),
        (classify_exit(127), 255),
        (classify_exit(128), 255),  # git's, say: the number alone tells nothing of a GPU
        (classify_exit(129), 255),
        (classify_exit(130), 130),
        (classify_exit(137), 137),
        (classify_exit(138), 255),
        (classify_exit(143), 143),
        (classify_exit(200), 255),
        (classify_exit(220), 255),
        (classify_exit(137, oom=True), -1200),
        (build_platform_exit("x"), -120),
        (build_refused_exit("x"), -200),
        (build_refused_exit("x", "a word of another version"), -200),
        (replace(classify_exit(1), cause=Cause.CUDA_OOM), 226),
        (replace(classify_exit(1), cause="cuda-oom"), 226),  # as it comes back from the store
        (replace(classify_exit(0), cause=Cause.CUDA_OOM), 0),
        (Exit(kind=ExitKind.CANCELLED, message="", code=143), -210),
        (Exit(kind=ExitKind.ATTEMPT_OVER, message="", code=143), -220),
        (Exit(kind=ExitKind.TIME_LIMIT, message="", code=137), -1004),
    ],
)
def test_each_kind_of_exit_leads_to_its_row(exit: Exit, code: int) -> None:
    assert find_spec(exit).code == code


@pytest.mark.parametrize("kind", ExitKind)
def test_every_kind_has_a_row(kind: ExitKind) -> None:
    assert find_spec(Exit(kind=kind, message="")) in SPECS


def test_only_causes_that_there_are_have_a_row() -> None:
    assert [Cause(name) for name in load_cause_specs()] == list(Cause)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_row(cause: Cause) -> None:
    assert load_cause_specs()[cause].code in CODES


@pytest.mark.parametrize(
    ("make", "causes"),
    [
        (
            build_refused_exit,
            [Cause.IMAGE_MISSING, Cause.NO_SHELL, Cause.INVALID_TASK, Cause.NOT_ALLOWED, Cause.TOO_LARGE],
        ),
        (
            build_platform_exit,
            [
                Cause.START_FAILED,
                Cause.SANDBOX_FAILED,
                Cause.PORT_IN_USE,
                Cause.LOST,
                Cause.FILES_GONE,
                Cause.PREEMPTED,
                Cause.NODE_FAILED,
            ],
        ),
    ],
)
def test_causes_that_engines_set_are_retried_as_their_rows_say(make: type[Exit], causes: list[Cause]) -> None:
    """So it makes no difference to these whether a job was written for OpenPAI."""
    for cause in causes:
        exit = make("why", cause)  # type: ignore[call-arg]
        assert find_spec(exit).code == load_cause_specs()[cause].code
        assert find_spec(exit).behaviour is exit.behaviour


def test_codes_without_a_row_keep_their_number() -> None:
    assert find_spec_by_code(77) == replace(find_spec_by_code(256), code=77)
    assert find_spec_by_code(-77) == replace(find_spec_by_code(-8000), code=-77)
    assert find_spec_by_code(-7351).phrase == "APP_STOP_FRAMEWORK_REQUESTED"


@pytest.mark.parametrize("code", [0, 130, 137, 139, 143])
def test_a_success_or_a_signal_says_enough_by_itself(code: int) -> None:
    assert find_cause("CUDA out of memory", code) == ""


@pytest.mark.parametrize(
    ("exit", "words"),
    [
        (classify_exit(137, oom=True), "more memory"),
        (classify_exit(135), "shared memory"),
        (build_refused_exit("x", Cause.IMAGE_MISSING), "image"),
        (replace(classify_exit(1), cause=Cause.CUDA_OOM), "smaller batch"),
        (replace(classify_exit(1), cause=Cause.PLUGIN_FAILED), "names the plugin"),
        (replace(classify_exit(1), cause=Cause.UNSET_VARIABLE), "${NAME:-}"),
        (replace(classify_exit(143, scratch_full="x"), cause="scratch-full"), "primehub.scratch_bytes"),
        (Exit(kind=ExitKind.TIME_LIMIT, message=""), "time limit"),
        (classify_exit(0), ""),
        (classify_exit(1), ""),
        (classify_exit(137), ""),
        (build_platform_exit("x", Cause.LOST), ""),
        (Exit(kind=ExitKind.CANCELLED, message=""), ""),
        (Exit(kind=ExitKind.ATTEMPT_OVER, message=""), ""),
    ],
)
def test_people_are_told_what_to_try_where_that_is_known(exit: Exit, words: str) -> None:
    hint = find_hint(exit)
    assert words in hint
    assert bool(hint) == bool(words)


@pytest.mark.parametrize(("code", "signal"), [(0, None), (143, 15), (1, None)])
def test_a_home_that_was_too_large_is_a_failure_whatever_the_program_said(code: int, signal: int | None) -> None:
    exit = replace(classify_exit(code, scratch_full="It held too much"), cause=Cause.SCRATCH_FULL.value)
    assert (exit.kind, exit.code, exit.signal) == (ExitKind.USER_ERROR, code, signal)
    assert exit.message == "It held too much"
    assert find_spec(exit).behaviour is exit.behaviour is RetryBehaviour.PERMANENT


def test_a_message_says_the_cause_that_the_log_told() -> None:
    assert add_cause(classify_exit(3), "cuda-oom").message == "Exit code 3: the GPU ran out of memory"
    for nothing in ("", "a word of another version"):
        assert add_cause(classify_exit(3), nothing).message == "Exit code 3"
    worded = {name for name, cause in load_cause_specs().items() if cause.words}
    assert worded == {cause.value for cause, _ in LOG_PATTERNS} | {Cause.DISK_WAS_FULL.value}


def test_a_cause_is_kept_as_plain_text() -> None:
    """Databases have their own ideas about enumerations."""
    causes = [
        find_cause("core dumped", 1),
        build_platform_exit("", Cause.LOST).cause,
        build_refused_exit("", Cause.NO_SHELL).cause,
    ]
    assert [type(cause) for cause in causes] == [str, str, str]


def test_only_jobs_written_for_openpai_are_retried_by_its_table() -> None:
    assert {dialect for dialect in JobFormat if dialect.is_openpai} == {JobFormat.OPENPAI_V1, JobFormat.OPENPAI_V2}


def test_every_solution_that_is_shared_is_used() -> None:
    used = {text for spec in SPECS for text in spec.solution}
    assert set(load_data_file("solutions").values()) <= used


def test_nothing_is_read_before_it_is_needed() -> None:
    script = (
        "import holdfast.core.planning.plan, holdfast.core.exits.specs as specs\n"
        "print(specs.load_data_file.cache_info().currsize)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"0\n"
