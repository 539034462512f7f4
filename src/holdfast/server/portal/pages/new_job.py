"""A new job: a form and its file, side by side. The text is what counts; scripts keep the form in step with it."""

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
from holdfast.services.jobs.service import Submitted

from ...errors import STATUS
from ..amounts import duration_text
from ..forms import Form
from ..jobs.check import Checked, check, need_size, refused
from ..jobs.choices import Choices, choices_of, groups_to_choose
from ..jobs.templates import Example, Start, examples, first_text, notes_on, secret_names, start_from, usual_group
from ..routes import act, page
from ..visit import Visit

PATH = "/jobs/new"
MAX_KEY_LENGTH = 64  # of what makes one page differ from another


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJobPage:
    title: str
    text: str
    key: str  # with the text, tells a form sent twice from two jobs
    group: str  # submit to this one, whatever the file says; empty: as it says
    groups: tuple[Group, ...]
    choices: Choices
    choices_json: str
    examples: tuple[Example, ...]
    checked: Checked | None = None  # of a file that was refused
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # to be filled in again
    source: str = ""  # id of the job it is made of
    rerun: str = ""  # id of the job that can be run again as it was
    fresh: bool = False  # nobody gave this text: a draft that the browser kept may take its place
    most_bytes: int = 0
    hold_for: str = ""  # how long a failed task is kept where its job does not say
    hold_longest: str = ""


async def show_new_job(visit: Visit) -> Response:
    query = visit.request.query_params
    ref = query.get("clone") or query.get("rerun")
    groups = await groups_to_choose(visit)
    if not ref:
        return await _show_fresh(visit, groups, query.get("group", ""))
    start = await start_from(visit, ref, rename="clone" in query)
    assert start.job is not None
    choices = await choices_of(visit, start.job.group, groups)
    title = visit.say("Clone of {name}") if "clone" in query else visit.say("Rerun {name}")
    found = _page(
        visit,
        start,
        groups,
        choices,
        title=title.format(name=start.job.name),
        notes=tuple(notes_on(visit, start.job, choices)),
        secrets=tuple(secret_names(start.job)),
        rerun=start.ref if start.may_rerun and "clone" not in query else "",
    )
    return await visit.show("jobs/new.html", found)


async def _show_fresh(visit: Visit, groups: list[Group], wanted: str) -> Response:
    known = {group.name for group in groups}
    group, named = usual_group(visit, wanted if wanted in known else "")
    choices = await choices_of(visit, group, groups)
    start = Start(text=first_text(group if named else ""))
    return await visit.show("jobs/new.html", _page(visit, start, groups, choices, fresh=True))


def _page(visit: Visit, start: Start, groups: list[Group], choices: Choices, **more: object) -> NewJobPage:
    values: dict[str, object] = {
        "title": visit.say("New job"),
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
        choices_json=json.dumps(choices.for_scripts()),
        examples=tuple(examples(visit)),
        most_bytes=visit.services.settings.server.max_job_bytes,
        hold_for=duration_text(timedelta(seconds=hold.duration)),
        hold_longest=duration_text(timedelta(seconds=hold.longest)),
        **values,  # type: ignore[arg-type]
    )


# -- while somebody types


async def check_job(visit: Visit, form: Form) -> Response:
    """For scripts: what is wrong with the text, or what would happen to it."""
    found = await check(visit, form.raw("text"), form.text("group"))
    return JSONResponse(found.for_scripts())


async def show_choices(visit: Visit) -> Response:
    """For scripts, when another group is chosen: what its jobs can name, and its panel."""
    choices = await choices_of(visit, visit.request.query_params.get("group", ""), await groups_to_choose(visit))
    return JSONResponse({**choices.for_scripts(), "panel": visit.render("jobs/_group_panel.html", choices)})


# -- submitting


async def submit_job(visit: Visit, form: Form) -> Response:
    text, group, key = form.raw("text"), form.text("group"), form.text("key")[:MAX_KEY_LENGTH]
    try:
        need_size(visit, text)
        made = await visit.services.jobs.submit(visit.who, text, group=group or None, key=_key(key, text, group))
    except NotLoggedIn:
        raise
    except UserError as error:
        return await _show_refused(visit, form, error)
    return visit.go(f"/jobs/{quote(made.summary.id)}", _said(visit, made))


def _key(key: str, text: str, group: str) -> str | None:
    """The same page with the same text is the same job; going back and changing it makes another."""
    if not key:
        return None
    mark = hashlib.sha256("\0".join((key, group, text)).encode("utf-8", "replace")).hexdigest()
    return f"portal:{mark}"


def _said(visit: Visit, made: Submitted) -> str:
    if not made.created:
        return visit.say("This page had submitted that text before: this is its job.")
    return visit.say("{name} is submitted.", name=made.summary.name)  # the job's page tells its warnings


async def _show_refused(visit: Visit, form: Form, error: UserError) -> Response:
    groups = await groups_to_choose(visit)
    group = form.text("group")
    choices = await choices_of(visit, group or usual_group(visit)[0], groups)
    found = _page(
        visit,
        Start(text=form.raw("text"), ref=form.text("source")),
        groups,
        choices,
        key=form.text("key")[:MAX_KEY_LENGTH],
        group=group,
        checked=await refused(visit, error, form.raw("text")),
    )
    return await visit.show("jobs/new.html", found, STATUS.get(error.code, 400))


routes = [
    page(PATH, show_new_job),
    act(PATH, submit_job),
    act(f"{PATH}/check", check_job),
    page(f"{PATH}/choices", show_choices),
]
