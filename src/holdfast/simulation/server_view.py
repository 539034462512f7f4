"""A server's view of a job: group, quota, instance types, images, datasets. Requested if a server is reachable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import Problem
from holdfast.core.job import Job, Role
from holdfast.jobspec import job_from_json

from .report import Remarks, RemarkTopic

_REQUEST_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    url: str = ""  # empty: no server was reachable
    why: str = ""  # why not
    user: str = ""
    job: Job | None = None  # as the server would run it, without its secrets
    verdict: str = ""  # now, wait or never
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()  # (problem, hint)


def fetch_server_view(text: bytes, *, group: str | None = None, dialect: str | None = None) -> ServerView:
    from holdfast.core.errors import HoldfastError
    from holdfast.sdk import ApiError, Client

    try:
        with Client(timeout=_REQUEST_TIMEOUT) as client:
            me, url = client.get_current_user(), client.address.url
            try:
                found = client.plan_job(text, group=group, dialect=dialect)
            except ApiError as error:
                if error.status >= 500 or error.status == 401:
                    raise
                return ServerView(
                    url=url, user=me.name, refusals=_list_refusals(error.problems, error.message, error.hint)
                )
    except HoldfastError as error:
        return ServerView(why=str(error))
    return ServerView(
        url=url,
        user=me.name,
        job=_parse_job(found.job),
        verdict=found.verdict,
        reasons=found.reasons,
        warnings=found.warnings,
    )


def _list_refusals(problems: Sequence[Problem], message: str, hint: str | None) -> tuple[tuple[str, str], ...]:
    if not problems:
        return ((message, hint or ""),)
    return tuple(
        (f"{each.field}: {each.message}" if each.field else each.message, each.hint or "") for each in problems
    )


def _parse_job(data: Mapping[str, Any]) -> Job | None:
    try:
        return job_from_json(data)
    except (KeyError, ValueError, TypeError):  # a server of another version
        return None


def apply_server_view(job: Job, view: ServerView) -> Job:
    """Return the job with the instance types, images and datasets of the server."""
    theirs = {role.name: role for role in view.job.roles} if view.job else {}
    roles = tuple(_apply_server_role(role, theirs[role.name]) if role.name in theirs else role for role in job.roles)
    return replace(job, roles=roles, group=view.job.group if view.job else job.group)


def _apply_server_role(role: Role, theirs: Role) -> Role:
    datasets = tuple(mount for mount in theirs.mounts if mount.dataset and mount not in role.mounts)
    return replace(role, image_url=theirs.image_url, resources=theirs.resources, mounts=(*role.mounts, *datasets))


def report_server_view(view: ServerView, remarks: Remarks) -> None:
    if not view.url:
        why = f" ({view.why})" if view.why else ""
        text = f"No server checked the group, quota, instance types, image aliases and datasets{why}"
        remarks.add_note(RemarkTopic.SERVER, text)
        return
    for text, hint in view.refusals:
        remarks.add_problem(RemarkTopic.SERVER, f"{view.url} would reject the job: {text}", hint)
    if view.verdict == "never":
        for reason in view.reasons:
            remarks.add_problem(RemarkTopic.SERVER, f"The job can never run on {view.url}: {reason}")
    elif view.verdict:
        soon = "The job would start now" if view.verdict == "now" else f"The job would wait: {'; '.join(view.reasons)}"
        remarks.add_note(
            RemarkTopic.SERVER, f"{view.url} checked the group, quota, instance types, images and datasets. {soon}"
        )
    for warning in view.warnings:
        remarks.add_warning(RemarkTopic.SERVER, warning)
