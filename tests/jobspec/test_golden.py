"""Golden files in, JSON out: what each dialect means, and what is said about mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import InvalidJob, Problem
from holdfast.core.job import JobFormat
from holdfast.jobspec import job_from_json, job_to_json, parse_job, render_yaml

from .samples import SITE, check_golden, golden_files, name_of

VALID = golden_files(*JobFormat)
INVALID = golden_files("invalid")


def _shown(problem: Problem) -> dict[str, str | int | None]:
    return {"field": problem.field, "line": problem.line, "message": problem.message, "hint": problem.hint}


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_valid_file_means(path: Path) -> None:
    parsed = parse_job(path.read_bytes(), defaults=SITE)
    assert parsed.job.dialect == path.parent.name
    warnings = [_shown(warning) for warning in parsed.warnings]
    check_golden(path, {"job": job_to_json(parsed.job, secrets=True), "warnings": warnings})


@pytest.mark.parametrize("path", INVALID, ids=name_of)
def test_invalid_file_is_told(path: Path) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(path.read_bytes(), defaults=SITE)
    check_golden(path, [_shown(problem) for problem in caught.value.problems])
    assert all(problem.rule for problem in caught.value.problems)


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_every_dialect_survives_our_own_yaml(path: Path) -> None:
    job = parse_job(path.read_bytes(), defaults=SITE).job
    written = render_yaml(job, mask_secrets=False, defaults=SITE)
    assert parse_job(written, defaults=SITE).job == replace(job, dialect=JobFormat.HOLDFAST)


@pytest.mark.parametrize("path", VALID, ids=name_of)
def test_every_dialect_survives_the_codec(path: Path) -> None:
    job = parse_job(path.read_bytes(), defaults=SITE).job
    assert job_from_json(job_to_json(job, secrets=True)) == job


@pytest.mark.parametrize("path", [path for path in VALID if path.suffix == ".yaml"], ids=name_of)
def test_windows_line_ends_and_byte_order_mark_change_nothing(path: Path) -> None:
    text = path.read_bytes()
    windows = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    assert parse_job(windows, defaults=SITE) == parse_job(text, defaults=SITE)
