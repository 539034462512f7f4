"""Builds the Launch of a placed task. Pure: external data comes in as `LaunchContext`."""

from .admin_variables import make_dataset_variables, make_mlflow_variables
from .build import Launcher
from .context import (
    ArtifactLimits,
    GatewayAddress,
    LaunchContext,
    PrimeHubContext,
    PrimeHubPlatform,
    wants_job_key,
    wants_user_keys,
)

__all__ = [
    "ArtifactLimits",
    "GatewayAddress",
    "LaunchContext",
    "Launcher",
    "PrimeHubContext",
    "PrimeHubPlatform",
    "make_dataset_variables",
    "make_mlflow_variables",
    "wants_job_key",
    "wants_user_keys",
]
