"""Job files: text in four dialects -> the canonical Job -> text."""

from holdfast.core.codec import MASK, job_from_json, job_to_json
from holdfast.core.job import Dialect

from .defaults import Defaults
from .holdfast_schema import job_schema
from .openpai_render import render_openpai_yaml
from .parse import Parsed, parse_job, recognise
from .primehub import render_primehub_yaml
from .render import render_yaml
from .templates import Rendered, fill_secrets, render_templates

__all__ = [
    "MASK",
    "Defaults",
    "Dialect",
    "Parsed",
    "Rendered",
    "fill_secrets",
    "job_from_json",
    "job_schema",
    "job_to_json",
    "parse_job",
    "recognise",
    "render_openpai_yaml",
    "render_primehub_yaml",
    "render_templates",
    "render_yaml",
]
