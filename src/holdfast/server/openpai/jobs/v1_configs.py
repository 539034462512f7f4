"""Job configs of OpenPAI's protocol v1: JSON, or a form in which every value is text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from starlette.requests import Request

from ..bodies import parse_json, read_body_text
from ..errors import PaiError
from ..forms import parse_form

_JOB_NUMBER_FIELDS = ("retryCount", "killAllOnCompletedTaskNumber")
_ROLE_NUMBER_FIELDS = (
    "taskNumber", "cpuNumber", "memoryMB", "gpuNumber", "shmMB", "minFailedTaskCount", "minSucceededTaskCount",
)  # fmt: skip
_PORT_NUMBER_FIELDS = ("beginAt", "portNumber")
_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,18}")


async def read_job_config(request: Request, name: str | None) -> str:
    """Return the config as JSON text. With `name`, the URL names the job; jobName can be omitted, but not differ."""
    text = await read_body_text(request)
    form = _is_form_request(request, text)
    if not form and name is None:
        return text  # unchanged, so that problems have line numbers
    config = convert_form(parse_form(text)) if form else parse_json(text)
    if name is not None and isinstance(config, dict):
        _check_job_name(config.setdefault("jobName", name), name)
    return json.dumps(config)


def convert_form(form: dict[str, Any]) -> dict[str, Any]:
    """Convert text to numbers where numbers are expected only: a "true" stays text."""
    config = _convert_numbers(form, _JOB_NUMBER_FIELDS)
    if isinstance(config.get("taskRoles"), list):
        config["taskRoles"] = [_convert_role(role) if isinstance(role, dict) else role for role in config["taskRoles"]]
    return config


def _convert_role(role: dict[str, Any]) -> dict[str, Any]:
    read = _convert_numbers(role, _ROLE_NUMBER_FIELDS)
    ports = read.get("portList")
    if isinstance(ports, list):
        read["portList"] = [
            _convert_numbers(port, _PORT_NUMBER_FIELDS) if isinstance(port, dict) else port for port in ports
        ]
    elif ports == "":  # an empty list in a form
        read["portList"] = []
    return read


def _convert_numbers(fields: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: _to_number(value) if key in names else value for key, value in fields.items()}


def _to_number(value: Any) -> Any:
    """Convert to a number; other values stay, for the validator to report. An empty text is null."""
    if value == "":
        return None
    return int(value) if isinstance(value, str) and _NUMBER_PATTERN.fullmatch(value) else value


def _is_form_request(request: Request, text: str) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded" and not text.lstrip().startswith("{")


def _check_job_name(written: Any, name: str) -> None:
    if written != name:
        message = f"jobName must be {name[:255]}, as in the URL."
        raise PaiError(400, "InvalidParametersError", message)
