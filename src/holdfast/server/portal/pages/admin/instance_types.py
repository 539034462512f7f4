"""Instance types: the sizes that jobs choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from holdfast.core.catalogue import InstanceType
from holdfast.core.errors import UserError
from holdfast.core.job import GIB
from holdfast.core.messages import msg
from holdfast.services.catalogue.instance_type_rules import GPU_RESOURCES
from holdfast.services.catalogue.instance_types import InstanceTypeChange

from ...amounts import number_text, read_size, read_variables, size_text, variables_text
from ...fields import (
    FORM,
    Choice,
    ConfirmPage,
    Field,
    FormPage,
    Link,
    Section,
    mark_of,
    read_grants,
    try_confirm,
    try_form,
)
from ...forms import Form
from ...listing import Listed, listed
from ...routes import page
from ...visit import Visit
from .addresses import edit_path, edit_routes
from .choices import naming, who_may

HOME = "/admin/instance-types"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeListPage:
    types: Listed[InstanceType]


async def show_types(visit: Visit) -> Response:
    types = await visit.services.instance_types.list(visit.who)
    found = listed(visit, types, lambda type: f"{type.name} {type.display_name} {type.description}")
    return await visit.show("admin/instance_types.html", InstanceTypeListPage(types=found))


# -- the form


async def _sections(visit: Visit, *, new: bool) -> tuple[Section, ...]:
    say = visit.say
    help = say("Small letters, digits, dashes and dots. It cannot be changed later.")
    return (
        Section(title="", fields=naming(visit, name_help=help, new=new)),
        Section(title=say("Size"), fields=_size_fields(visit)),
        await who_may(visit),
        Section(title=say("More"), fields=_more_fields(visit), folded=True),
    )


def _size_fields(visit: Visit) -> tuple[Field, ...]:
    say = visit.say
    return (
        Field(name="cpu", label=say("CPU cores"), kind="number", required=True),
        Field(name="memory", label=say("Memory"), required=True, help=say("Such as 512 MiB or 4 GiB.")),
        Field(name="gpu", label=say("GPUs"), kind="whole"),
    )


def _more_fields(visit: Visit) -> tuple[Field, ...]:
    say = visit.say
    lent = say("Empty: all of it. Less lets a machine take more tasks than it has room for.")
    return (
        Field(name="cpu_request", label=say("CPU cores that must be free"), kind="number", help=lent),
        Field(name="memory_request", label=say("Memory that must be free"), help=lent),
        Field(
            name="gpu_resource",
            label=say("Kind of GPU"),
            kind="select",
            choices=tuple(Choice(name, name) for name in GPU_RESOURCES),
        ),
        Field(
            name="node_selector",
            label=say("Labels of machines"),
            kind="area",
            example="disk=ssd",
            help=say("NAME=VALUE, one on each line; for engines that know labels."),
        ),
        Field(
            name="tolerations",
            label=say("Tolerations"),
            kind="area",
            example="dedicated=gpu:NoSchedule",
            help=say("KEY=VALUE:EFFECT or KEY:EFFECT, one on each line; for engines that know them."),
        ),
    )


def _values(type: InstanceType) -> dict[str, Any]:
    return {
        "name": type.name,
        "display_name": type.display_name,
        "description": type.description,
        "cpu": number_text(type.cpu),
        "memory": size_text(type.memory),
        "gpu": number_text(type.gpu),
        "cpu_request": number_text(type.cpu_request),
        "memory_request": size_text(type.memory_request),
        "gpu_resource": type.gpu_resource,
        "node_selector": variables_text(type.node_selector),
        "tolerations": "\n".join(map(toleration_text, type.tolerations)),
        "everyone": type.everyone,
        "groups": dict.fromkeys(type.groups, False),
    }


def _read(form: Form) -> dict[str, Any]:
    cpu, memory = form.number("cpu"), read_size(form, "memory")
    if cpu is None:
        raise UserError(msg("Say how many cores it has"), field="cpu")
    if memory is None:
        raise UserError(msg("Say how much memory it has"), field="memory")
    return {
        "display_name": form.text("display_name"),
        "description": form.text("description"),
        "cpu": cpu,
        "memory": memory,
        "gpu": form.whole("gpu") or 0,
        "cpu_request": form.number("cpu_request"),
        "memory_request": read_size(form, "memory_request"),
        "gpu_resource": form.text("gpu_resource"),
        "node_selector": read_variables(form, "node_selector"),
        "tolerations": tuple(map(read_toleration, filter(None, map(str.strip, form.raw("tolerations").split("\n"))))),
        "everyone": form.is_on("everyone"),
        "groups": tuple(read_grants(form)),
    }


def read_toleration(line: str) -> dict[str, str]:
    """As kubectl writes taints: key=value:Effect, key:Effect, key. What it may be, the service says."""
    rest, _, effect = line.partition(":")
    key, equal, value = rest.partition("=")
    found = {"operator": "Equal" if equal else "Exists", "key": key.strip(), "effect": effect.strip()}
    return {**found, "value": value.strip()} if equal else found


def toleration_text(toleration: Mapping[str, Any]) -> str:
    value, effect = toleration.get("value"), toleration.get("effect")
    return f"{toleration.get('key', '')}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"


# -- a new one


async def show_new(visit: Visit) -> Response:
    return await visit.show(FORM, await _new_form(visit))


async def add(visit: Visit, form: Form) -> Response:
    async def work() -> Response:
        made = InstanceType(name=form.text("name"), **_read(form))
        await visit.services.instance_types.create(visit.who, made)
        return visit.go(HOME, visit.say("Instance type {name} is added.", name=made.name))

    return await try_form(visit, await _new_form(visit), form, work)


async def _new_form(visit: Visit) -> FormPage:
    return FormPage(
        title=visit.say("Add an instance type"),
        action=f"{HOME}/new",
        back=_back(visit),
        submit=visit.say("Add"),
        sections=await _sections(visit, new=True),
        values=_values(InstanceType(name="", memory=4 * GIB)),
    )


def _back(visit: Visit) -> Link:
    return Link(HOME, visit.say("Instance types"))


# -- changing


async def show_one(visit: Visit) -> Response:
    return await visit.show(FORM, await _form_of(visit, await _named(visit)))


async def change(visit: Visit, form: Form) -> Response:
    type = await _named(visit)

    async def work() -> Response:
        await visit.services.instance_types.change(visit.who, type.name, InstanceTypeChange(**_read(form)))
        return visit.go(HOME, visit.say("Instance type {name} is changed.", name=type.name))

    return await try_form(visit, await _form_of(visit, type), form, work)


async def _named(visit: Visit) -> InstanceType:
    return await visit.services.instance_types.get(visit.who, visit.request.path_params["name"])


async def _form_of(visit: Visit, type: InstanceType) -> FormPage:
    values = _values(type)
    return FormPage(
        title=type.name,
        action=edit_path(HOME, type.name, "edit"),
        back=_back(visit),
        submit=visit.say("Save"),
        about=visit.say("Jobs that were submitted before keep the size they had; their reruns get the new one."),
        sections=await _sections(visit, new=False),
        values=values,
        seen=mark_of(values),
        links=(Link(edit_path(HOME, type.name, "delete"), visit.say("Remove"), "danger"),),
    )


# -- removing


async def ask_removal(visit: Visit) -> Response:
    return await visit.show("parts/confirm.html", _removal(visit, await _named(visit)))


async def remove(visit: Visit, form: Form) -> Response:
    type = await _named(visit)

    async def work() -> Response:
        await visit.services.instance_types.delete(visit.who, type.name)
        return visit.go(HOME, visit.say("Instance type {name} is removed.", name=type.name))

    return await try_confirm(visit, _removal(visit, type), work)


def _removal(visit: Visit, type: InstanceType) -> ConfirmPage:
    say = visit.say
    return ConfirmPage(
        title=say("Remove the instance type {name}?", name=type.name),
        points=(
            say("Jobs that were submitted before stay as they are, and cannot be rerun."),
            say("Recurring jobs that name it do not run any more."),
        ),
        action=edit_path(HOME, type.name, "delete"),
        submit=say("Remove"),
        back=Link(edit_path(HOME, type.name, "edit"), type.name),
    )


routes = [
    page(HOME, show_types, admin=True),
    *edit_routes(HOME, new=(show_new, add), edit=(show_one, change), delete=(ask_removal, remove)),
]
