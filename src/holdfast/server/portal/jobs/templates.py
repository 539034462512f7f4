"""Initial text of a new job: an existing job, an example, or a first line."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import can_rerun
from holdfast.core.errors import UserError
from holdfast.core.image_names import list_name_variants
from holdfast.core.job import Job, JobFormat
from holdfast.jobspec.render import dump_yaml

from ..visit import Visit
from .choices import JobChoices
from .examples import read_example

MAX_NAME_LENGTH = 255
_CLONE_SUFFIX_PATTERN = re.compile(r"_[0-9a-f]{8}\Z")
_NAME_LINE_PATTERN = re.compile(r"^name: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleJob:
    title: str
    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    text: str
    job: Job | None = None  # the copied job
    ref: str = ""
    can_rerun: bool = False  # can be rerun unchanged, with its secrets


def build_initial_job_text(group: str) -> str:
    line = dump_yaml({"group": group}) if group else ""
    return f'name: hello\n{line}command: |\n  echo "Hello from $HOLDFAST_JOB_NAME"\n'


def choose_group(visit: Visit, wanted: str = "") -> tuple[str, bool]:
    """Return the group of a new job, and whether its file must name the group."""
    mine = sorted(visit.current_actor.groups)
    if wanted:
        return wanted, True
    if "default" in mine or not mine:
        return "default", False
    return mine[0], len(mine) > 1


async def build_draft_from_job(visit: Visit, ref: str, *, rename: bool) -> JobDraft:
    """Build a draft from a job, secrets masked. NotFound if the visitor cannot see the job."""
    record = await visit.services.jobs.load_detail(visit.current_actor, ref)
    text = await _find_original_text(visit, record.job, record.source) or await visit.services.jobs.export_yaml(
        visit.current_actor, ref
    )
    if rename and record.job.dialect.is_openpai:  # OpenPAI job names are unique per user
        text = _NAME_LINE_PATTERN.sub(
            lambda _: dump_yaml({"name": generate_clone_name(record.job.name)}).rstrip("\n"), text, count=1
        )
    summary, secrets = record.summary, bool(record.job.secrets)
    rerunnable = can_rerun(visit.current_actor, summary.group, summary.user, secrets=secrets)
    return JobDraft(text=text, job=record.job, ref=summary.id, can_rerun=rerunnable)


async def _find_original_text(visit: Visit, job: Job, source: str) -> str:
    """Return the submitted text, with comments, if it still gives the same job for this visitor; else empty."""
    if job.dialect.emulates_platform or job.secrets or not source:
        return ""
    try:
        again = (await visit.services.jobs.plan(visit.current_actor, source)).job
    except UserError:  # it refers to something deleted
        return ""
    same = (again.dialect, again.group, again.name) == (job.dialect, job.group, job.name)
    return source if same else ""


def generate_clone_name(name: str) -> str:
    """Generate a name like OpenPAI's portal for clones: replace the random suffix."""
    bare = _CLONE_SUFFIX_PATTERN.sub("", name)
    return f"{bare[: MAX_NAME_LENGTH - 9]}_{secrets.token_hex(4)}"


def list_missing_reference_notes(visit: Visit, job: Job, choices: JobChoices) -> list[str]:
    """Return notes on references of the job that no longer exist."""
    if not choices.group:
        return []
    types = {choice.name for choice in choices.types}
    gone = sorted({role.instance_type for role in job.roles if role.instance_type and role.instance_type not in types})
    notes = [_describe_missing_type(visit, name, job) for name in gone]
    images = {name for choice in choices.images for name in list_name_variants(choice.name)}
    missing = sorted({role.image for role in job.roles if not list_name_variants(role.image) & images})
    return notes + [visit.translate_text("The image {name} no longer exists.", name=name) for name in missing]


def _describe_missing_type(visit: Visit, name: str, job: Job) -> str:
    if job.dialect is JobFormat.HOLDFAST:
        return visit.translate_text(
            "The instance type {name} was deleted. The file now requests the same CPU, memory and GPUs.", name=name
        )
    return visit.translate_text("The instance type {name} was deleted.", name=name)


def list_secret_names(job: Job) -> list[str]:
    """Return the secrets that must be entered again."""
    return list(_list_leaf_paths(job.secrets, ""))


def _list_leaf_paths(value: Any, path: str) -> list[str]:
    if isinstance(value, dict):
        return [
            leaf
            for key, inner in value.items()
            for leaf in _list_leaf_paths(inner, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list | tuple):
        return [leaf for number, inner in enumerate(value) for leaf in _list_leaf_paths(inner, f"{path}[{number}]")]
    return [path]


def list_examples(visit: Visit) -> list[ExampleJob]:
    return [
        ExampleJob(
            title=visit.translate_text("Hello"),
            about=visit.translate_text("The smallest job: a name and a command."),
            text=read_example("hello"),
        ),
        ExampleJob(
            title=visit.translate_text("Two roles"),
            about=visit.translate_text("A server and two workers; the job ends when the workers end."),
            text=read_example("roles"),
        ),
        ExampleJob(
            title=visit.translate_text("GPU"),
            about=visit.translate_text("One GPU and a time limit."),
            text=read_example("gpu"),
        ),
        ExampleJob(
            title=visit.translate_text("Retries and artifacts"),
            about=visit.translate_text("The job is retried after a failure. Files in artifacts are kept with it."),
            text=read_example("retry"),
        ),
    ]
