"""A placed task -> the Launch an engine starts. Pure: what must be looked up comes in as `LaunchContext`."""

from .admin_variables import dataset_variables, mlflow_variables
from .build import Launcher
from .context import ArtifactLimits, Gateway, LaunchContext, Platform, PrimeHub, wants_job_key, wants_user_keys

__all__ = [
    "ArtifactLimits",
    "Gateway",
    "LaunchContext",
    "Launcher",
    "Platform",
    "PrimeHub",
    "dataset_variables",
    "mlflow_variables",
    "wants_job_key",
    "wants_user_keys",
]
