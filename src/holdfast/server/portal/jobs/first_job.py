"""The first job of somebody who has none yet: it shows what a job is, and that all works."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.job import DEFAULT_GROUP

TEXT = """\
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
    groups: tuple[str, ...]  # it can run in, the usual one first; none: there is nowhere to run it


def first_job(actor: Actor) -> FirstJob:
    groups = sorted(actor.groups, key=lambda name: (name != DEFAULT_GROUP, name))
    return FirstJob(TEXT, tuple(groups or ([DEFAULT_GROUP] if actor.admin else [])))
