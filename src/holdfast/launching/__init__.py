"""A placed task -> the Launch an engine starts. Pure: what must be looked up comes in as `LaunchContext`."""

from .build import Launcher
from .given import dataset_variables, mlflow_variables
from .surroundings import ArtifactLimits, Gateway, LaunchContext, Platform, PrimeHub, wants_job_key, wants_user_keys

__all__ = [
    "ArtifactLimits",
    "Gateway",
    "Launcher",
    "Platform",
    "PrimeHub",
    "LaunchContext",
    "dataset_variables",
    "mlflow_variables",
    "wants_job_key",
    "wants_user_keys",
]
