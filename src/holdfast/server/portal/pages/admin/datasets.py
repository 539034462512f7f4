"""Datasets: folders, checkouts and variables with a name, and which groups' jobs are given them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.services.datasets.git_sync import GitState
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME
from holdfast.services.datasets.service import DatasetChange

from ...fields import FORM, ConfirmPage, Field, FormPage, Link, mark_of, try_confirm, try_form
from ...forms import Form
from ...kind_names import dataset_kinds
from ...listing import Listed, listed
from ...routes import act, page
from ...visit import Visit
from .addresses import edit_path, edit_routes
from .dataset_forms import KINDS, read_dataset, read_variables_of, read_writers, sections_of, values_of

HOME = "/admin/datasets"
_FIRST = {FOLDER: "path", NFS: "data.server", VOLUME: "data.size", GIT: "data.url", ENV: "variables"}  # what data means


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRow:
    dataset: Dataset
    kind: str
    git: GitState | None
    sync: str  # address


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetListPage:
    datasets: Listed[DatasetRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindsPage:
    kinds: tuple[tuple[str, str, str], ...]  # address, what it is called, what it is


async def show_datasets(visit: Visit) -> Response:
    labels = dataset_kinds(visit)
    found = listed(
        visit,
        await visit.services.datasets.list(visit.who),
        lambda each: f"{each.name} {each.display_name} {each.description} {each.kind} {each.path}",
    )
    rows = [
        DatasetRow(
            dataset=each,
            kind=labels[each.kind][0],
            git=await visit.services.datasets.git_state(each),
            sync=edit_path(HOME, each.name, "sync"),
        )
        for each in found.items
    ]
    shown = Listed(items=tuple(rows), text=found.text, total=found.total, previous=found.previous, next=found.next)
    return await visit.show("admin/datasets.html", DatasetListPage(datasets=shown))


def _back(visit: Visit) -> Link:
    return Link(HOME, visit.say("Datasets"))


# -- a new one


async def show_new(visit: Visit) -> Response:
    if "kind" in visit.request.query_params:
        return await visit.show(FORM, await _new_form(visit, _kind(visit)))
    labels = dataset_kinds(visit)
    found = KindsPage(kinds=tuple((_new_path(kind), *labels[kind]) for kind in KINDS))
    return await visit.show("admin/dataset_kinds.html", found)


def _new_path(kind: str) -> str:
    return f"{HOME}/new?kind={kind}"


def _kind(visit: Visit) -> str:
    kind = visit.request.query_params.get("kind", "")
    if kind not in KINDS:
        raise NotFound(msg("There is nothing at this address"))
    return kind


async def add(visit: Visit, form: Form) -> Response:
    kind = _kind(visit)

    async def work() -> Response:
        grants = read_writers(form, kind)
        writable = tuple(group for group, writes in grants.items() if writes)
        given = {"path": "", **read_dataset(form, kind)}
        made = Dataset(name=form.text("name"), kind=kind, groups=tuple(grants), writable_groups=writable, **given)
        variables = read_variables_of(form, kind)
        await visit.services.datasets.create(visit.who, made, variables=variables, adopt=form.is_on("adopt"))
        return visit.go(HOME, visit.say("Dataset {name} is added.", name=made.name))

    return await try_form(visit, await _new_form(visit, kind), form, work, also={"data": _FIRST[kind]})


async def _new_form(visit: Visit, kind: str) -> FormPage:
    label = dataset_kinds(visit)[kind][0]
    return FormPage(
        title=visit.say("Add a dataset: {kind}", kind=label),
        action=_new_path(kind),
        back=Link(f"{HOME}/new", visit.say("Kinds of datasets")),
        submit=visit.say("Add"),
        sections=await sections_of(visit, kind, new=True),
        values=values_of(Dataset(name="", path="", kind=kind), {}),
    )


# -- changing


async def show_one(visit: Visit) -> Response:
    return await visit.show(FORM, await _form_of(visit, await _named(visit)))


async def change(visit: Visit, form: Form) -> Response:
    dataset = await _named(visit)

    async def work() -> Response:
        given = _changed(read_dataset(form, dataset.kind), dataset)
        given["grants"] = read_writers(form, dataset.kind)
        variables = read_variables_of(form, dataset.kind)
        if variables is not None:
            given["variables"] = variables
        change = DatasetChange(**given)
        await visit.services.datasets.change(visit.who, dataset.name, change)
        return visit.go(HOME, visit.say("Dataset {name} is changed.", name=dataset.name))

    return await try_form(visit, await _form_of(visit, dataset), form, work, also={"data": _FIRST[dataset.kind]})


def _changed(given: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """A checkout is made anew for its address, and a path looked at, only when they are other ones."""
    same = {key for key in ("data", "path") if key in given and given[key] == getattr(dataset, key)}
    return {key: value for key, value in given.items() if key not in same}


async def _named(visit: Visit) -> Dataset:
    return await visit.services.datasets.get(visit.who, visit.request.path_params["name"])


async def _form_of(visit: Visit, dataset: Dataset) -> FormPage:
    datasets = visit.services.datasets
    variables = await datasets.variables(visit.who, dataset.name) if dataset.kind == ENV else {}
    values = values_of(dataset, variables)
    return FormPage(
        title=dataset.name,
        action=edit_path(HOME, dataset.name, "edit"),
        back=_back(visit),
        submit=visit.say("Save"),
        about=visit.say("Jobs that were submitted before keep what they were given."),
        sections=await sections_of(visit, dataset.kind, new=False),
        values=values,
        seen=mark_of(values),
        links=(Link(edit_path(HOME, dataset.name, "delete"), visit.say("Remove"), "danger"),),
    )


async def sync(visit: Visit, form: Form) -> Response:
    dataset = await _named(visit)
    state = await visit.services.datasets.sync(visit.who, dataset.name)
    if state.error and not state.busy:
        said = visit.say(
            "{name} could not be brought up to date: {why}", name=dataset.name, why=visit.tell(state.error)
        )
    elif state.busy:
        said = visit.say("{name} is being brought up to date.", name=dataset.name)
    else:
        said = visit.say("{name} is up to date.", name=dataset.name)
    return visit.go(HOME, said)


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", _removal(visit, await _named(visit)))


async def remove(visit: Visit, form: Form) -> Response:
    dataset = await _named(visit)

    async def work() -> Response:
        purge = dataset.kind == VOLUME and form.is_on("purge")
        await visit.services.datasets.delete(visit.who, dataset.name, purge=purge)
        return visit.go(HOME, visit.say("Dataset {name} is removed.", name=dataset.name))

    return await try_confirm(visit, _removal(visit, dataset), work)


def _removal(visit: Visit, dataset: Dataset) -> ConfirmPage:
    say = visit.say
    what = {
        GIT: say("Its checkout is removed."),
        ENV: say("Its variables are removed."),
        VOLUME: say("Its data stays at {path}, unless you remove that, too.", path=dataset.path),
    }
    purge = Field(name="purge", label=say("Remove its data, too. It cannot be brought back."), kind="check")
    return ConfirmPage(
        title=say("Remove the dataset {name}?", name=dataset.name),
        points=(
            what.get(dataset.kind) or say("The folder {path} stays as it is.", path=dataset.path),
            say("Jobs that were submitted before keep what they were given; new ones cannot name it."),
        ),
        action=edit_path(HOME, dataset.name, "delete"),
        submit=say("Remove"),
        back=Link(edit_path(HOME, dataset.name, "edit"), dataset.name),
        fields=(purge,) if dataset.kind == VOLUME else (),
    )


routes = [
    page(HOME, show_datasets, admin=True),
    act(HOME + "/{name}/sync", sync, admin=True),
    *edit_routes(HOME, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove)),
]
