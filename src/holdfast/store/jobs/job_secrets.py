"""Secret values of a job: its own, and the variables of datasets and of its group's MLflow."""

from __future__ import annotations

from sqlalchemy import Connection

from holdfast.core.job import Job
from holdfast.core.masking import iter_maskable_secret_values, iter_maskable_variable_values

from .. import datasets, people
from .records import load_job


def list_job_secret_values(conn: Connection, job_id: str) -> list[str]:
    """Return the current values that are long enough to be masked; none if the job does not exist."""
    job = load_job(conn, job_id)
    if job is None:
        return []
    return [*iter_maskable_secret_values(job.secrets), *_list_variable_values(conn, job)]


def _list_variable_values(conn: Connection, job: Job) -> list[str]:
    """Return current values only: a variable that was changed since the job ran is not included."""
    names = [
        each.name
        for each in datasets.list_datasets(conn)
        if each.kind == "env" and (each.everyone or job.group in each.groups or each.name in job.datasets)
    ]
    given = list(datasets.load_dataset_variables(conn, names).values()) if names else []
    mlflow = people.load_group_mlflow(conn, job.group)
    if mlflow is not None:
        given += [dict(mlflow.tracking_envs), dict(mlflow.artifact_envs)]
    return [value for each in given for value in iter_maskable_variable_values(each)]
