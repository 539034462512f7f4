"""Names of Slurm jobs. Pure."""

from __future__ import annotations

from holdfast.engines.installation_names import InstallationNames as JobNames

__all__ = ["JobNames"]
