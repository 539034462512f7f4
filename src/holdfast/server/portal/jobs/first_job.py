"""An example job for users without jobs: it shows what a job is, and that everything works."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.job import DEFAULT_GROUP

FIRST_JOB_TEXT = """\
name: hello
command: |
  echo "Hello from $(hostname)"
  for step in 1 2 3 4 5; do
    echo "step $step of 5"
    sleep 1
  done
  echo "Done. All that a job prints is in its log."
resources: {cpu: 0.5, memory: 128Mi}
time_limit: 1m
"""


@dataclass(frozen=True, slots=True)
class FirstJob:
    text: str
    groups: tuple[str, ...]  # groups it can run in, default group first; empty: none


def build_first_job(actor: Actor) -> FirstJob:
    groups = sorted(actor.groups, key=lambda name: (name != DEFAULT_GROUP, name))
    return FirstJob(FIRST_JOB_TEXT, tuple(groups or ([DEFAULT_GROUP] if actor.admin else [])))
