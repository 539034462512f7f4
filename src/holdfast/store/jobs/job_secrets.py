"""The secret values that a job was given: its own, and the variables of datasets and of its group's MLflow."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.job import Job
from holdfast.core.masking import secret_values, variable_values

from .. import datasets, people
from .records import load_job


def values_given_to(conn: Connection, job_id: str) -> list[str]:
    """Those long enough to be hidden, as of now; none when there is no such job."""
    job = load_job(conn, job_id)
    if job is None:
        return []
    return [*secret_values(job.secrets), *_variables(conn, job)]


def _variables(conn: Connection, job: Job) -> list[str]:
    """A variable that was changed since the job ran is not among them."""
    names = [
        each.name
        for each in datasets.list_datasets(conn)
        if each.kind == "env" and (each.everyone or job.group in each.groups or each.name in job.datasets)
    ]
    given = list(datasets.variables_of(conn, names).values()) if names else []
    mlflow = people.group_mlflow(conn, job.group)
    if mlflow is not None:
        given += [dict(mlflow.tracking_envs), dict(mlflow.artifact_envs)]
    return [value for each in given for value in variable_values(each)]
