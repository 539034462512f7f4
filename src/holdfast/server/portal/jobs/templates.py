"""The text a new job begins with: one that exists, an example, or a first line to go on from."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import may_run_again
from holdfast.core.errors import UserError
from holdfast.core.job import Dialect, Job
from holdfast.jobspec.render import dump_yaml
from holdfast.services.why.feasibility import image_names

from ..visit import Visit
from .choices import Choices

MAX_NAME_LENGTH = 255
_SUFFIX = re.compile(r"_[0-9a-f]{8}\Z")
_NAME_LINE = re.compile(r"^name: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    title: str
    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    text: str
    job: Job | None = None  # that it is made of
    ref: str = ""
    may_rerun: bool = False  # as it was, with the secrets it had


def first_text(group: str) -> str:
    line = dump_yaml({"group": group}) if group else ""
    return f'name: hello\n{line}command: |\n  echo "Hello from $HOLDFAST_JOB_NAME"\n'


def usual_group(visit: Visit, wanted: str = "") -> tuple[str, bool]:
    """The group a new job is for, and whether its file has to say so."""
    mine = sorted(visit.who.groups)
    if wanted:
        return wanted, True
    if "default" in mine or not mine:
        return "default", False
    return mine[0], len(mine) > 1


async def start_from(visit: Visit, ref: str, *, rename: bool) -> Start:
    """A job as a file to change, secrets masked. NotFound for one that is not for this visitor's eyes."""
    record = await visit.services.jobs.record(visit.who, ref)
    text = await _as_written(visit, record.job, record.source) or await visit.services.jobs.yaml(visit.who, ref)
    if rename and record.job.dialect.openpai:  # whose users have a name once only
        text = _NAME_LINE.sub(lambda _: dump_yaml({"name": fresh_name(record.job.name)}).rstrip("\n"), text, count=1)
    summary, secrets = record.summary, bool(record.job.secrets)
    may_rerun = may_run_again(visit.who, summary.group, summary.user, secrets=secrets)
    return Start(text=text, job=record.job, ref=summary.id, may_rerun=may_rerun)


async def _as_written(visit: Visit, job: Job, source: str) -> str:
    """The text that was submitted, with its comments, where it still means the same to this visitor; else empty."""
    if job.dialect is not Dialect.HOLDFAST or job.secrets or not source:
        return ""
    try:
        again = (await visit.services.jobs.plan(visit.who, source)).job
    except UserError:  # it names something that is gone
        return ""
    same = (again.dialect, again.group, again.name) == (job.dialect, job.group, job.name)
    return source if same else ""


def fresh_name(name: str) -> str:
    """As OpenPAI's portal names a clone: an older mark goes, a new one comes."""
    bare = _SUFFIX.sub("", name)
    return f"{bare[: MAX_NAME_LENGTH - 9]}_{secrets.token_hex(4)}"


def notes_on(visit: Visit, job: Job, choices: Choices) -> list[str]:
    """What the job named that is no longer there."""
    if not choices.group:
        return []
    types = {choice.name for choice in choices.types}
    gone = sorted({role.instance_type for role in job.roles if role.instance_type and role.instance_type not in types})
    notes = [_gone_type(visit, name, job) for name in gone]
    images = {name for choice in choices.images for name in image_names(choice.name)}
    missing = sorted({role.image for role in job.roles if not image_names(role.image) & images})
    return notes + [visit.say("The image {name} is not here any more.", name=name) for name in missing]


def _gone_type(visit: Visit, name: str, job: Job) -> str:
    if job.dialect is Dialect.HOLDFAST:
        return visit.say(
            "The instance type {name} was deleted: the file now asks for the CPU, memory and GPUs it had.", name=name
        )
    return visit.say("The instance type {name} was deleted.", name=name)


def secret_names(job: Job) -> list[str]:
    """Every secret that has to be filled in again."""
    return list(_leaves(job.secrets, ""))


def _leaves(value: Any, path: str) -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple):
        return [leaf for number, inner in enumerate(value) for leaf in _leaves(inner, f"{path}[{number}]")]
    return [path]


def examples(visit: Visit) -> list[Example]:
    return [
        Example(
            title=visit.say("Hello"),
            about=visit.say("The smallest job: a name and a command."),
            text='name: hello\ncommand: |\n  echo "Hello from $HOLDFAST_JOB_NAME"\n  sleep 5\n  echo done\n',
        ),
        Example(
            title=visit.say("Two roles"),
            about=visit.say("A server, and two workers that end the job."),
            text=_ROLES,
        ),
        Example(title=visit.say("GPU"), about=visit.say("One GPU, and a time limit."), text=_GPU),
        Example(
            title=visit.say("Tried again, results kept"),
            about=visit.say("Retried after a failure; what is left in artifacts stays with the job."),
            text=_RETRY,
        ),
    ]


_ROLES = """name: server-and-workers
resources: {cpu: 0.2, memory: 128Mi}
roles:
  server:
    ports: [rpc]
    command: |
      echo "serving on port $HOLDFAST_PORT_RPC"
      sleep 600
  worker:
    instances: 2
    completion: {min_succeeded: 2}   # the job is done when both workers are
    command: |
      echo "worker $HOLDFAST_TASK_INDEX of $HOLDFAST_TASK_COUNT"
      sleep 5
time_limit: 10m
"""
_GPU = """name: gpu-check
command: nvidia-smi
resources: {cpu: 1, memory: 2Gi, gpu: 1}
time_limit: 10m
"""
_RETRY = """name: try-again
retry: 2   # twice more after a failure
command: |
  mkdir -p ~/artifacts
  date > ~/artifacts/when.txt
  echo "try $HOLDFAST_JOB_ATTEMPT"
time_limit: 10m
"""
