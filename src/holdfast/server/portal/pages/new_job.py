"""The page for a new job: a form and the job file. The file is submitted; scripts keep the form in sync."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import NotLoggedIn, UserError
from holdfast.core.records import Group
from holdfast.services.jobs.service import SubmitResult

from ...errors import STATUS_CODES
from ..form_values import format_duration_input
from ..forms import Form
from ..jobs.check import FileCheck, build_refused_check, check_job_file, check_job_file_size
from ..jobs.choices import JobChoices, list_submit_groups, load_job_choices
from ..jobs.templates import (
    ExampleJob,
    JobDraft,
    build_draft_from_job,
    build_initial_job_text,
    choose_group,
    list_examples,
    list_missing_reference_notes,
    list_secret_names,
)
from ..routes import build_form_route, build_page_route
from ..visit import Visit

NEW_JOB_PATH = "/jobs/new"
MAX_KEY_LENGTH = 64  # of the random key of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJobPage:
    title: str
    text: str
    key: str  # with the text, detects a form that is sent twice
    group: str  # overrides the group of the file; empty: use the file
    groups: tuple[Group, ...]
    choices: JobChoices
    choices_json: str
    examples: tuple[ExampleJob, ...]
    checked: FileCheck | None = None  # of an invalid file
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # to enter again
    source: str = ""  # id of the copied job
    rerun: str = ""  # id of the job that can be rerun unchanged
    fresh: bool = False  # the text is a default: a draft in the browser can replace it
    most_bytes: int = 0
    hold_for: str = ""  # default hold time of a failed task
    hold_longest: str = ""


async def show_new_job(visit: Visit) -> Response:
    query = visit.query
    ref = query.get("clone") or query.get("rerun")
    groups = await list_submit_groups(visit)
    if not ref:
        return await _show_empty_form(visit, groups, query.get("group", ""))
    start = await build_draft_from_job(visit, ref, rename="clone" in query)
    assert start.job is not None
    choices = await load_job_choices(visit, start.job.group, groups)
    title = visit.translate_text("Clone of {name}") if "clone" in query else visit.translate_text("Rerun {name}")
    found = _build_page(
        visit,
        start,
        groups,
        choices,
        title=title.format(name=start.job.name),
        notes=tuple(list_missing_reference_notes(visit, start.job, choices)),
        secrets=tuple(list_secret_names(start.job)),
        rerun=start.ref if start.can_rerun and "clone" not in query else "",
    )
    return await visit.render_response("jobs/new.html", found)


async def _show_empty_form(visit: Visit, groups: list[Group], wanted: str) -> Response:
    known = {group.name for group in groups}
    group, named = choose_group(visit, wanted if wanted in known else "")
    choices = await load_job_choices(visit, group, groups)
    start = JobDraft(text=build_initial_job_text(group if named else ""))
    return await visit.render_response("jobs/new.html", _build_page(visit, start, groups, choices, fresh=True))


def _build_page(visit: Visit, start: JobDraft, groups: list[Group], choices: JobChoices, **more: object) -> NewJobPage:
    values: dict[str, object] = {
        "title": visit.translate_text("New job"),
        "key": secrets.token_urlsafe(16),
        "group": "",
        **more,
    }
    hold = visit.services.settings.hold
    return NewJobPage(
        text=start.text,
        source=start.ref,
        groups=tuple(groups),
        choices=choices,
        choices_json=json.dumps(choices.to_json()),
        examples=tuple(list_examples(visit)),
        most_bytes=visit.services.settings.server.max_job_bytes,
        hold_for=format_duration_input(timedelta(seconds=hold.duration)),
        hold_longest=format_duration_input(timedelta(seconds=hold.longest)),
        **values,  # type: ignore[arg-type]
    )


# -- while typing


async def check_job(visit: Visit, form: Form) -> Response:
    """For scripts: return the problems of the file, or when it would run."""
    found = await check_job_file(visit, form.get_raw_text("text"), form.get_text("group"))
    return JSONResponse(found.to_json())


async def show_choices(visit: Visit) -> Response:
    """For scripts, when another group is chosen: return its choices and its panel."""
    choices = await load_job_choices(visit, visit.query.get("group", ""), await list_submit_groups(visit))
    return JSONResponse({**choices.to_json(), "panel": visit.render("jobs/_group_panel.html", choices)})


# -- submitting


async def submit_job(visit: Visit, form: Form) -> Response:
    text, group, key = form.get_raw_text("text"), form.get_text("group"), form.get_text("key")[:MAX_KEY_LENGTH]
    try:
        check_job_file_size(visit, text)
        made = await visit.services.jobs.submit(
            visit.current_actor, text, group=group or None, key=_build_idempotency_key(key, text, group)
        )
    except NotLoggedIn:
        raise
    except UserError as error:
        return await _show_refused_form(visit, form, error)
    return visit.redirect(f"/jobs/{quote(made.summary.id)}", _format_submit_message(visit, made))


def _build_idempotency_key(key: str, text: str, group: str) -> str | None:
    """Build the idempotency key: the same page with the same text is the same job."""
    if not key:
        return None
    mark = hashlib.sha256("\0".join((key, group, text)).encode("utf-8", "replace")).hexdigest()
    return f"portal:{mark}"


def _format_submit_message(visit: Visit, made: SubmitResult) -> str:
    if not made.created:
        return visit.translate_text("This page already submitted this job file. This is the job.")
    return visit.translate_text("{name} is submitted.", name=made.summary.name)  # the job's page shows its warnings


async def _show_refused_form(visit: Visit, form: Form, error: UserError) -> Response:
    groups = await list_submit_groups(visit)
    group = form.get_text("group")
    choices = await load_job_choices(visit, group or choose_group(visit)[0], groups)
    found = _build_page(
        visit,
        JobDraft(text=form.get_raw_text("text"), ref=form.get_text("source")),
        groups,
        choices,
        key=form.get_text("key")[:MAX_KEY_LENGTH],
        group=group,
        checked=await build_refused_check(visit, error, form.get_raw_text("text")),
    )
    return await visit.render_response("jobs/new.html", found, STATUS_CODES.get(error.code, 400))


routes = [
    build_page_route(NEW_JOB_PATH, show_new_job),
    build_form_route(NEW_JOB_PATH, submit_job),
    build_form_route(f"{NEW_JOB_PATH}/check", check_job),
    build_page_route(f"{NEW_JOB_PATH}/choices", show_choices),
]
