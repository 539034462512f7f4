"""A Launch of an OpenPAI job with what its commands expect to find."""

from __future__ import annotations

import json
from dataclasses import replace

from holdfast.core.attempt import TaskAttempt
from holdfast.core.job import Job
from holdfast.engines.base import Launch
from holdfast.jobspec import MASK
from holdfast.jobspec.templates import has_secrets

from ..context import LaunchContext, wants_neighbours
from ..intra_job_ssh import asks_for_ssh
from .entry import SYSTEM_PLACE, Entry, render_entry
from .filling import openpai_config
from .fitting import SharedLaunchData, fit_variables
from .plugins import plugin_steps
from .variables import Scene

MAX_CONFIG_LENGTH = 1024 * 1024  # characters; a job's file is for its tasks to look at, not to carry data


def add_openpai_runtime(
    launch: Launch, task: TaskAttempt, company: SharedLaunchData, surroundings: LaunchContext
) -> Launch:
    scene = Scene(company.crowd, task)
    fitted = fit_variables(scene, company, launch.env)
    config = render_config(scene.snapshot.job)
    notes = list(fitted.left_out)
    if len(config) > MAX_CONFIG_LENGTH:
        notes.append("The job's file is too long to be laid down in job_config.yaml.")
        config = ""
    entry = Entry(
        system=surroundings.isolated and not any(_touches(mount.target) for mount in launch.mounts),
        own_home=surroundings.isolated and "HOME" not in launch.env,
        container=scene.container,
        exports=fitted.exports,
        config=config,
        script=launch.script,
        shell_options=launch.shell_options,
        steps=plugin_steps(scene, surroundings),
        notes=tuple(notes),
        neighbours=_neighbours(launch.script, scene, company, surroundings),
    )
    return replace(launch, env=fitted.env, entry=render_entry(entry))


def _neighbours(script: str, scene: Scene, company: SharedLaunchData, surroundings: LaunchContext) -> str:
    if not wants_neighbours(scene.snapshot.job, scene.task.role):
        return ""
    return company.neighbours(surroundings, tell=asks_for_ssh(script))


def _touches(target: str) -> bool:
    """What is mounted there is not the task's alone."""
    mounted, ours = f"{target.rstrip('/')}/", f"{SYSTEM_PLACE}/"
    return mounted.startswith(ours) or ours.startswith(mounted)


def render_config(job: Job) -> str:
    """The job's file without its secrets, written as JSON: YAML readers take that too, and it is quickly made."""
    config = dict(openpai_config(job))
    if has_secrets(job.secrets):
        config["secrets"] = MASK
    return json.dumps(config, ensure_ascii=False, indent=2) + "\n"
