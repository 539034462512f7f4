"""What only a server knows of a job: group, quota, sizes, images, datasets. Asked where one can be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import Problem
from holdfast.core.job import Job, Role
from holdfast.jobspec import job_from_json

from .report import About, Remarks

_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    url: str = ""  # empty: none could be asked
    why: str = ""  # why not
    user: str = ""
    job: Job | None = None  # as it would run it, without its secrets
    verdict: str = ""  # now, wait or never
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()  # what it has against the job, and what to do


def ask_server(text: bytes, *, group: str | None = None, dialect: str | None = None) -> ServerView:
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import ApiError, Client

    try:
        with Client(timeout=_TIMEOUT) as client:
            me, url = client.me(), client.address.url
            try:
                found = client.plan(text, group=group, dialect=dialect)
            except ApiError as error:
                if error.status >= 500 or error.status == 401:
                    raise
                return ServerView(url=url, user=me.name, refusals=_refusals(error.problems, error.message, error.hint))
    except HoldfastError as error:
        return ServerView(why=str(error))
    return ServerView(
        url=url,
        user=me.name,
        job=_job(found.job),
        verdict=found.verdict,
        reasons=found.reasons,
        warnings=found.warnings,
    )


def _refusals(problems: Sequence[Problem], message: str, hint: str | None) -> tuple[tuple[str, str], ...]:
    if not problems:
        return ((message, hint or ""),)
    return tuple(
        (f"{each.field}: {each.message}" if each.field else each.message, each.hint or "") for each in problems
    )


def _job(data: Mapping[str, Any]) -> Job | None:
    try:
        return job_from_json(data)
    except (KeyError, ValueError, TypeError):  # a server of another version
        return None


def as_server_has_it(job: Job, view: ServerView) -> Job:
    """The job with what only the server knows filled in: what its sizes, images and datasets stand for."""
    theirs = {role.name: role for role in view.job.roles} if view.job else {}
    roles = tuple(_filled(role, theirs[role.name]) if role.name in theirs else role for role in job.roles)
    return replace(job, roles=roles, group=view.job.group if view.job else job.group)


def _filled(role: Role, theirs: Role) -> Role:
    datasets = tuple(mount for mount in theirs.mounts if mount.dataset and mount not in role.mounts)
    return replace(role, image_url=theirs.image_url, resources=theirs.resources, mounts=(*role.mounts, *datasets))


def tell(view: ServerView, remarks: Remarks) -> None:
    if not view.url:
        why = f" ({view.why})" if view.why else ""
        text = f"Group, quota, sizes, image aliases and datasets were not checked: no server was asked{why}"
        remarks.note(About.SERVER, text)
        return
    for text, hint in view.refusals:
        remarks.problem(About.SERVER, f"{view.url} would refuse it: {text}", hint)
    if view.verdict == "never":
        for reason in view.reasons:
            remarks.problem(About.SERVER, f"It could never run at {view.url}: {reason}")
    elif view.verdict:
        soon = "It would start now" if view.verdict == "now" else f"It would wait: {'; '.join(view.reasons)}"
        remarks.note(About.SERVER, f"Checked at {view.url}: group, quota, sizes, images and datasets. {soon}")
    for warning in view.warnings:
        remarks.warn(About.SERVER, warning)
