"""The published JSON Schema says what the reader accepts."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from holdfast.core.errors import InvalidJob
from holdfast.core.job import Job, JobFormat
from holdfast.jobspec import build_job_schema, detect_format, parse_job, render_yaml
from holdfast.jobspec.document import parse_document
from holdfast.jobspec.schema import main, render_schema
from tests.longer import examples

from .jobs import jobs
from .samples import golden_files, name_of

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs/reference/job.schema.json"
EXAMPLES = [path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".yaml", ".json")]
VALIDATOR = jsonschema.Draft202012Validator(build_job_schema())

# Mistakes that a schema of single values cannot see, or that are no tree at all.
BEYOND_SCHEMA = {
    "holdfast-masked.yaml",
    "holdfast-secrets.yaml",
    "holdfast-too-many.yaml",
    "holdfast-two-documents.yaml",
    "holdfast-tag.yaml",
    "holdfast-tab.yaml",
    "holdfast-broken.json",
    "holdfast-duplicate.json",
    "holdfast-empty-command.yaml",
}


def test_published_schema_is_current() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == render_schema(), "run: python -m holdfast.jobspec.schema FILE"


def test_publishing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path / "out.json")])
    main([])
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == capsys.readouterr().out == render_schema()


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(build_job_schema())


def test_nobody_can_change_the_schema_of_others() -> None:
    build_job_schema()["properties"].clear()
    assert "name" in build_job_schema()["properties"]


@pytest.mark.parametrize("path", [*golden_files("holdfast"), *EXAMPLES], ids=name_of)
def test_valid_files_are_valid(path: Path) -> None:
    tree = parse_document(path.read_bytes()).root.to_plain()
    if detect_format(tree) is JobFormat.HOLDFAST:  # some examples show the other dialects
        VALIDATOR.validate(tree)


@pytest.mark.parametrize("path", [path for path in golden_files("invalid") if "holdfast" in path.name], ids=name_of)
def test_invalid_files_are_invalid(path: Path) -> None:
    if path.name in BEYOND_SCHEMA:
        with pytest.raises(InvalidJob):
            parse_job(path.read_bytes())
    else:
        assert not VALIDATOR.is_valid(parse_document(path.read_bytes()).root.to_plain())


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs())
def test_everything_we_write_is_valid(job: Job) -> None:
    VALIDATOR.validate(parse_document(render_yaml(job)).root.to_plain())


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_examples_parse_without_a_warning(path: Path) -> None:
    assert parse_job(path.read_bytes()).warnings == ()


@pytest.mark.parametrize("name", sorted(build_job_schema()["properties"]))
def test_every_key_is_documented(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs/reference/job-file.md").read_text(encoding="utf-8")


def test_descriptions_are_given() -> None:
    schema = build_job_schema()
    assert all(json.dumps(entry.get("description", "")) != '""' for entry in schema["properties"].values())
