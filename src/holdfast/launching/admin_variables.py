"""Variables that admins give to jobs: by datasets of the kind env, and by a group's MLflow. They may contain
passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.core.records import Mlflow

_INVALID_NAME_CHAR_PATTERN = re.compile(r"[^A-Z0-9_]")


def make_dataset_variables(found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Name the variables of datasets DATASET_KEY. No shell can set a name with a dash or a dot in it, so such a
    variable has a second name with underscores."""
    named = {f"{name}_{key}".upper(): value for name, own in found.items() for key, value in own.items()}
    plain = {_INVALID_NAME_CHAR_PATTERN.sub("_", name): value for name, value in named.items()}
    return {**plain, **named}


def make_mlflow_variables(mlflow: Mlflow) -> dict[str, str]:
    variables = {"MLFLOW_TRACKING_URI": mlflow.tracking_uri, "MLFLOW_UI_URL": mlflow.ui_url}
    return {
        **mlflow.artifact_envs,
        **mlflow.tracking_envs,
        **{name: value for name, value in variables.items() if value},
    }
