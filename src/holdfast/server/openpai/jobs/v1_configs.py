"""Job configs of OpenPAI's first protocol as they arrive: JSON, or a form in which every value is text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from starlette.requests import Request

from ..bodies import parse_json, read_text
from ..errors import PaiError
from ..forms import parse_form

_NUMBERS = ("retryCount", "killAllOnCompletedTaskNumber")
_ROLE_NUMBERS = (
    "taskNumber", "cpuNumber", "memoryMB", "gpuNumber", "shmMB", "minFailedTaskCount", "minSucceededTaskCount",
)  # fmt: skip
_PORT_NUMBERS = ("beginAt", "portNumber")
_NUMBER = re.compile(r"-?[0-9]{1,18}")


async def read_config(request: Request, name: str | None) -> str:
    """As JSON text. With `name`, the address says which job it is; the config may leave that out, but not differ."""
    text = await read_text(request)
    form = _is_form(request, text)
    if not form and name is None:
        return text  # as it came, so that what is said about it has lines
    config = from_form(parse_form(text)) if form else parse_json(text)
    if name is not None and isinstance(config, dict):
        _check_name(config.setdefault("jobName", name), name)
    return json.dumps(config)


def from_form(form: dict[str, Any]) -> dict[str, Any]:
    """Text becomes a number where a number belongs, and nowhere else: a "true" stays text."""
    config = _with_numbers(form, _NUMBERS)
    if isinstance(config.get("taskRoles"), list):
        config["taskRoles"] = [_role(role) if isinstance(role, dict) else role for role in config["taskRoles"]]
    return config


def _role(role: dict[str, Any]) -> dict[str, Any]:
    read = _with_numbers(role, _ROLE_NUMBERS)
    ports = read.get("portList")
    if isinstance(ports, list):
        read["portList"] = [_with_numbers(port, _PORT_NUMBERS) if isinstance(port, dict) else port for port in ports]
    elif ports == "":  # how a form says that a list is empty
        read["portList"] = []
    return read


def _with_numbers(fields: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: _number(value) if key in names else value for key, value in fields.items()}


def _number(value: Any) -> Any:
    """What is no number stays as it is, for the reader of configs to say so. Nothing is null."""
    if value == "":
        return None
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _is_form(request: Request, text: str) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded" and not text.lstrip().startswith("{")


def _check_name(written: Any, name: str) -> None:
    if written != name:
        message = f"jobName must be {name[:255]}, as in the address."
        raise PaiError(400, "InvalidParametersError", message)
