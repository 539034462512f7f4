"""The JSON Schema of Holdfast's job file."""

from __future__ import annotations

import json
from typing import Any

from .holdfast_keys import JOB_KEYS
from .kinds import build_schema


def build_job_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the file as a YAML 1.2 parser sees it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast job",
        "description": "A job for Holdfast: what to run, in which image, with which resources.",
        **build_schema(JOB_KEYS),
        "required": ["name"],
        "anyOf": [{"required": ["command"]}, {"required": ["commands"]}, {"required": ["roles"]}],
        "not": {"required": ["command", "commands"]},
    }
    copied: dict[str, Any] = json.loads(json.dumps(schema))  # a copy, so that the tables cannot be changed
    return copied
