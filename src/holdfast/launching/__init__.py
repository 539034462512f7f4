"""Builds the Launch of a placed task. Pure: external data comes in as `LaunchContext`."""

from .admin_variables import make_dataset_variables, make_mlflow_variables
from .build import AttemptLaunchBuilder
from .context import (
    ArtifactLimits,
    GatewayAddress,
    LaunchContext,
    PrimeHubContext,
    PrimeHubSettings,
    needs_job_key,
    needs_user_keys,
)

__all__ = [
    "ArtifactLimits",
    "AttemptLaunchBuilder",
    "GatewayAddress",
    "LaunchContext",
    "PrimeHubContext",
    "PrimeHubSettings",
    "make_dataset_variables",
    "make_mlflow_variables",
    "needs_job_key",
    "needs_user_keys",
]
