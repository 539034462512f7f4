"""Job files: text in five file formats -> the canonical Job -> text."""

from holdfast.core.codec import MASK, job_from_json, job_to_json
from holdfast.core.job import JobFormat

from .defaults import Defaults
from .holdfast_schema import build_job_schema
from .openpai_render import render_openpai_yaml
from .parse import ParsedJob, detect_format, parse_job
from .primehub import render_primehub_yaml
from .render import render_yaml
from .sbatch import render_sbatch_script
from .templates import RenderedText, fill_secrets, render_templates

__all__ = [
    "MASK",
    "Defaults",
    "JobFormat",
    "ParsedJob",
    "RenderedText",
    "build_job_schema",
    "detect_format",
    "fill_secrets",
    "job_from_json",
    "job_to_json",
    "parse_job",
    "render_openpai_yaml",
    "render_primehub_yaml",
    "render_sbatch_script",
    "render_templates",
    "render_yaml",
]
