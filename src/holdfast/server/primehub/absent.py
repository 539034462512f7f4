"""What PrimeHub has and Holdfast has not: apps, deployments, models. Lists of them are empty, changes are refused."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from .errors import NOT_FOUND, PhError, not_found
from .graphql.call import Info
from .graphql.paging import connect

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


@query.field("phAppTemplates")
@query.field("phDeployments")
@query.field("models")
@query.field("modelVersions")
@query.field("mlflowRuns")
@query.field("mlflowArtifact")
def list_none(_: Any, info: Info, **args: Any) -> list[Any]:
    return []


@query.field("phApplicationsConnection")
@query.field("phDeploymentsConnection")
def connect_none(_: Any, info: Info, **args: Any) -> dict[str, Any]:
    return connect([], args)


@query.field("model")
@query.field("modelVersion")
def find_none(_: Any, info: Info, where: dict[str, Any]) -> None:
    return None


@query.field("phDeployment")
def find_no_deployment(_: Any, info: Info, where: dict[str, Any]) -> None:
    raise not_found("phdeployments", where["id"])


@mutation.field("createPhApplication")
def refuse_app(_: Any, info: Info, **args: Any) -> None:
    raise PhError("Holdfast runs no apps")


@mutation.field("updatePhApplication")
@mutation.field("startPhApplication")
@mutation.field("stopPhApplication")
@mutation.field("deletePhApplication")
def find_no_app(_: Any, info: Info, where: dict[str, Any], **args: Any) -> None:
    raise not_found("phapplications", where["id"])


@mutation.field("createPhDeployment")
def refuse_deployment(_: Any, info: Info, **args: Any) -> None:
    raise PhError("Holdfast runs no deployments")


@mutation.field("updatePhDeployment")
@mutation.field("deployPhDeployment")
@mutation.field("stopPhDeployment")
@mutation.field("deletePhDeployment")
def change_no_deployment(_: Any, info: Info, where: dict[str, Any], **args: Any) -> None:
    raise not_found("phdeployments", where["id"])


@mutation.field("registerModel")
def refuse_model(_: Any, info: Info, where: dict[str, Any]) -> None:
    raise PhError("Holdfast keeps no models", NOT_FOUND)
