"""Admin pages of datasets: named folders, checkouts and variables, and their groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.services.datasets.git_sync import GitState
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME
from holdfast.services.datasets.service import DatasetChange, Datasets

from ...fields import ConfirmPage, Field, FormPage, Link, Section
from ...forms import Form
from ...kind_names import get_dataset_kind_names
from ...listing import ListPage, filter_and_paginate
from ...routes import build_form_route, build_page_route
from ...translations import N_
from ...visit import Visit
from .dataset_forms import (
    DATASET_KINDS,
    build_dataset_sections,
    dataset_to_values,
    read_dataset_arguments,
    read_dataset_variables,
    read_write_grants,
)
from .record_forms import RecordForms, RecordTexts, build_record_path, build_record_routes

DATASETS_PATH = "/admin/datasets"
_MAIN_FIELDS = {FOLDER: "path", NFS: "data.server", VOLUME: "data.size", GIT: "data.url", ENV: "variables"}  # of `data`


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRow:
    dataset: Dataset
    kind: str
    git: GitState | None
    sync: str  # address


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetKindsPage:
    kinds: tuple[tuple[str, str, str], ...]  # address, name, description


async def show_datasets(visit: Visit) -> Response:
    labels = get_dataset_kind_names(visit)
    found = filter_and_paginate(
        visit,
        await visit.services.datasets.list(visit.current_actor),
        lambda each: f"{each.name} {each.display_name} {each.description} {each.kind} {each.path}",
    )
    rows = [
        DatasetRow(
            dataset=each,
            kind=labels[each.kind][0],
            git=await visit.services.datasets.get_git_state(each),
            sync=build_record_path(DATASETS_PATH, each.name, "sync"),
        )
        for each in found.items
    ]
    shown = ListPage(items=tuple(rows), text=found.text, total=found.total, previous=found.previous, next=found.next)
    return await visit.render_response("admin/datasets.html", shown)


class DatasetForms(RecordForms[Dataset]):
    path = DATASETS_PATH
    texts = RecordTexts(
        list=N_("Datasets"),
        add=N_("Add a dataset: {kind}"),
        added=N_("Dataset {name} was added."),
        changed=N_("Dataset {name} was changed."),
        remove=N_("Delete the dataset {name}?"),
        removed=N_("Dataset {name} was deleted."),
        about_edit=N_("Jobs that are already submitted are not affected."),
    )

    @property
    def service(self) -> Datasets:
        return self.services.datasets

    @property
    def requested_kind(self) -> str:
        """The kind of a new dataset."""
        kind = self.visit.query.get("kind", "")
        if kind not in DATASET_KINDS:
            raise NotFound(msg("Not found: no resource has this URL"))
        return kind

    @property
    def new_path(self) -> str:
        return _build_new_path(self.requested_kind)

    def get_field_aliases(self, record: Dataset | None) -> Mapping[str, str]:
        return {"data": _MAIN_FIELDS[record.kind if record else self.requested_kind]}

    async def show_new_form(self) -> Response:
        if "kind" in self.visit.query:
            return await super().show_new_form()
        labels = get_dataset_kind_names(self.visit)
        page = DatasetKindsPage(kinds=tuple((_build_new_path(kind), *labels[kind]) for kind in DATASET_KINDS))
        return await self.visit.render_response("admin/dataset_kinds.html", page)

    async def build_form_page(self, record: Dataset | None) -> FormPage:
        _, page = self.visit.translate_text, await super().build_form_page(record)
        if record is not None:
            return page
        label = get_dataset_kind_names(self.visit)[self.requested_kind][0]
        return replace(page, title=_(self.texts.add, kind=label), back=Link(f"{DATASETS_PATH}/new", _("Dataset kinds")))

    async def build_sections(self, record: Dataset | None) -> tuple[Section, ...]:
        kind = record.kind if record else self.requested_kind
        return await build_dataset_sections(self.visit, kind, new=record is None)

    async def build_values(self, record: Dataset | None) -> dict[str, Any]:
        if record is None:
            return dataset_to_values(Dataset(name="", path="", kind=self.requested_kind), {})
        variables = await self.service.get_variables(self.actor, record.name) if record.kind == ENV else {}
        return dataset_to_values(record, variables)

    async def create_record(self, form: Form) -> Response:
        kind = self.requested_kind
        grants, fields = read_write_grants(form, kind), {"path": "", **read_dataset_arguments(form, kind)}
        writable = tuple(group for group, writes in grants.items() if writes)
        name = form.get_text("name")
        dataset = Dataset(name=name, kind=kind, groups=tuple(grants), writable_groups=writable, **fields)
        variables = read_dataset_variables(form, kind)
        await self.service.create(self.actor, dataset, variables=variables, adopt=form.is_checked("adopt"))
        return self.redirect_to_list(self.texts.added, name)

    async def update_record(self, record: Dataset, form: Form) -> None:
        fields = _drop_unchanged_fields(read_dataset_arguments(form, record.kind), record)
        fields["grants"] = read_write_grants(form, record.kind)
        variables = read_dataset_variables(form, record.kind)
        if variables is not None:
            fields["variables"] = variables
        await self.service.change(self.actor, record.name, DatasetChange(**fields))

    async def delete_record(self, record: Dataset, form: Form) -> None:
        purge = record.kind == VOLUME and form.is_checked("purge")
        await self.service.delete(self.actor, record.name, purge=purge)

    async def describe_removal(self, record: Dataset) -> list[str]:
        _ = self.visit.translate_text
        data_texts = {
            GIT: _("This deletes its checkout."),
            ENV: _("This deletes its variables."),
            VOLUME: _("Its data is kept at {path} unless you delete it as well.", path=record.path),
        }
        return [
            data_texts.get(record.kind) or _("The folder {path} is not changed.", path=record.path),
            _("Jobs that are already submitted are not affected. New jobs cannot use it."),
        ]

    async def build_removal_page(self, record: Dataset) -> ConfirmPage:
        page, _ = await super().build_removal_page(record), self.visit.translate_text
        purge = Field("purge", _("Also delete its data. This cannot be undone."), kind="check")
        return replace(page, fields=(purge,)) if record.kind == VOLUME else page


def _build_new_path(kind: str) -> str:
    return f"{DATASETS_PATH}/new?kind={kind}"


def _drop_unchanged_fields(fields: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Drop unchanged fields, so that a checkout or path check only runs if its URL or path changed."""
    unchanged = {key for key in ("data", "path") if key in fields and fields[key] == getattr(dataset, key)}
    return {key: value for key, value in fields.items() if key not in unchanged}


async def start_dataset_sync(visit: Visit, form: Form) -> Response:
    _, name = visit.translate_text, visit.path_params["name"]
    state = await visit.services.datasets.sync_dataset(visit.current_actor, name)
    if state.busy:
        message = _("{name} is syncing.", name=name)
    elif state.error:
        message = _("Syncing {name} failed: {why}", name=name, why=visit.translate_message(state.error))
    else:
        message = _("{name} is up to date.", name=name)
    return visit.redirect(DATASETS_PATH, message)


routes = [
    build_page_route(DATASETS_PATH, show_datasets, admin=True),
    build_form_route(DATASETS_PATH + "/{name}/sync", start_dataset_sync, admin=True),
    *build_record_routes(DATASETS_PATH, DatasetForms),
]
