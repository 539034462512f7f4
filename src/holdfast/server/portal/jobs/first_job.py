"""An example job for users without jobs: it shows what a job is, and that everything works."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.job import DEFAULT_GROUP

from .examples import read_example

FIRST_JOB_TEXT = read_example("first_job")


@dataclass(frozen=True, slots=True)
class FirstJob:
    text: str
    groups: tuple[str, ...]  # groups it can run in, default group first; empty: none


def build_first_job(actor: Actor) -> FirstJob:
    groups = sorted(actor.groups, key=lambda name: (name != DEFAULT_GROUP, name))
    return FirstJob(FIRST_JOB_TEXT, tuple(groups or ([DEFAULT_GROUP] if actor.admin else [])))
