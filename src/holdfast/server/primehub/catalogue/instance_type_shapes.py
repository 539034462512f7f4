"""Instance types in PrimeHub's shape, with stand-ins for deleted ones and for custom resource requests."""

from __future__ import annotations

from holdfast.core.catalogue import InstanceType
from holdfast.core.job import Job, Resources

from ..graphql.call import Call
from ..graphql.scalars import to_gigabytes
from ..json_object import JsonObject

CUSTOM_TYPE = "custom"  # of jobs with their own resource request


def instance_type_to_json(type: InstanceType) -> JsonObject:
    return {
        "id": type.name,
        "name": type.name,
        "displayName": type.display_name or type.name,
        "description": type.description,
        "cpuLimit": type.cpu,
        "memoryLimit": to_gigabytes(type.memory),
        "gpuLimit": type.gpu,
        "gpuResourceName": type.gpu_resource,
        "cpuRequest": type.cpu_request,
        "memoryRequest": to_gigabytes(type.memory_request),
        "tolerations": [dict(each) for each in type.tolerations],
        "nodeSelector": dict(type.node_selector),
        "global": type.everyone,
        "spec": _build_spec(type),
        "_groups": type.groups,
    }


def _build_spec(type: InstanceType) -> JsonObject:
    """Return the numbers with PrimeHub's names."""
    requests = {"cpu": type.cpu_request, "memory": _format_memory(type.memory_request)}
    return {
        "displayName": type.display_name or type.name,
        "description": type.description,
        "limits.cpu": type.cpu,
        "limits.memory": _format_memory(type.memory),
        "limits.gpu": type.gpu,
        "gpuResourceName": type.gpu_resource,
        **{f"requests.{name}": value for name, value in requests.items() if value is not None},
        "tolerations": [dict(each) for each in type.tolerations],
        "nodeSelector": dict(type.node_selector),
    }


def _format_memory(memory: int | None) -> str | None:
    return None if memory is None else f"{to_gigabytes(memory):g}G"


async def load_job_instance_type(call: Call, job: Job, *, gone: str) -> JsonObject:
    """Return the instance type of a job; `gone` is appended to the ID of a deleted one."""
    name = get_instance_type_name(job)
    known = await call.load_once("known types", call.services.instance_types.load_all)
    if name in known:
        return instance_type_to_json(known[name])
    first = job.roles[0].resources
    shown = _resources_to_json(first)
    if name:
        return {**shown, "id": f"{name}{gone}", "name": name, "displayName": name}
    return {**shown, "id": f"{CUSTOM_TYPE}{gone}", "name": CUSTOM_TYPE, "displayName": _describe_resources(first)}


def get_instance_type_name(job: Job) -> str:
    """Return the name; empty if the job has its own resource request."""
    kept = job.extras.get("primehub")
    return job.roles[0].instance_type or (str(kept.get("instanceType") or "") if isinstance(kept, dict) else "")


def _resources_to_json(resources: Resources) -> JsonObject:
    return {
        "cpuLimit": resources.cpu,
        "memoryLimit": to_gigabytes(resources.memory),
        "gpuLimit": resources.gpu,
        "cpuRequest": resources.cpu_request,
        "memoryRequest": to_gigabytes(resources.memory_request),
        "tolerations": [],
        "_groups": (),
    }


def _describe_resources(resources: Resources) -> str:
    parts = [f"{resources.cpu:g} CPU", f"{to_gigabytes(resources.memory):g} GB"]
    return ", ".join([*parts, f"{resources.gpu} GPU"] if resources.gpu else parts)
