"""Default values of the installation for jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.core.job import DEFAULT_GROUP, HOST_IMAGE, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    resources: Resources = field(default_factory=Resources)
    image: str = HOST_IMAGE
    group: str = DEFAULT_GROUP
    instance_types: Mapping[str, Resources] = field(default_factory=dict)  # by name
    job_name: str = ""  # of a batch script that sets none: the name of its file
    user: str | None = None  # submitting user, for $PAI_USER_NAME in OpenPAI v1 paths; None: not replaced
    file_system: str = ""  # for $PAI_DEFAULT_FS_URI in OpenPAI v1 paths
