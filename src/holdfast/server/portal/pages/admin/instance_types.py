"""Admin pages of instance types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import UserError
from holdfast.core.job import GIB
from holdfast.core.messages import msg
from holdfast.core.slurm_options import SLURM_OPTION_NAMES
from holdfast.services.catalogue.instance_type_rules import GPU_RESOURCES
from holdfast.services.catalogue.instance_types import InstanceTypeChange, InstanceTypes

from ...fields import Field, Section, SelectOption, read_grants_field
from ...form_values import (
    format_number_input,
    format_size_input,
    format_variables,
    read_size_field,
    read_variables_field,
)
from ...forms import Form
from ...listing import filter_and_paginate
from ...routes import build_page_route
from ...translations import N_
from ...visit import Visit
from .choices import build_grant_section, build_name_fields
from .record_forms import RecordForms, RecordTexts, build_record_routes
from .slurm_fields import build_slurm_sections, make_slurm_values, read_slurm_fields

INSTANCE_TYPES_PATH = "/admin/instance-types"


async def show_instance_types(visit: Visit) -> Response:
    types = await visit.services.instance_types.list(visit.current_actor)
    found = filter_and_paginate(visit, types, lambda type: f"{type.name} {type.display_name} {type.description}")
    return await visit.render_response("admin/instance_types.html", found)


class InstanceTypeForms(RecordForms[InstanceType]):
    path = INSTANCE_TYPES_PATH
    texts = RecordTexts(
        list=N_("Instance types"),
        add=N_("Add an instance type"),
        added=N_("Instance type {name} was added."),
        changed=N_("Instance type {name} was changed."),
        remove=N_("Delete the instance type {name}?"),
        removed=N_("Instance type {name} was deleted."),
        about_edit=N_("Jobs that are already submitted keep their size. Reruns use the new one."),
    )

    @property
    def service(self) -> InstanceTypes:
        return self.services.instance_types

    async def build_sections(self, record: InstanceType | None) -> tuple[Section, ...]:
        visit, _ = self.visit, self.visit.translate_text
        help = _("Lowercase letters, digits, dashes and dots. It cannot be changed later.")
        return (
            Section("", build_name_fields(visit, name_help=help, new=record is None)),
            Section(_("Size"), _build_size_fields(visit)),
            await build_grant_section(visit),
            *build_slurm_sections(
                visit, _("Options of tasks of this type for Slurm. Jobs override them."), SLURM_OPTION_NAMES
            ),
            Section(_("More"), _build_advanced_fields(visit), folded=True),
        )

    async def build_values(self, record: InstanceType | None) -> dict[str, Any]:
        return _type_to_values(record or InstanceType(name="", memory=4 * GIB))

    async def create_record(self, form: Form) -> Response:
        type = InstanceType(name=form.get_text("name"), **_read_type_form(form))
        await self.service.create(self.actor, type)
        return self.redirect_to_list(self.texts.added, type.name)

    async def update_record(self, record: InstanceType, form: Form) -> None:
        await self.service.change(self.actor, record.name, InstanceTypeChange(**_read_type_form(form)))

    async def describe_removal(self, record: InstanceType) -> list[str]:
        _ = self.visit.translate_text
        return [
            _("Jobs that are already submitted are not affected, but cannot be rerun."),
            _("Schedules that use it no longer run."),
        ]


# -- fields


def _build_size_fields(visit: Visit) -> tuple[Field, ...]:
    _ = visit.translate_text
    return (
        Field("cpu", _("CPU cores"), kind="number", required=True),
        Field("memory", _("Memory"), required=True, help=_("For example 512 MiB or 4 GiB.")),
        Field("gpu", _("GPUs"), kind="whole"),
    )


def _build_advanced_fields(visit: Visit) -> tuple[Field, ...]:
    _ = visit.translate_text
    request_help = _("Empty: the full amount. A lower value lets nodes run more tasks than they have resources for.")
    return (
        Field("cpu_request", _("CPU request (cores)"), kind="number", help=request_help),
        Field("memory_request", _("Memory request"), help=request_help),
        Field(
            "gpu_resource",
            _("GPU type"),
            kind="select",
            choices=tuple(SelectOption(name, name) for name in GPU_RESOURCES),
        ),
        Field(
            "node_selector",
            _("Node labels"),
            kind="area",
            example="disk=ssd",
            help=_("NAME=VALUE, one per line. Only for engines that support node labels."),
        ),
        Field(
            "tolerations",
            _("Tolerations"),
            kind="area",
            example="dedicated=gpu:NoSchedule",
            help=_("KEY=VALUE:EFFECT or KEY:EFFECT, one per line. Only for engines that support tolerations."),
        ),
    )


def _type_to_values(type: InstanceType) -> dict[str, Any]:
    return {
        "name": type.name,
        "display_name": type.display_name,
        "description": type.description,
        "cpu": format_number_input(type.cpu),
        "memory": format_size_input(type.memory),
        "gpu": format_number_input(type.gpu),
        "cpu_request": format_number_input(type.cpu_request),
        "memory_request": format_size_input(type.memory_request),
        "gpu_resource": type.gpu_resource,
        "node_selector": format_variables(type.node_selector),
        "tolerations": "\n".join(map(format_toleration, type.tolerations)),
        **make_slurm_values(type.slurm),
        "everyone": type.everyone,
        "groups": dict.fromkeys(type.groups, False),
    }


def _read_type_form(form: Form) -> dict[str, Any]:
    cpu, memory = form.get_number("cpu"), read_size_field(form, "memory")
    if cpu is None:
        raise UserError(msg("Enter the number of CPU cores"), field="cpu")
    if memory is None:
        raise UserError(msg("Enter the amount of memory"), field="memory")
    return {
        "display_name": form.get_text("display_name"),
        "description": form.get_text("description"),
        "cpu": cpu,
        "memory": memory,
        "gpu": form.get_integer("gpu") or 0,
        "cpu_request": form.get_number("cpu_request"),
        "memory_request": read_size_field(form, "memory_request"),
        "gpu_resource": form.get_text("gpu_resource"),
        "node_selector": read_variables_field(form, "node_selector"),
        "tolerations": tuple(
            map(parse_toleration, filter(None, map(str.strip, form.get_raw_text("tolerations").split("\n"))))
        ),
        **read_slurm_fields(form),
        "everyone": form.is_checked("everyone"),
        "groups": tuple(read_grants_field(form)),
    }


def parse_toleration(line: str) -> dict[str, str]:
    """Parse a toleration like kubectl: key=value:Effect, key:Effect, key. The service validates it."""
    pair, _, effect = line.partition(":")
    key, equal, value = pair.partition("=")
    found = {"operator": "Equal" if equal else "Exists", "key": key.strip(), "effect": effect.strip()}
    return {**found, "value": value.strip()} if equal else found


def format_toleration(toleration: Mapping[str, Any]) -> str:
    value, effect = toleration.get("value"), toleration.get("effect")
    return f"{toleration.get('key', '')}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"


routes = [
    build_page_route(INSTANCE_TYPES_PATH, show_instance_types, admin=True),
    *build_record_routes(INSTANCE_TYPES_PATH, InstanceTypeForms),
]
