"""Instance types as PrimeHub shows them: those there are, and what stands for one that is gone or never was."""

from __future__ import annotations

from typing import Any

from holdfast.core.catalogue import InstanceType
from holdfast.core.job import Job, Resources

from ..graphql.call import Call
from ..graphql.scalars import gigabytes

Shape = dict[str, Any]

CUSTOM = "custom"  # of jobs that say what they need themselves


def show_type(type: InstanceType) -> Shape:
    return {
        "id": type.name,
        "name": type.name,
        "displayName": type.display_name or type.name,
        "description": type.description,
        "cpuLimit": type.cpu,
        "memoryLimit": gigabytes(type.memory),
        "gpuLimit": type.gpu,
        "gpuResourceName": type.gpu_resource,
        "cpuRequest": type.cpu_request,
        "memoryRequest": gigabytes(type.memory_request),
        "tolerations": [dict(each) for each in type.tolerations],
        "nodeSelector": dict(type.node_selector),
        "global": type.everyone,
        "spec": _spec(type),
        "_groups": type.groups,
    }


def _spec(type: InstanceType) -> Shape:
    """With numbers under the names that PrimeHub's resources have."""
    requests = {"cpu": type.cpu_request, "memory": _quantity(type.memory_request)}
    return {
        "displayName": type.display_name or type.name,
        "description": type.description,
        "limits.cpu": type.cpu,
        "limits.memory": _quantity(type.memory),
        "limits.gpu": type.gpu,
        "gpuResourceName": type.gpu_resource,
        **{f"requests.{name}": value for name, value in requests.items() if value is not None},
        "tolerations": [dict(each) for each in type.tolerations],
        "nodeSelector": dict(type.node_selector),
    }


def _quantity(memory: int | None) -> str | None:
    return None if memory is None else f"{gigabytes(memory):g}G"


async def size_of(call: Call, job: Job, *, gone: str) -> Shape:
    """The instance type that a job names; `gone` is put behind the id of one there is no more."""
    name = named_type(job)
    known = await call.once("known types", call.services.instance_types.known)
    if name in known:
        return show_type(known[name])
    first = job.roles[0].resources
    shown = _show_numbers(first)
    if name:
        return {**shown, "id": f"{name}{gone}", "name": name, "displayName": name}
    return {**shown, "id": f"{CUSTOM}{gone}", "name": CUSTOM, "displayName": _in_words(first)}


def named_type(job: Job) -> str:
    """Empty: its numbers are its own."""
    kept = job.extras.get("primehub")
    return job.roles[0].instance_type or (str(kept.get("instanceType") or "") if isinstance(kept, dict) else "")


def _show_numbers(resources: Resources) -> Shape:
    return {
        "cpuLimit": resources.cpu,
        "memoryLimit": gigabytes(resources.memory),
        "gpuLimit": resources.gpu,
        "cpuRequest": resources.cpu_request,
        "memoryRequest": gigabytes(resources.memory_request),
        "tolerations": [],
        "_groups": (),
    }


def _in_words(resources: Resources) -> str:
    parts = [f"{resources.cpu:g} CPU", f"{gigabytes(resources.memory):g} GB"]
    return ", ".join([*parts, f"{resources.gpu} GPU"] if resources.gpu else parts)
